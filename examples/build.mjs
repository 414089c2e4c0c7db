// Compiles the example programs of programs.json with nvcc and its default settings, each again
// only when its source, a header of ours that it includes, its flags or nvcc itself has changed.
//
//   node examples/build.mjs --nvcc PATH [--out FOLDER] [--libcuda FOLDER] [--sources FOLDER] [NAME...]
//
// Any other folder with a programs.json of the same form can be compiled too (--sources). It may
// name a folder ("features") whose .cu files are programs that describe themselves, see
// describe().

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/**
 * @typedef {object} Program one entry of programs.json
 * @property {string} name
 * @property {string} source relative to the folder of programs.json
 * @property {string} shows what a reader learns from it
 * @property {string[]} flags for nvcc; -lcuda stands for whatever libcuda this machine can link
 * @property {string[]} needs 'picture': a PPM picture must be appended to args
 * @property {string[]} args for a run that is worth watching
 * @property {string[]} testArgs for a run that takes moments
 */

/**
 * @typedef {object} BuildOptions
 * @property {string} nvcc path of the compiler
 * @property {string} [out] folder for the programs, build/examples of the checkout by default
 * @property {string} [libcuda] folder with a libcuda.so or libcuda.so.1 to link driver programs with
 * @property {string} [sources] folder with a programs.json, this one by default
 * @property {string[]} [names] programs to build, all by default
 * @property {(line: string) => void} [log] told what is compiled
 * @property {() => void} [done] called for each program that has been tried, or was up to date
 * @property {string} [cache] a folder that keeps what was compiled, for other checkouts; one that cannot be written
 *   is not used
 */

/** @typedef {{ program: Program, path: string, compiled: boolean }} Built */

const checkout = findCheckout(dirname(fileURLToPath(import.meta.url)));
export const examples = join(checkout, 'examples');
const parallel = 2;

/**
 * This file may run as its compiled copy in build/js, where there are no sources beside it.
 * @param {string} folder
 * @returns {string}
 */
function findCheckout(folder) {
  if (existsSync(join(folder, 'examples', 'programs.json'))) return folder;
  if (folder === dirname(folder)) throw new Error('examples/programs.json is missing');
  return findCheckout(dirname(folder));
}

/** @returns {Program[]} */
export function listPrograms(sources = examples) {
  const list = JSON.parse(readFileSync(join(sources, 'programs.json'), 'utf8'));
  return list.features
    ? [...list.programs, ...listFeatures(sources, list.features)]
    : list.programs;
}

/**
 * The programs that show one feature each.
 * @param {string} sources
 * @param {string} folder within it
 * @returns {Program[]}
 */
export function listFeatures(sources, folder = 'features') {
  const files = existsSync(join(sources, folder)) ? readdirSync(join(sources, folder)) : [];
  return files
    .filter((file) => file.endsWith('.cu'))
    .sort()
    .map((file) => describe(sources, join(folder, file)));
}

// Without these nvcc makes PTX for the oldest GPU it knows, which lacks half of the features.
const featureFlags = ['-std=c++17', '-gencode', 'arch=compute_80,code=compute_80'];

/**
 * Such a program begins with a comment that says what it shows, in one sentence or more. Flags that
 * it needs stand at its end: `flags: -lcuda`; its own -gencode or -arch takes the place of ours.
 * @param {string} sources
 * @param {string} source
 * @returns {Program}
 */
function describe(sources, source) {
  const text = readFileSync(join(sources, source), 'utf8');
  // One line: formatters of code break and join the lines of comments.
  const comment = (/^(?:\/\/.*\n)*/.exec(text)?.[0] ?? '').replaceAll(/\n?\/\/ ?/g, ' ').trim();
  const [said = '', words = ''] = comment.split(/\bflags: /);
  const own = words.split(/\s+/).filter(Boolean);
  const target = own.some((flag) => /^-(gencode|arch)/.test(flag));
  const flags = [...(target ? ['-std=c++17'] : featureFlags), ...own];
  const [shows = ''] = said.trim().split(/(?<=\.) /);
  const name = source.replace(/^.*\//, '').replace(/\.cu$/, '');
  return { name, source, shows, flags, needs: [], args: [], testArgs: [] };
}

/**
 * Compiles what is not up to date. All programs are tried before the failures are thrown as one
 * error, so that its message is complete.
 * @param {BuildOptions} options
 * @returns {Promise<Built[]>}
 */
export async function buildExamples(options) {
  const { nvcc, out, sources = examples, names = [] } = options;
  const { done = () => {} } = options;
  const programs = choose(sources, names);
  const folder = resolve(out ?? join(checkout, 'build', 'examples'));
  const compiler = await identify(nvcc);
  mkdirSync(join(folder, '.stamps'), { recursive: true });

  /** @type {Map<string, Built>} */
  const built = new Map();
  /** @type {string[]} */
  const failures = [];
  const waiting = [...programs];
  const worker = async () => {
    for (let program = waiting.shift(); program; program = waiting.shift()) {
      try {
        built.set(
          program.name,
          await buildOne(program, resolve(sources), compiler, folder, options),
        );
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      }
      done();
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  if (failures.length > 0) throw new Error(failures.join('\n\n'));
  return programs.flatMap(({ name }) => built.get(name) ?? []);
}

/**
 * @param {string} sources
 * @param {string[]} names
 */
function choose(sources, names) {
  const programs = listPrograms(sources);
  const unknown = names.filter((name) => !programs.some((program) => program.name === name));
  if (unknown.length > 0) {
    const known = programs.map(({ name }) => name).join(', ');
    throw new Error(`There is no program called ${unknown.join(' or ')}. The programs: ${known}`);
  }
  return names.length === 0 ? programs : programs.filter(({ name }) => names.includes(name));
}

/** @typedef {{ path: string, version: string, toolkit: string }} Compiler */

/**
 * @param {string} nvcc
 * @returns {Promise<Compiler>}
 */
async function identify(nvcc) {
  if (!existsSync(nvcc)) {
    throw new Error(
      `There is no nvcc at ${nvcc}. Run npm run demo, which installs one, or name yours.`,
    );
  }
  const { code, output } = await run(nvcc, ['--version']);
  if (code !== 0) throw new Error(`${nvcc} --version failed:\n${output}`);
  return { path: resolve(nvcc), version: output, toolkit: dirname(dirname(realpathSync(nvcc))) };
}

/**
 * @param {Program} program
 * @param {string} sources
 * @param {Compiler} compiler
 * @param {string} folder
 * @param {BuildOptions} options
 * @returns {Promise<Built>}
 */
async function buildOne(program, sources, compiler, folder, options) {
  const { libcuda, cache, log = () => {} } = options;
  const source = join(sources, program.source);
  const path = join(folder, program.name);
  const stampFile = join(folder, '.stamps', program.name);
  const flags = [
    ...libraryFolder(compiler),
    ...program.flags.flatMap((flag) =>
      flag === '-lcuda' ? linkLibcuda(program, compiler, libcuda) : flag,
    ),
  ];
  const stamp = stampOf(source, sources, [compiler.path, compiler.version, ...flags]);
  if (existsSync(path) && existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp) {
    return { program, path, compiled: false };
  }
  log(`nvcc ${program.name}`);
  // Into a file beside it first: an interrupted build leaves no half program behind.
  const partial = join(folder, `.${program.name}.${process.pid}`);
  // By its name from here: assertions print it, and must not say where the checkout lies.
  const args = ['-o', partial, relative(sources, source), ...flags];
  const kept = cache && join(cache, keyOf(source, sources, program, compiler));
  if (!kept || !copied(kept, partial)) {
    const { code, output } = await run(compiler.path, args, sources);
    if (code !== 0) {
      throw new Error(
        `${program.name} did not compile:\n${compiler.path} ${args.join(' ')}\n${output}`,
      );
    }
    if (kept) keep(partial, kept);
  }
  renameSync(partial, path);
  writeFileSync(stampFile, stamp);
  return { program, path, compiled: true };
}

/**
 * What a program is made of, wherever the checkout and the compiler lie.
 * @param {string} source
 * @param {string} sources
 * @param {Program} program
 * @param {Compiler} compiler
 */
function keyOf(source, sources, program, { version, toolkit }) {
  // Packages from PyPI, whose headers and runtime may change where the compiler does not.
  const site = join(toolkit, '..', '..');
  const packages = readdirSync(site).filter((name) => name.endsWith('.dist-info'));
  const libraries = ['lib', 'lib64']
    .map((name) => join(toolkit, name, 'libcudart_static.a'))
    .filter((file) => existsSync(file))
    .map((file) => statSync(file).size);
  return stampOf(source, sources, [version, ...program.flags, ...packages.sort(), `${libraries}`]);
}

/** @param {string} from @param {string} to */
function copied(from, to) {
  try {
    copyFileSync(from, to);
    const now = new Date();
    utimesSync(from, now, now); // the last use
    return true;
  } catch {
    return false;
  }
}

/** @param {string} file @param {string} kept */
function keep(file, kept) {
  const partial = `${kept}.${process.pid}`;
  try {
    mkdirSync(dirname(kept), { recursive: true });
    copyFileSync(file, partial);
    renameSync(partial, kept);
  } catch {
    // Nothing is kept where nothing can be written: the next one is compiled again.
    if (existsSync(partial)) rmSync(partial);
  }
}

/**
 * Removes what has not been used for longest.
 * @param {string} cache
 * @param {number} mostBytes
 */
export function shrinkCache(cache, mostBytes) {
  if (!existsSync(cache)) return;
  let bytes = 0;
  const files = readdirSync(cache)
    .map((name) => join(cache, name))
    .map((file) => ({ file, ...sizeAndTime(file) }))
    .sort((one, other) => other.time - one.time);
  for (const { file, size } of files) {
    bytes += size;
    if (bytes > mostBytes) rmSync(file, { force: true });
  }
}

/** @param {string} file */
function sizeAndTime(file) {
  const { size = 0, mtimeMs = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {};
  return { size, time: mtimeMs };
}

/**
 * A toolkit from Python packages keeps the runtime where its own nvcc does not look.
 * @param {Compiler} compiler
 */
function libraryFolder({ toolkit }) {
  const lib = join(toolkit, 'lib');
  return existsSync(join(lib, 'libcudart_static.a')) ? [`-L${lib}`] : [];
}

/**
 * @param {Program} program
 * @param {Compiler} compiler
 * @param {string | undefined} libcuda
 */
function linkLibcuda(program, { toolkit }, libcuda) {
  const folders = libcuda
    ? [resolve(libcuda)]
    : [
        join(toolkit, 'lib64', 'stubs'),
        join(toolkit, 'lib', 'stubs'),
        join(checkout, 'build', 'software-device'),
      ];
  for (const folder of folders) {
    // Only the linker knows names with a colon; what this library itself needs is none of our program's business.
    if (existsSync(join(folder, 'libcuda.so.1'))) {
      const words = [`-L${folder}`, '-l:libcuda.so.1', '--allow-shlib-undefined'];
      return words.flatMap((word) => ['-Xlinker', word]);
    }
    if (existsSync(join(folder, 'libcuda.so'))) return [`-L${folder}`, '-lcuda'];
  }
  throw new Error(
    `${program.name} is linked with the CUDA driver library, and there is no libcuda.so or ` +
      `libcuda.so.1 in ${folders.join(' or ')}. Build the software device first (npm run build), ` +
      'or name a folder that has one with --libcuda.',
  );
}

/**
 * @param {string} source
 * @param {string} sources
 * @param {string[]} settings
 */
function stampOf(source, sources, settings) {
  const hash = createHash('sha256').update(JSON.stringify(settings));
  for (const file of [...ownFiles(source)].sort()) {
    hash.update(`\n${relative(sources, file)}\n`).update(readFileSync(file));
  }
  return hash.digest('hex');
}

/**
 * A source and every file that it includes with quotes, directly or through another.
 * @param {string} file
 * @param {Set<string>} [found]
 */
function ownFiles(file, found = new Set()) {
  if (found.has(file) || !existsSync(file)) return found;
  found.add(file);
  for (const [, name] of readFileSync(file, 'utf8').matchAll(/^\s*#\s*include\s*"([^"]+)"/gm)) {
    if (name) ownFiles(join(dirname(file), name), found);
  }
  return found;
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} [cwd]
 * @returns {Promise<{ code: number, output: string }>}
 */
function run(command, args, cwd) {
  return new Promise((done) => {
    execFile(command, args, { cwd, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      const code = error ? 1 : 0;
      done({
        code,
        output: `${stdout}${stderr}${error && !stdout && !stderr ? error.message : ''}`,
      });
    });
  });
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      nvcc: { type: 'string' },
      out: { type: 'string' },
      libcuda: { type: 'string' },
      sources: { type: 'string' },
    },
  });
  if (!values.nvcc) throw new Error('Name the compiler: node examples/build.mjs --nvcc PATH');
  /** @type {BuildOptions} */
  const options = { nvcc: values.nvcc, names: positionals, log: console.log };
  if (values.out) options.out = values.out;
  if (values.sources) options.sources = values.sources;
  if (values.libcuda) options.libcuda = values.libcuda;
  const built = await buildExamples(options);
  const compiled = built.filter((one) => one.compiled).length;
  console.log(`${compiled} compiled, ${built.length - compiled} up to date`);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  main().catch((error) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  });
}
