// What a machine with a GPU needs to run a first day (bench/gpu-day): Node, the tree of an installation, and all programs as
// nvcc has built them. Programs have the CUDA runtime in them, each the same: Brotli with a window over all of them takes it
// once, which gzip cannot, and Node has it, so that the target needs nothing. Node itself is packed by zstd, for which a small
// program comes along. The rest is a .tar.gz, which anybody can open.
import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createBrotliCompress } from 'node:zlib';
import { build, js, root } from '../../bin/paths.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask } from './control.mjs';
import { buildArchive } from './deb.mjs';
import { copy, files, put, stageTree, strip } from './tree.mjs';

const most = 44 << 20;
/** 256 MiB: all programs. */
const windowBits = 28;
/** Higher ones take three times as long for a twentieth less. */
const quality = 7;
/** A seventh less than gzip makes of it. Level 15 takes three times as long for a hundredth less. */
const nodeLevel = 12;
const unpacks = 'bench/gpu-day-unpack';

const measuring = [
  'bench/bench-gate',
  'bench/bench-measure',
  'bench/gpu-day-probe',
  'bench/spin',
  'test/sequences/driver-sequences',
];
/** Sources that are compiled or read there. */
const sources = ['examples/programs.json', 'examples/vector-add.cu'];
const headers = 'examples/support';
const recorded = 'bench/results/gpu/nvidia-like.json';
const scripts = 'bench/gpu-day/frameworks';

/**
 * @param {string} out the folder for it
 * @param {import('./deb.mjs').Release} release
 * @returns {Promise<string>} the archive
 */
export async function gpuDayArchive(out, release) {
  const name = 'outboard-gpu-day';
  const stage = join(out, name);
  const tree = join(out, `${name}-tree`);
  for (const folder of [stage, tree]) rmSync(folder, { recursive: true, force: true });
  mkdirSync(stage, { recursive: true });

  await stageTree(tree, { parts: ['bench/gpu-day'], native: measuring, optional: false });
  for (const file of [...sources, recorded]) copy(join(root, file), join(tree, file));
  for (const file of files(join(root, headers), (one) => one.endsWith('.h')))
    copy(file, join(tree, headers, basename(file)));
  for (const file of files(join(root, scripts), (one) => one.endsWith('.py')))
    copy(file, join(tree, scripts, basename(file)));
  const { listed } = await import(join(js, 'bench', 'gpu-day', 'programs.js'));
  /** @type {{ folder: string, name: string }[]} */
  const programs = listed();
  // Left out of the list, and needed by name.
  const endless = join('test-programs', 'endless-kernel');
  const placed = [...programs.map((one) => join(one.folder, one.name)), endless].map((file) => {
    const place = join(tree, 'build', file);
    copy(join(build, file), place, 0o755);
    return place;
  });
  // Of the host's part, symbols of debuggers; the device's part is a section that stays as it is.
  await strip(placed);
  put(join(tree, 'gpu-day-programs.json'), `${JSON.stringify(programs)}\n`);
  await packTree(tree, join(stage, 'tree.tar.br'));
  rmSync(tree, { recursive: true });

  copy(join(root, 'bench', 'gpu-day', 'gpu-day.mjs'), join(stage, 'gpu-day.mjs'));
  copy(join(root, 'bench', 'gpu-day', 'gpu-day.sh'), join(stage, 'gpu-day'), 0o755);
  copy(join(root, 'LICENSE'), join(stage, 'LICENSE'));
  await stageNode(stage);
  const archive = join(out, `${name}.tar.gz`);
  await buildArchive(stage, archive, release);
  rmSync(stage, { recursive: true });
  const { size } = statSync(archive);
  if (size > most)
    throw new SetupError(`${archive} has ${mebibytes(size)}, and may have ${mebibytes(most)}.`);
  return archive;
}

/** @param {number} bytes */
export const mebibytes = (bytes) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;

/** Node that runs here, and the libraries of C++ for machines that have none. @param {string} stage */
async function stageNode(stage) {
  const node = join(stage, 'node');
  copy(realpathSync(process.execPath), node, 0o755);
  const linked = await ask(['ldd', node]);
  const libraries = ['libstdc++.so.6', 'libgcc_s.so.1'].flatMap((name) => {
    const [, file] = new RegExp(`${name.replaceAll('+', '\\+')} => (\\S+)`).exec(linked) ?? [];
    return file ? [file] : [];
  });
  for (const file of libraries) copy(realpathSync(file), join(stage, 'lib', basename(file)));
  const unpack = join(stage, 'unpack');
  copy(join(build, unpacks), unpack, 0o755);
  await strip([node, unpack, ...libraries.map((file) => join(stage, 'lib', basename(file)))]);
  // No larger window than every decoder takes.
  await ask(['zstd', '-q', '--rm', `-${nodeLevel}`, '--long=27', node, '-o', `${node}.zst`]);
}

/** @param {string} tree @param {string} file */
async function packTree(tree, file) {
  const tar = `${file}.tar`;
  await ask([
    'tar',
    '--sort=name',
    '--owner=root:0',
    '--group=root:0',
    '-C',
    tree,
    '-cf',
    tar,
    '.',
  ]);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: quality,
    [constants.BROTLI_PARAM_LGWIN]: windowBits,
    [constants.BROTLI_PARAM_LARGE_WINDOW]: 1,
    // Or it does not look far back.
    [constants.BROTLI_PARAM_SIZE_HINT]: statSync(tar).size,
  };
  await pipeline(createReadStream(tar), createBrotliCompress({ params }), createWriteStream(file));
  rmSync(tar);
}
