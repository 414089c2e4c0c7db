// node gpu-day.mjs [OPTION...]: runs a first day on a GPU from a bundle (docs/gpu-day.md). The first time it unpacks what lies
// beside it; all else is in bench/gpu-day/main.ts.
import { spawn } from 'node:child_process';
import { createReadStream, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { pathToFileURL } from 'node:url';
import { constants, createBrotliDecompress } from 'node:zlib';

const here = import.meta.dirname;
const tree = join(here, 'tree');

async function unpack() {
  const partial = join(here, `tree.${process.pid}`);
  const clean = () => rmSync(partial, { recursive: true, force: true });
  process.once('exit', clean);
  mkdirSync(partial);
  const tar = spawn('tar', ['-x', '--no-same-owner', '-C', partial], {
    stdio: ['pipe', 'inherit', 'pipe'],
  });
  let said = '';
  tar.stderr.setEncoding('utf8').on('data', (text) => {
    said += text;
  });
  const ended = new Promise((resolve, reject) => {
    tar.once('error', reject);
    tar.once('close', (code) => {
      if (code === 0) resolve(null);
      else reject(new Error(`tar ended with ${code}: ${said.trim()}`));
    });
  });
  ended.catch(() => {});
  // What tar says is worth more than that it no longer reads.
  await pipeline(
    createReadStream(join(here, 'tree.tar.br')),
    createBrotliDecompress({ params: { [constants.BROTLI_DECODER_PARAM_LARGE_WINDOW]: 1 } }),
    tar.stdin,
  ).catch((error) => ended.then(() => Promise.reject(error)));
  await ended;
  renameSync(partial, tree);
}

if (!existsSync(tree)) {
  try {
    await unpack();
  } catch (error) {
    process.stderr.write(
      `The bundle cannot be unpacked: ${error.message}\n` +
        'It needs tar, and 300 MB of room in a folder that can be written: move it to such a place.\n',
    );
    process.exit(3);
  }
}
process.env.GPU_DAY_OUT ??= join(here, 'results');
await import(pathToFileURL(join(tree, 'build', 'js', 'bench', 'gpu-day', 'main.js')).href);
