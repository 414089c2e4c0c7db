// One step of the set-up: silent when there is nothing to do, one line with its time when there is,
// and an error that says what failed, shows the end of the log and names the log.
import { basename } from 'node:path';

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
 * Runs one step. `work` calls `begin` when it finds that something has to be done.
 * @template T
 * @param {string} name
 * @param {(begin: (detail?: string) => void) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(name, work) {
  const started = performance.now();
  let announced = false;
  const begin = (detail = '') => {
    if (announced) return;
    announced = true;
    process.stdout.write(`${name}${detail ? ` (${detail})` : ''} ... `);
  };
  try {
    const result = await work(begin);
    if (announced) process.stdout.write(`${seconds(started)}\n`);
    return result;
  } catch (error) {
    if (announced) process.stdout.write('failed\n');
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
