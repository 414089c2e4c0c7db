// Builds one sample with nvcc, for a device that takes PTX.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { isGraphics, type Sample } from './sample.js';

export interface Toolkit {
  nvcc: string;
  /** "13.0.88" */
  version: string;
  home: string;
  /** Further folders with include/ and lib/, for cuBLAS and the like. */
  libraries: string[];
}

export type Built = { program: string; flags: string[] } | { notBuilt: string };

const ARCHITECTURE = ['-gencode', 'arch=compute_80,code=compute_80'];
/** What nvcc or the linker says where device code is in several pieces, or launches kernels. */
const NEEDS_LINKING =
  /separate compilation mode|cudaGetParameterBuffer|cudaLaunchDevice|__cudaCDP2|Unresolved extern|External calls are not supported|requires relocatable/i;

export async function build(
  sample: Sample,
  toolkit: Toolkit,
  device: string,
  out: string,
): Promise<Built> {
  const folder = path.join(out, sample.name);
  const missing = missingParts(sample, toolkit);
  if (missing) return { notBuilt: missing };
  const program = path.join(folder, sample.name);
  const stampFile = path.join(folder, '.stamp');
  const stamp = stampOf(sample, toolkit);
  if (existsSync(stampFile)) {
    const [was, ...flags] = readFileSync(stampFile, 'utf8').split('\n');
    if (was === stamp) return { program, flags: flags.filter(Boolean) };
  }
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });

  for (const { kind, source, output } of sample.deviceFiles) {
    const flags = kind === '-ptx' ? ['-arch', 'compute_80'] : ARCHITECTURE;
    const args = [...flags, ...includes(sample, toolkit), kind, source];
    const done = await nvcc(toolkit, [...args, '-o', path.join(folder, output)]);
    if (done !== '') return { notBuilt: reason(done) };
  }
  let flags: string[] = [];
  let trouble = await link(sample, toolkit, device, program, flags);
  if (NEEDS_LINKING.test(trouble)) {
    flags = ['-rdc=true'];
    trouble = await link(sample, toolkit, device, program, flags);
  }
  if (trouble !== '') return { notBuilt: reason(trouble) };
  layOut(sample, folder);
  writeFileSync(stampFile, [stamp, ...flags].join('\n'));
  return { program, flags };
}

/** Copies what CMake would copy; samples also look into their own data/. */
function layOut(sample: Sample, folder: string) {
  for (const { from, to } of sample.copies) {
    if (!existsSync(from) || path.isAbsolute(to) || to.startsWith('..')) continue;
    cpSync(from, path.join(folder, to), { recursive: true });
  }
  const data = path.join(sample.folder, 'data');
  if (existsSync(data) && !existsSync(path.join(folder, 'data'))) {
    symlinkSync(data, path.join(folder, 'data'));
  }
}

function link(sample: Sample, toolkit: Toolkit, device: string, program: string, flags: string[]) {
  const openmp = sample.libraries.includes('OpenMP') ? ['-Xcompiler', '-fopenmp'] : [];
  return nvcc(toolkit, [
    '-std=c++17',
    '-O2',
    '--extended-lambda',
    ...ARCHITECTURE,
    ...flags,
    ...openmp,
    ...includes(sample, toolkit),
    '-o',
    program,
    ...sample.sources,
    ...[device, ...libraryFolders(toolkit)].map((folder) => `-L${folder}`),
    // Libraries that a sample calls but names only through others.
    '-Xlinker',
    '--copy-dt-needed-entries',
    ...(flags.includes('-rdc=true') ? ['-lcudadevrt'] : []),
    ...sample.libraries.flatMap((library) => linkFlag(library, toolkit) ?? []),
  ]);
}

function includes(sample: Sample, toolkit: Toolkit): string[] {
  const own = [sample.folder, ...sample.includes].map((folder) => `-I${folder}`);
  return [...own, ...toolkit.libraries.map((folder) => `-I${path.join(folder, 'include')}`)];
}

export function libraryFolders(toolkit: Toolkit): string[] {
  return [toolkit.home, ...toolkit.libraries]
    .flatMap((home) => ['lib64', 'lib'].map((name) => path.join(home, name)))
    .filter((folder, i, all) => existsSync(folder) && all.indexOf(folder) === i);
}

/** The flag for a library, or nothing where it is part of every build, or undefined if it is missing. */
function linkFlag(library: string, toolkit: Toolkit): string[] | undefined {
  if (['cudart', 'cudart_static', 'OpenMP', 'Threads::Threads'].includes(library)) return [];
  if (library === 'cuda_driver' || library === 'cuda') return ['-l:libcuda.so.1'];
  if (['pthread', 'rt', 'm', 'dl', 'stdc++fs'].includes(library)) return [`-l${library}`];
  for (const folder of libraryFolders(toolkit)) {
    const files = readdirSync(folder);
    // The packages of PyPI leave out the name without a version.
    const file = files.find((name) => new RegExp(`^lib${library}\\.so(\\.\\d+)?$`).test(name));
    if (file) return [`-l:${file}`];
    if (files.includes(`lib${library}.a`)) return [`-l${library}`];
  }
  return undefined;
}

function missingParts(sample: Sample, toolkit: Toolkit): string | undefined {
  if (sample.missing.some(isGraphics)) return 'graphics';
  const libraries = sample.libraries.filter((library) => !linkFlag(library, toolkit));
  const all = [...sample.missing, ...libraries];
  if (all.length > 0) return `needs ${all.join(', ')}`;
  if (sample.sources.length === 0) return 'no sources for Linux';
  return undefined;
}

/** What it was built from: the same again need not be built again. */
function stampOf(sample: Sample, toolkit: Toolkit): string {
  const hash = createHash('sha256').update(JSON.stringify([sample, toolkit.version]));
  for (const name of readdirSync(sample.folder).sort()) {
    const file = path.join(sample.folder, name);
    if (/\.(cu|cuh|h|hpp|cpp|c|txt)$/.test(name)) hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** Runs nvcc; what it said if it failed, else nothing. */
function nvcc(toolkit: Toolkit, args: string[]): Promise<string> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 1 << 26, timeout: 600_000 };
    execFile(toolkit.nvcc, args, options, (error, stdout, stderr) => {
      resolve(error ? `${stdout}${stderr}` || error.message : '');
    });
  });
}

/** The line that says why, without this machine's paths. */
function reason(output: string): string {
  const lines = output.split('\n');
  const header = /fatal error: (\S+): No such file/.exec(output);
  if (header) return `needs ${header[1]}`;
  const line = lines.find((each) => /\berror\b|undefined reference/i.test(each)) ?? lines[0] ?? '';
  return line.replace(/\/\S*\/(?=[^/\s]+)/g, '').trim();
}
