// One step of the set-up: silent when there is nothing to do, one line with its time when there is,
// and an error that says what failed, shows the end of the log and names the log.
import { basename } from 'node:path';

export const DISK_FULL =
  'the disk is full. Free some space and run it again: it goes on where it was.';

/** A failure to be shown as a sentence, without a stack trace. */
export class SetupError extends Error {
  /** @override */
  name = 'SetupError';
}

/** @param {number} since a performance.now() value */
export function seconds(since) {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}

/**
 * Announces the step once, however often it is called; what it returns shows how far it is.
 * @typedef {(detail?: string) => { progress: (count: string) => void }} Begin
 */

const SECONDS_BETWEEN_LINES = 20;

/**
 * Runs one step. `work` calls `begin` when it finds that something has to be done. On a terminal progress
 * stands behind the name; elsewhere it is a line every so often.
 * @template T
 * @param {string} name
 * @param {(begin: Begin) => Promise<T>} work
 * @param {Pick<NodeJS.WriteStream, 'write' | 'isTTY'>} [out]
 * @returns {Promise<T>}
 */
export async function step(name, work, out = process.stdout) {
  const started = performance.now();
  let title = '';
  /** Whether the line with the title has not ended yet. */
  let open = false;
  let told = started;
  const progress = (/** @type {string} */ count) => {
    if (out.isTTY) {
      out.write(`\r${title} ... ${count}\x1b[K`);
    } else if (performance.now() - told > SECONDS_BETWEEN_LINES * 1000) {
      told = performance.now();
      out.write(`${open ? '\n' : ''}  ${count} after ${seconds(started)}\n`);
      open = false;
    }
  };
  const begin = (detail = '') => {
    if (title === '') {
      title = `${name}${detail ? ` (${detail})` : ''}`;
      open = true;
      out.write(`${title} ... `);
    }
    return { progress };
  };
  const end = (/** @type {string} */ how) => {
    if (title === '') return;
    const again = out.isTTY ? `\r${title} ... ` : `${title} ... `;
    out.write(`${out.isTTY || !open ? again : ''}${how}${out.isTTY ? '\x1b[K' : ''}\n`);
  };
  try {
    const result = await work(begin);
    end(seconds(started));
    return result;
  } catch (error) {
    end('failed');
    throw error;
  }
}

/**
 * Runs a script's main function: a SetupError is told in words, anything else is our own bug and
 * keeps its stack trace.
 * @param {() => Promise<number>} main returns the exit code
 * @param {() => void} [afterFailure] what still has to be printed, last of all
 */
export async function runMain(main, afterFailure) {
  requireNode();
  try {
    process.exitCode = await main();
  } catch (error) {
    if (error instanceof SetupError) process.stderr.write(`\n${error.message}\n`);
    else if (/** @type {NodeJS.ErrnoException} */ (error)?.code === 'ENOSPC')
      process.stderr.write(`\nFailed: ${DISK_FULL}\n`);
    else console.error(error);
    process.exitCode = 1;
    afterFailure?.();
  }
}

function requireNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  const script = basename(process.argv[1] ?? '');
  process.stderr.write(`${script}: Node ${process.versions.node} is too old; need >= 20.19.\n`);
  process.exit(1);
}
