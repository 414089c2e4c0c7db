// What of the repository is installed: the same tree below /usr/lib/outboard, so that the code finds
// its files as it does in a checkout. The programs of build/programs, native libraries without symbols of
// debuggers, production packages without what only their developers need; of those that are in the programs
// the licences alone.
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { build, js, programs, root } from '../../bin/paths.mjs';
import { captured } from '../setup/command.mjs';
import { apart, inside } from '../setup/programs.mjs';
import { SetupError } from '../setup/step.mjs';

const native = [
  'api-server/executor.node',
  'api-server/outboard-confine',
  'guest-lib/libcuda.so',
  'guest-lib/libcuda.so.1',
  'guest-lib/libnvidia-ml.so',
  'guest-lib/libnvidia-ml.so.1',
  'guest-lib/outboard-probe',
  'libraries/libcublas.so.13',
  'libraries/libcublasLt.so.13',
  'libraries/outboard-binding.so',
  'software-device/keep-ptx/libnvJitLink.so.12',
  'software-device/keep-ptx/libnvJitLink.so.13',
  'software-device/libcuda.so',
  'software-device/libcuda.so.1',
  'software-device/software-device-check',
  'software-device/software-device-nvml.so',
];
const executables = [
  'api-server/outboard-confine',
  'guest-lib/outboard-probe',
  'software-device/software-device-check',
];
/** In `dependencies`, but for building the executor, and for the demonstration. */
const notAtRunTime = ['node-addon-api', 'node-api-headers', 'pngjs'];

const code = /\.(?:c|m)?js$/;
/** The web page is compiled by Vite; its modules are here for tests. */
const notRun = /\/(?:test|web)\/|\/errors-page\.js$/;
/**
 * Of npm packages: what their code loads, without these folders at the top and these files. Node
 * does not take what lies in build/esm and build/esnext, which are for bundlers.
 */
const loaded = /\.(?:(?:c|m)?js|json|node|proto|wasm)$/;
const aside =
  /^(?:tests?|__tests__|docs?|examples?|bench(?:mark)?s?|integration|types|scripts|bin|build\/(?:esm|esnext))\//;
const needless =
  /(?:^|\/)\.|[.-](?:test|spec)\.(?:c|m)?js$|\.musl\.node$|(?:eslint|tsconfig)[^/]*$/;
const license = /^(?:licen[sc]e|copying|notice)/i;

/**
 * @typedef {object} NpmPackage
 * @property {string} path below the root, as in package-lock.json
 * @property {string} name
 * @property {string} version
 * @property {string} license an SPDX expression
 * @property {boolean} optional only needed by optional dependencies
 */

/** Production packages that are installed here, as package-lock.json has them. @returns {NpmPackage[]} */
export function productionPackages() {
  /** @type {Record<string, { dev?: boolean, optional?: boolean }>} */
  const locked = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
  const found = [];
  for (const [path, { dev, optional }] of Object.entries(locked)) {
    if (path === '' || dev || notAtRunTime.includes(path.slice('node_modules/'.length))) continue;
    const manifest = join(root, path, 'package.json');
    // Binaries for other machines are optional and absent.
    if (!existsSync(manifest) && optional) continue;
    const { name, version, license } = JSON.parse(readFileSync(manifest, 'utf8'));
    found.push({ path, name, version, license, optional: optional === true });
  }
  return found;
}

/**
 * Fills `target`, which becomes /usr/lib/outboard.
 * @param {string} target
 * @param {{ parts?: string[], native?: string[], optional?: boolean }} [more] what else runs there: folders of build/js,
 *   with what they import of others, programs of build; and whether packages come along that are optional dependencies
 */
export async function stageTree(target, more = {}) {
  const { parts = [], native: morePrograms = [], optional = true } = more;
  copy(join(root, 'bin', 'outboard.mjs'), join(target, 'bin', 'outboard.mjs'), 0o755);
  copy(join(root, 'proto', 'control.proto'), join(target, 'proto', 'control.proto'));
  put(join(target, 'package.json'), manifest());
  for (const file of files(programs, (name) => !name.startsWith('.')))
    copy(file, join(target, 'build', 'programs', relative(programs, file)));
  for (const file of compiled(parts)) copy(file, join(target, 'build', 'js', relative(js, file)));
  for (const file of [...native, ...morePrograms]) {
    const mode = [...executables, ...morePrograms].includes(file) ? 0o755 : 0o644;
    copy(join(build, file), join(target, 'build', file), mode);
  }
  stageFolder(join(build, 'web'), join(target, 'build', 'web'), (name) => !name.startsWith('.'));
  const production = productionPackages();
  const loaded = neededApart(production);
  // What else runs imports them by name.
  const bundled = parts.length > 0 ? [] : readFileSync(inside, 'utf8').split('\n');
  for (const one of production) {
    const whole = loaded.has(one.name) || !bundled.includes(one.path);
    if (optional || !one.optional) stagePackage(one.path, target, whole);
  }
  await strip(files(target).filter(isNative));
}

/** What Node and Outboard read of it. */
function manifest() {
  const all = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const { name, version, description, license, type, engines, bin } = all;
  return `${JSON.stringify({ name, version, description, license, type, engines, bin }, null, 2)}\n`;
}

/** The JavaScript that runs, with what it imports from elsewhere. @param {string[]} folders of build/js */
function compiled(folders) {
  const wanted = new Set(
    folders.flatMap((part) =>
      files(join(js, part)).filter((file) => code.test(file) && !notRun.test(file)),
    ),
  );
  const reference = /(?:\bfrom |\bimport |\bimport\(|new URL\()'(\.[^']+)'/g;
  for (const file of wanted) {
    for (const [, specifier = ''] of readFileSync(file, 'utf8').matchAll(reference)) {
      const other = resolve(dirname(file), specifier);
      // A set goes on to what is added while it is walked.
      if (code.test(other) && existsSync(other)) wanted.add(other);
    }
  }
  return [...wanted];
}

/**
 * Names of those that the programs load as they are installed, and of what these need.
 * @param {readonly NpmPackage[]} production
 */
function neededApart(production) {
  const names = new Set(production.map(({ name }) => name).filter((name) => apart.test(name)));
  for (const wanted of names) {
    for (const { path, name } of production) {
      if (name !== wanted) continue;
      const manifest = JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'));
      const { dependencies = {}, optionalDependencies = {} } = manifest;
      // A set goes on to what is added while it is walked.
      for (const one of Object.keys({ ...dependencies, ...optionalDependencies })) names.add(one);
    }
  }
  return names;
}

/** @param {string} path as in package-lock.json @param {string} target @param {boolean} whole */
function stagePackage(path, target, whole) {
  const source = join(root, path);
  for (const file of files(source, (name) => name !== 'node_modules')) {
    const name = relative(source, file);
    const runs = whole && loaded.test(name) && !aside.test(name) && !needless.test(name);
    if (runs || license.test(name)) copy(file, join(target, path, name));
  }
}

/** Whether it is a program or a library. @param {string} file */
export function isNative(file) {
  return readFileSync(file).subarray(0, 4).equals(Buffer.from('\x7fELF'));
}

/** As debhelper does it. @param {string[]} libraries */
export async function strip(libraries) {
  const sections = ['--remove-section=.comment', '--remove-section=.note'];
  const argv = ['strip', '--strip-unneeded', ...sections, ...libraries];
  const { status, output } = await captured(argv);
  if (status !== 0) throw new SetupError(`strip failed: ${output}`);
}

/** @param {string} from @param {string} to @param {(name: string) => boolean} wanted */
function stageFolder(from, to, wanted) {
  if (!existsSync(from)) return;
  for (const file of files(from, wanted)) copy(file, join(to, relative(from, file)));
}

/**
 * All files below a folder, sorted.
 * @param {string} folder
 * @param {(name: string) => boolean} [wanted] of each name on the way
 * @returns {string[]}
 */
export function files(folder, wanted = () => true) {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => wanted(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return files(path, wanted);
      return entry.isFile() ? [path] : [];
    });
}

/** @param {string} from @param {string} to @param {number} [mode] */
export function copy(from, to, mode = 0o644) {
  if (!existsSync(from)) throw new SetupError(`${relative(root, from)} is missing: npm run build`);
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
  chmodSync(to, mode);
}

/** @param {string} file @param {string | Buffer} content */
export function put(file, content) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  chmodSync(file, 0o644);
}
