// The system packages: finds what is missing; installs it as root, otherwise says in one message
// what to install and how.
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { mustRun, newLog, which } from './command.mjs';
import { glob } from './glob.mjs';
import { packages } from './packages.mjs';
import { SetupError } from './step.mjs';

/** @typedef {import('./packages.mjs').Package} Package */

/**
 * What is looked at; the tests give another one.
 * @typedef {object} System
 * @property {string} path as $PATH
 * @property {string[]} includes folders that the compiler searches
 * @property {(pattern: string) => boolean} files whether a glob pattern matches anything
 * @property {number | undefined} uid 0 may install packages
 */

/** @returns {System} */
export function thisSystem() {
  return {
    path: process.env['PATH'] ?? '',
    includes: [
      ...(process.env['CPATH'] ?? '').split(delimiter).filter(Boolean),
      '/usr/local/include',
      '/usr/include',
      ...glob('/usr/include/*-linux-gnu*'),
    ],
    files: (pattern) => glob(pattern).length > 0,
    uid: process.getuid?.(),
  };
}

/** @param {Package} wanted @param {System} system */
export function isPresent(wanted, system) {
  const { commands = [], headers = [], files = [] } = wanted;
  return (
    commands.every((name) => which(name, system.path) !== undefined) &&
    headers.every((name) => system.includes.some((folder) => existsSync(join(folder, name)))) &&
    (files.length === 0 || files.some((pattern) => system.files(pattern)))
  );
}

/**
 * @param {Package['neededFor'][]} purposes
 * @param {System} system
 */
export function missingPackages(purposes, system) {
  return packages.filter((wanted) => {
    return purposes.includes(wanted.neededFor) && !isPresent(wanted, system);
  });
}

/**
 * The one message for somebody who cannot install packages, or has no apt.
 * @param {Package[]} missing
 * @param {boolean} apt whether this is a system with apt-get
 */
export function missingMessage(missing, apt) {
  const width = Math.max(...missing.map(({ name }) => name.length));
  const one = missing.length === 1;
  if (apt) {
    const names = missing.map(({ name }) => name);
    return [
      one
        ? 'Outboard needs a Debian package that is not installed here:'
        : `Outboard needs ${missing.length} Debian packages that are not installed here:`,
      '',
      ...missing.map(({ name, why }) => `  ${name.padEnd(width)}  ${why}`),
      '',
      `Install ${one ? 'it' : 'them'}, then give the same command again:`,
      '',
      `  sudo apt-get install ${names.join(' ')}`,
    ].join('\n');
  }
  return [
    'Outboard needs some tools and libraries that are not installed here. This is not a Debian',
    "system, so here is what was looked for; the name in front is Debian's name for it:",
    '',
    ...missing.map(
      ({ name, why, ...parts }) => `  ${name.padEnd(width)}  ${content(parts)}: ${why}`,
    ),
    '',
    "Install them with this system's own package manager, then give the same command again.",
  ].join('\n');
}

/** @param {Pick<Package, 'commands' | 'headers' | 'files'>} parts */
function content({ commands = [], headers = [], files = [] }) {
  return [
    ...commands.map((name) => `command ${name}`),
    ...headers.map((name) => `header ${name}`),
    ...files.slice(0, 1),
  ].join(', ');
}

/**
 * @param {(detail?: string) => void} begin
 * @param {Package['neededFor'][]} purposes
 * @param {System} [system]
 */
export async function ensurePackages(begin, purposes, system = thisSystem()) {
  const missing = missingPackages(purposes, system);
  if (missing.length === 0) return;
  const apt = which('apt-get', system.path) !== undefined;
  if (!apt || system.uid !== 0) throw new SetupError(missingMessage(missing, apt));

  const names = missing.map(({ name }) => name);
  begin(names.join(' '));
  newLog('debian');
  const env = { ...process.env, PATH: system.path, DEBIAN_FRONTEND: 'noninteractive' };
  await mustRun('apt-get update', 'debian', ['apt-get', 'update', '-q'], { env });
  const install = ['apt-get', 'install', '-q', '-y', '--no-install-recommends', ...names];
  await mustRun('Installing Debian packages', 'debian', install, { env });

  const still = missingPackages(purposes, system);
  if (still.length > 0) {
    throw new SetupError(
      `apt-get installed ${still.map(({ name }) => name).join(' ')}, yet their content was not found.\n` +
        missingMessage(still, false),
    );
  }
}
