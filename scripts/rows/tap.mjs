// Tests in TypeScript (tap): each compiled test file is run by itself, a few at a time.
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { finished } from 'node:stream/promises';
import { js, root } from '../../bin/paths.mjs';
import { logs } from '../setup/command.mjs';
import { testsAtOnce } from './at-once.mjs';
import { compiledTests } from './sources.mjs';
import { emptyRow } from './summary.mjs';

// Only against hanging, so far above anything a slow machine needs.
const MINUTES_PER_FILE = 8;

/** Process groups now running; Ctrl-C does not reach them by itself. @type {Set<number | undefined>} */
const running = new Set();

/**
 * @param {{ env: NodeJS.ProcessEnv, pattern: RegExp | undefined }} options
 * @returns {Promise<import('./summary.mjs').Row>}
 */
export async function tapRow({ env, pattern }) {
  const started = performance.now();
  const row = emptyRow('tap');
  const queue = compiledTests().filter((file) => pattern?.test(sourceOf(file)) ?? true);
  const worker = async () => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      const { passed, failures, skips } = await runFile(file, env);
      row.passed += passed;
      row.failures.push(...failures);
      row.skips.push(...skips);
    }
  };
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.once(signal, () => {
      for (const pid of running) killGroup(pid);
      process.exit(130);
    });
  }
  await Promise.all(Array.from({ length: Math.min(4, testsAtOnce()) }, worker));
  row.seconds = (performance.now() - started) / 1000;
  return row;
}

/** The source of a compiled test, as a person names it. @param {string} file */
function sourceOf(file) {
  return relative(js, file).replace(/js$/, 'ts');
}

/**
 * @param {string} file
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<import('./tap-count.mjs').Count>}
 */
export async function runFile(file, env) {
  const { countTap } = await import('./tap-count.mjs');
  const source = sourceOf(file);
  const log = join(logs, 'tap', `${source.replaceAll('/', '-')}.log`);
  mkdirSync(dirname(log), { recursive: true });
  const out = createWriteStream(log);
  // A process group of its own, so that what the test left running ends with it.
  const child = spawn(process.execPath, ['--enable-source-maps', file], {
    cwd: root,
    env: { ...env, TAP_TIMEOUT: String(MINUTES_PER_FILE * 60) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  child.stdout.pipe(out, { end: false });
  child.stderr.pipe(out, { end: false });
  running.add(child.pid);
  let hung = false;
  const guard = setTimeout(
    () => {
      hung = true;
      killGroup(child.pid);
    },
    (MINUTES_PER_FILE + 1) * 60_000,
  );
  const ended = new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      killGroup(child.pid);
      running.delete(child.pid);
      resolve(signal ?? code);
    });
  });
  const { results, ...count } = await countTap(child.stdout, source);
  const status = await ended;
  clearTimeout(guard);
  out.end();
  await finished(out);

  const trouble = hung
    ? `ended after ${MINUTES_PER_FILE + 1} minutes without an end`
    : wholeFileTrouble(status, results, count);
  if (trouble) count.failures.push({ name: source, detail: trouble });
  for (const failure of count.failures) {
    failure.name = failure.name === source ? source : `${source}: ${failure.name}`;
    failure.detail += `\nWhole log: ${log}\nRepeat:    npm test -- ${basename(source, '.ts')}`;
  }
  return count;
}

/**
 * A file that stopped early, or ran no test at all, must not pass for the tests it did run.
 * @param {unknown} status
 * @param {import('tap-parser').FinalResults} results
 * @param {import('./tap-count.mjs').Count} count
 */
function wholeFileTrouble(status, results, count) {
  if (count.failures.length > 0) return undefined;
  if (results.bailout) return `bailed out: ${results.bailout}`;
  if (status !== 0) return `ended with ${status} although no test failed`;
  if (!results.ok) return `not valid as a whole: ${JSON.stringify(results.failures.slice(0, 3))}`;
  if (count.passed + count.skips.length === 0) return 'has no test';
  return undefined;
}

/** @param {number | undefined} pid */
function killGroup(pid) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nobody is left in the group.
  }
}
