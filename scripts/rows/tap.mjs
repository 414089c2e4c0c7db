// Tests in TypeScript (tap): each compiled test file is a process of its own.
import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { finished } from 'node:stream/promises';
import { js, root } from '../../bin/paths.mjs';
import { logs } from '../setup/command.mjs';
import { compiledTests } from './sources.mjs';
import { emptyRow } from './summary.mjs';

// Only against hanging, so far above anything a slow machine needs.
const MINUTES_PER_FILE = 15;
/** What a file has, told that it is too late, to say what its server logged. */
const SECONDS_FOR_LAST_WORDS = 10;
/** Most of a file's time is waiting for processes. */
const AT_ONCE = 4;

/** Process groups now running; Ctrl-C does not reach them by itself. @type {Set<number | undefined>} */
const running = new Set();

/** @typedef {import('./tap-count.mjs').Count} Count */
/** @typedef {{ file: string, source: string, nightly: boolean, alone: boolean }} TestFile */

/**
 * @param {object} options
 * @param {NodeJS.ProcessEnv} options.env
 * @param {RegExp | undefined} options.pattern
 * @param {boolean} options.nightly whether with those that are for the night
 * @param {number} options.times how often each file is run: more than once shows what is unsteady
 */
export function tapRow({ env, pattern, nightly, times }) {
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.once(signal, () => {
      for (const pid of running) signalGroup(pid, 'SIGKILL');
      process.exit(130);
    });
  }
  return runFiles(Array.from({ length: times }, () => testFiles(pattern, nightly)).flat(), env);
}

/**
 * Runs them a few at a time, then those that need the machine for themselves, then those that failed once more, alone.
 * @param {TestFile[]} tests
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<import('./summary.mjs').Row>}
 */
export async function runFiles(tests, env) {
  const started = performance.now();
  const row = emptyRow('tap');
  /** @type {{ test: TestFile, count: Count }[]} */
  const failed = [];
  /** How often each file was begun. @type {Map<string, number>} */
  const begun = new Map();
  const run = async (/** @type {TestFile} */ test) => {
    const since = performance.now();
    const before = begun.get(test.file) ?? 0;
    begun.set(test.file, before + 1);
    const count = await runFile(test.file, env, { suffix: before > 0 ? `-${before + 1}` : '' });
    row.times.push({ name: test.source, seconds: (performance.now() - since) / 1000 });
    if (count.failures.length === 0) add(row, count);
    else failed.push({ test, count });
  };
  const queue = tests.filter(({ alone }) => !alone);
  const worker = async () => {
    for (let test = queue.shift(); test; test = queue.shift()) await run(test);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  for (const test of tests.filter(({ alone }) => alone)) await run(test);
  for (const { test, count } of failed) {
    const again = await runFile(test.file, env, { suffix: '-again' });
    const steady = again.failures.length > 0;
    add(row, steady ? count : again);
    if (!steady) row.unsteady.push(asOne(test.source, count.failures));
  }
  row.seconds = (performance.now() - started) / 1000;
  return row;
}

/**
 * A file is unsteady once, however many of its tests are.
 * @param {string} name
 * @param {import('./summary.mjs').Problem[]} failures
 */
function asOne(name, failures) {
  return { name, detail: failures.map((one) => `${one.name}\n${one.detail}`).join('\n') };
}

/** @param {import('./summary.mjs').Row} row @param {Count} count */
function add(row, { passed, failures, skips }) {
  row.passed += passed;
  row.failures.push(...failures);
  row.skips.push(...skips);
}

/**
 * Those across parts first: they take longest, and the last to run would run beside nothing.
 * @param {RegExp | undefined} pattern
 * @param {boolean} nightly
 * @returns {TestFile[]}
 */
function testFiles(pattern, nightly) {
  const across = (/** @type {TestFile} */ { source }) => Number(source.startsWith('test/'));
  return compiledTests()
    .map((file) => ({ file, source: sourceOf(file), ...whenToRun(sourceOf(file)) }))
    .filter((test) => (pattern?.test(test.source) ?? true) && (nightly || !test.nightly))
    .sort((one, other) => across(other) - across(one));
}

/**
 * What a line of its own in the source says: `// Run nightly: REASON`, `// Run alone: REASON`.
 * @param {string} source
 */
function whenToRun(source) {
  const file = join(root, source);
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  return { nightly: /^\/\/ Run nightly: ./m.test(text), alone: /^\/\/ Run alone: ./m.test(text) };
}

/** The source of a compiled test, as a person names it. @param {string} file */
function sourceOf(file) {
  return relative(js, file).replace(/js$/, 'ts');
}

/**
 * @param {string} file
 * @param {NodeJS.ProcessEnv} env
 * @param {object} [options]
 * @param {number} [options.minutes] the limit
 * @param {number} [options.secondsMore] what it has then for its last words
 * @param {string} [options.suffix] what is added to the name of the log
 * @returns {Promise<Count>}
 */
export async function runFile(file, env, options = {}) {
  const { minutes = MINUTES_PER_FILE, secondsMore = SECONDS_FOR_LAST_WORDS, suffix = '' } = options;
  const started = performance.now();
  const { countTap } = await import('./tap-count.mjs');
  const source = sourceOf(file);
  const log = join(logs, 'tap', `${source.replaceAll('/', '-')}${suffix}.log`);
  mkdirSync(dirname(log), { recursive: true });
  const out = createWriteStream(log);
  // A process group of its own, so that what the test left running ends with it.
  const child = spawn(process.execPath, ['--enable-source-maps', file], {
    cwd: root,
    // Whoever ends it is this function, which lets its servers say their last words.
    env: { ...env, TAP_TIMEOUT: String(2 * minutes * 60) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  child.stdout.pipe(out, { end: false });
  child.stderr.pipe(out, { end: false });
  running.add(child.pid);
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said = `${said}${text}`.slice(-8192);
  });
  /** @type {NodeJS.Timeout[]} */
  const guards = [];
  const limit = minutes * 60_000;
  const late = () => {
    said = '';
    child.kill('SIGTERM');
  };
  guards.push(setTimeout(late, limit));
  const tooLate = () => signalGroup(child.pid, 'SIGKILL');
  guards.push(setTimeout(tooLate, limit + secondsMore * 1000));
  const ended = new Promise((resolve) => {
    child.once('exit', (code, signal) => {
      signalGroup(child.pid, 'SIGKILL');
      running.delete(child.pid);
      resolve(signal ?? code);
    });
  });
  const { results, ...count } = await countTap(child.stdout, source);
  const status = await ended;
  const hung = performance.now() - started >= limit;
  for (const guard of guards) clearTimeout(guard);
  out.end();
  await finished(out);

  const trouble = hung
    ? `ended after ${minutes} minutes without an end\n${said.trimEnd()}`.trimEnd()
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

/** @param {number | undefined} pid @param {NodeJS.Signals} signal */
function signalGroup(pid, signal) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // Nobody is left in the group.
  }
}
