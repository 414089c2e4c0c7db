// Tests of the native code, as ctest runs them; each of its tests counts as one.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { captured, logged, logPath, newLog } from '../setup/command.mjs';
import { testPreset } from '../setup/presets.mjs';
import { SetupError } from '../setup/step.mjs';
import { testsAtOnce } from './at-once.mjs';
import { parseJunit } from './junit.mjs';
import { emptyRow } from './summary.mjs';

/**
 * @typedef {object} Selection
 * @property {string} name of the row
 * @property {import('../setup/presets.mjs').TestName} preset
 * @property {NodeJS.ProcessEnv} env
 * @property {RegExp | undefined} pattern
 * @property {string | undefined} noNvcc why tests labelled `nvcc` cannot run
 */

/** @param {Selection} selection @returns {Promise<import('./summary.mjs').Row>} */
export async function ctestRow({ name, preset, env, pattern, noNvcc }) {
  const { folder, environment, wants } = testPreset(preset);
  const started = performance.now();
  const row = emptyRow(name);
  const selected = (await listTests(folder)).filter((test) => {
    return wants(test) && (pattern?.test(test.name) ?? true);
  });
  const run = selected.filter((test) => {
    if (noNvcc === undefined || !test.labels.includes('nvcc')) return true;
    row.skips.push({ name: test.name, reason: noNvcc });
    return false;
  });
  if (run.length > 0) await runTests(row, folder, run, { ...env, ...environment });
  row.seconds = (performance.now() - started) / 1000;
  return row;
}

/**
 * @param {string} folder
 * @returns {Promise<{ index: number, name: string, labels: string[] }[]>}
 */
export async function listTests(folder) {
  const { status, output } = await captured(['ctest', '--test-dir', folder, '--show-only=json-v1']);
  if (status !== 0) throw new SetupError(`ctest cannot list the tests of ${folder}:\n${output}`);
  const { tests } = JSON.parse(output.slice(output.indexOf('{')));
  return tests.map((/** @type {any} */ test, /** @type {number} */ position) => ({
    index: position + 1,
    name: test.name,
    labels: test.properties.find((/** @type {any} */ p) => p.name === 'LABELS')?.value ?? [],
  }));
}

/**
 * @param {import('./summary.mjs').Row} row
 * @param {string} folder
 * @param {{ index: number, name: string }[]} tests
 * @param {NodeJS.ProcessEnv} env
 */
async function runTests(row, folder, tests, env) {
  const log = `ctest-${row.name}`;
  newLog(log);
  const first = await runOnce(tests, testsAtOnce());
  // Once more, alone, those that failed.
  const failed = tests.filter(({ name }) => first(name)?.result === 'failed' || !first(name));
  const again = failed.length > 0 ? await runOnce(failed, 1) : first;
  for (const { name } of tests) {
    const result = first(name);
    row.times.push({ name, seconds: result?.seconds ?? 0 });
    if (result?.result === 'passed') row.passed++;
    else if (result?.result === 'skipped') row.skips.push({ name, reason: result.reason });
    else {
      const problem = { name, detail: explain(name, folder, log, result) };
      if (again(name)?.result === 'passed') {
        row.passed++;
        row.unsteady.push(problem);
      } else row.failures.push(problem);
    }
  }

  /**
   * @param {{ index: number, name: string }[]} some
   * @param {number} atOnce
   */
  async function runOnce(some, atOnce) {
    const junit = join(folder, 'outboard-ctest.xml');
    rmSync(junit, { force: true });
    await logged(
      log,
      [
        ...['ctest', '--test-dir', folder, '--output-on-failure', '--output-junit', junit],
        ...['--test-output-size-failed', '65536', '-j', String(atOnce)],
        ...['-I', `0,0,0,${some.map(({ index }) => index).join(',')}`],
      ],
      { env },
    );
    const cases = existsSync(junit) ? parseJunit(readFileSync(junit, 'utf8')) : [];
    const byName = new Map(cases.map((one) => [one.name, one]));
    return (/** @type {string} */ name) => byName.get(name);
  }
}

/**
 * @param {string} name
 * @param {string} folder
 * @param {string} log
 * @param {import('./junit.mjs').Case | undefined} result
 */
function explain(name, folder, log, result) {
  const lines = (result?.output ?? 'ctest did not report on this test').trimEnd().split('\n');
  return [
    ...(result?.reason ? [result.reason] : []),
    ...(lines.length > 60 ? ['...', ...lines.slice(-60)] : lines),
    `Whole log: ${logPath(log)}`,
    `Repeat:    ctest --test-dir ${folder} --output-on-failure -R '^${name}$'`,
  ].join('\n');
}
