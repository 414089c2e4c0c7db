// Packages from PyPI, in a virtual environment of their own inside the build folder.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { logged, newLog } from './command.mjs';

/**
 * @typedef {object} Environment
 * @property {string} folder
 * @property {string[]} packages as pip takes them
 * @property {string} log
 */

/** @param {Environment} environment */
const contents = ({ packages }) => `${packages.join('\n')}\n`;

/** @param {Environment} environment */
const stamp = ({ folder }) => join(folder, 'outboard-packages.txt');

/** Whether it was installed by us and just so. @param {Environment} environment */
export function isInstalled(environment) {
  const file = stamp(environment);
  return existsSync(file) && readFileSync(file, 'utf8') === contents(environment);
}

/** Whether we have installed anything there. @param {Environment} environment */
export function wasInstalled(environment) {
  return existsSync(stamp(environment));
}

/**
 * Installs it afresh; false when that failed, and the log says why.
 * @param {Environment} environment
 */
export async function install(environment) {
  const { folder, packages, log } = environment;
  newLog(log);
  mkdirSync(dirname(folder), { recursive: true });
  const pip = [join(folder, 'bin', 'python'), '-m', 'pip', '--disable-pip-version-check'];
  const steps = [
    ['python3', '-m', 'venv', '--clear', folder],
    [...pip, 'install', '--no-compile', '--retries', '1', ...packages],
  ];
  for (const argv of steps) {
    const status = await logged(log, argv).catch(() => 1);
    if (status !== 0) return false;
  }
  writeFileSync(stamp(environment), contents(environment));
  return true;
}
