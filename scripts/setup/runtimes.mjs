// Shared libraries of the CUDA runtime, of several versions side by side, from PyPI into
// build/runtimes (test/clients). Nothing else needs them.
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build } from '../../bin/paths.mjs';
import { logged, logTail, newLog } from './command.mjs';
import { glob } from './glob.mjs';

/** What CI tests beside the toolkit's own; `npm run test:clients` tests all. */
export const OLD_RUNTIMES = ['11.8'];
export const ALL_RUNTIMES = [
  ...OLD_RUNTIMES,
  ...['12.0', '12.1', '12.2', '12.3', '12.4', '12.5', '12.6', '12.8', '12.9'],
  ...['13.0', '13.1', '13.2', '13.5'],
];

const folder = join(build, 'runtimes');
const log = 'runtimes';

/** @param {string} version "12.4" */
function packageOf(version) {
  const [major] = version.split('.');
  const suffix = Number(major) < 13 ? `-cu${major}` : '';
  return `nvidia-cuda-runtime${suffix}==${version}.*`;
}

/** The shared runtime of that version, or undefined. @param {string} version */
export function sharedRuntime(version) {
  return glob(`${folder}/${version}/nvidia/*/lib/libcudart.so.1*`)[0];
}

/** The one to be linked with, which old packages do not have. @param {string} version */
export function staticRuntime(version) {
  return glob(`${folder}/${version}/nvidia/*/lib/libcudart_static.a`)[0];
}

/**
 * @param {(detail?: string) => void} begin
 * @param {string[]} versions
 * @returns {Promise<string | undefined>} the reason when they are not to be had
 */
export async function ensureRuntimes(begin, versions) {
  const missing = versions.filter((version) => !sharedRuntime(version));
  if (missing.length === 0) return undefined;
  begin('from PyPI');
  newLog(log);
  const venv = join(folder, 'pip');
  const python = join(venv, 'bin', 'python');
  const steps = existsSync(python) ? [] : [['python3', '-m', 'venv', '--clear', venv]];
  for (const version of missing) {
    const options = ['--disable-pip-version-check', '--no-compile', '--no-deps', '--retries', '1'];
    const target = join(folder, `${version}.new`);
    rmSync(target, { recursive: true, force: true });
    rmSync(join(folder, version), { recursive: true, force: true });
    steps.push([
      ...[python, '-m', 'pip', 'install', ...options],
      ...['--target', target, packageOf(version)],
    ]);
  }
  for (const argv of steps) {
    const status = await logged(log, argv).catch(() => 1);
    if (status !== 0) {
      return `CUDA runtimes could not be installed from PyPI (no network, or no Python with venv?).\n${logTail(log, 8)}`;
    }
  }
  for (const version of missing) renameSync(join(folder, `${version}.new`), join(folder, version));
  return undefined;
}
