// Running other programs: with their output in a log under build/logs, or captured.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  accessSync,
  constants,
  createWriteStream,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { constants as os } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { finished } from 'node:stream/promises';
import { build, root } from '../../bin/paths.mjs';
import { DISK_FULL, SetupError } from './step.mjs';

/** What builds and tests have written. */
export const logs = join(build, 'logs');

/**
 * @typedef {object} Options
 * @property {string} [cwd]
 * @property {NodeJS.ProcessEnv} [env]
 * @property {(text: string) => void} [onOutput] sees the output as it comes (`logged` only)
 */

/**
 * The first executable of that name on PATH, or undefined. Only files are looked at, nothing is run.
 * @param {string} name
 * @param {string} [path]
 */
export function which(name, path = process.env['PATH'] ?? '') {
  for (const folder of path.split(delimiter)) {
    if (!folder) continue;
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Not here; the next folder may have it.
    }
  }
  return undefined;
}

/**
 * Runs a program with stdin closed and its output appended to build/logs/<log>.log.
 * @param {string} log
 * @param {string[]} argv
 * @param {Options} [options]
 * @returns {Promise<number>} its exit status; 128 + n when signal n ended it
 */
export async function logged(log, argv, options = {}) {
  mkdirSync(logs, { recursive: true });
  const out = createWriteStream(logPath(log), { flags: 'a' });
  out.write(`$ ${argv.join(' ')}\n`);
  const child = start(argv, options);
  if (options.onOutput) child.stdout.setEncoding('utf8').on('data', options.onOutput);
  child.stdout.pipe(out, { end: false });
  child.stderr.pipe(out, { end: false });
  const status = await exitStatus(child, argv);
  out.end();
  await finished(out);
  return status;
}

/**
 * As `logged`, but a failure is an error that a person can act on.
 * @param {string} what what the command was for: "the native build"
 * @param {string} log
 * @param {string[]} argv
 * @param {Options} [options]
 */
export async function mustRun(what, log, argv, options = {}) {
  const status = await logged(log, argv, options);
  if (status === 0) return;
  if (/No space left on device/.test(logTail(log, 400)))
    throw new SetupError(`${what} failed: ${DISK_FULL}`);
  throw new SetupError(`${what} failed (${argv[0]}, exit status ${status}).\n${logTail(log)}`);
}

/**
 * Runs a program and gives its output, both streams in order of arrival.
 * @param {string[]} argv
 * @param {Options} [options]
 */
export async function captured(argv, options = {}) {
  const child = start(argv, options);
  /** @type {Buffer[]} */
  const chunks = [];
  child.stdout.on('data', (chunk) => chunks.push(chunk));
  child.stderr.on('data', (chunk) => chunks.push(chunk));
  const status = await exitStatus(child, argv);
  return { status, output: Buffer.concat(chunks).toString() };
}

/**
 * Runs a program on this terminal; it reads our stdin and gets our Ctrl-C itself.
 * @param {string[]} argv
 * @param {Options} [options]
 */
export async function attached(argv, options = {}) {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { cwd: root, ...options, stdio: 'inherit' });
  return exitStatus(child, argv);
}

/** @param {string} log */
export function logPath(log) {
  return join(logs, `${log}.log`);
}

/** Empties a log at the start of its step. @param {string} log */
export function newLog(log) {
  mkdirSync(logs, { recursive: true });
  writeFileSync(logPath(log), '');
}

/**
 * The end of a log and where the rest is.
 * @param {string} log
 * @param {number} [lines]
 */
export function logTail(log, lines = 25) {
  const text = readFileSync(logPath(log), 'utf8').trimEnd().split('\n');
  const tail = text.slice(-lines).map((line) => `  | ${line}`);
  return `${tail.join('\n')}\nWhole log: ${relative(process.cwd(), logPath(log))}`;
}

/** @param {string[]} argv @param {Options} options */
function start(argv, options) {
  const [program = '', ...args] = argv;
  return spawn(program, args, { cwd: root, ...options, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** @param {import('node:child_process').ChildProcess} child @param {string[]} argv */
async function exitStatus(child, argv) {
  try {
    const [code, signal] = await once(child, 'close');
    if (signal === null) return /** @type {number} */ (code);
    return 128 + (os.signals[/** @type {NodeJS.Signals} */ (signal)] ?? 0);
  } catch (error) {
    throw new SetupError(`cannot run ${argv[0]}: ${/** @type {Error} */ (error).message}`);
  }
}
