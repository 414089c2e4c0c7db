// npm test: sets everything up and runs every test of the repository. Its last line is the count.
// `npm test -- --help` says what it can be told.
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../bin/paths.mjs';
import { ctestRow } from './rows/ctest.mjs';
import { lintRow } from './rows/lint.mjs';
import { selectsSome } from './rows/selection.mjs';
import {
  emptyRow,
  judged,
  lastLine,
  showFailures,
  skipReasons,
  slowest,
  table,
  totals,
  UNSTEADY_AT_MOST,
  unsteadyTable,
} from './rows/summary.mjs';
import { tapRow } from './rows/tap.mjs';
import { environment, setUp } from './setup/all.mjs';
import {
  ensureClients,
  ensureLambdaClient,
  ensureNvmlClient,
  ensureTinygrad,
} from './setup/clients.mjs';
import { takeDevice } from './setup/device.mjs';
import { ensureNative } from './setup/native.mjs';
import { buildPreset } from './setup/presets.mjs';
import { ensureRuntimes, OLD_RUNTIMES } from './setup/runtimes.mjs';
import { runMain, SetupError, step } from './setup/step.mjs';

/** @typedef {import('./rows/summary.mjs').Row} Row */

/** Tests of programs from PyPI, what they need, how it is had, and whether they are only run at night. */
const CLIENTS = [
  { test: 'test/clients/test/clients.test.ts', name: 'CuPy and Numba', ensure: ensureClients },
  { test: 'test/clients/test/clients.test.ts', name: 'tinygrad', ensure: ensureTinygrad },
  {
    test: 'test/clients/test/runtimes.test.ts',
    name: `CUDA runtime ${OLD_RUNTIMES.join(', ')}`,
    ensure: (/** @type {(detail?: string) => void} */ begin) => ensureRuntimes(begin, OLD_RUNTIMES),
  },
  { test: 'libraries/test/cublas.test.ts', name: 'cuBLAS', ensure: ensureClients },
  { test: 'nvml/test/clients.test.ts', name: 'nvidia-ml-py', ensure: ensureNvmlClient },
  {
    test: 'test/lambda/test/emulator.test.ts',
    night: true,
    name: 'awslambdaric',
    ensure: ensureLambdaClient,
  },
];
const ROWS = ['lint', 'ctest', 'tap', 'asan'];
/** Only run where somebody names them, or with --all. */
const NIGHTLY = ['asan-device', 'fuzz', 'tsan'];

const HELP = `Usage: npm test -- [--all] [--only ROWS] [--device software|nvidia|PATH] [PATTERN]

Sets everything up, then runs the tests of the repository. Its last line is the count:
"N passed, N failed[, N skipped]"; it ends with 0 where none failed. A test that fails is run once
more, alone: if it passes then, it counts as passed and is listed as unsteady (build/unsteady.tsv);
more than ${UNSTEADY_AT_MOST} of them fail the run.

  PATTERN      a regular expression: only tests whose source file (tap), such as
               monitor/test/run/run.test.ts, or name (ctest), such as guest-lib.config, matches
  --all        also what is for the night: the rows below, files that take long (npm run test:all)
  --only ROWS  only these rows, separated by commas
  --times N    each file of the row tap N times: shows what is unsteady
  --busy N     beside N processes that do nothing but keep a processor busy
  --device ... what the backbone runs on (programs, features, sequences), natively and served
  --help       this text; nothing is set up

Rows:
  lint   layout and lint of all sources (not where there is a PATTERN)
  ctest  tests of the native code
  tap    tests in TypeScript
  asan   tests of the native code under AddressSanitizer and UBSan, a build of its own; the stored
         inputs of the fuzz targets
Rows for the night:
  asan-device  the same, and the software device with sanitizers, too
  fuzz   the fuzz targets on what they have found so far and more, a build of its own
  tsan   tests of the native code under ThreadSanitizer

npm test -- run.test              npm test -- --only ctest guest-lib
`;

await runMain(main, () => console.log(lastLine({ passed: 0, failed: 1, skipped: 0 })));

async function main() {
  const { help, only, pattern, all, times, busy } = options();
  if (help) {
    process.stdout.write(HELP);
    return 0;
  }
  if (pattern && !(await selectsSome(pattern, only))) throw nothingMatches(pattern);
  const night = all || only.some((row) => NIGHTLY.includes(row));
  const { nvcc, examplesFailed } = await setUp(night ? 'night' : 'tests');
  const noNvcc = nvcc && 'reason' in nvcc ? nvcc.reason : undefined;
  if (noNvcc !== undefined) {
    if (process.env['CI']) {
      throw new SetupError(`${noNvcc}\nIn CI (the variable CI is set) nvcc is required.`);
    }
    console.log(`\n${noNvcc}\nTests that compile CUDA programs will be skipped.\n`);
  }
  if (only.includes('tap')) {
    for (const client of CLIENTS) {
      if (pattern?.test(client.test) ?? (all || !client.night)) await ensured(client);
    }
  }
  const env = environment({ nvcc });
  delete env['NIGHTLY'];
  if (all) env['NIGHTLY'] = '1';
  const common = { pattern, noNvcc: noNvcc && 'no nvcc', env };

  /** @type {Record<string, () => Promise<Row>>} */
  const run = {
    lint: () => lintRow(),
    ctest: () => ctestRow({ ...common, name: 'ctest', preset: 'release' }),
    // Who names tests means them, whenever they are run otherwise.
    tap: () => tapRow({ pattern, env, times, nightly: all || pattern !== undefined }),
    asan: () => builtRow('asan'),
    'asan-device': () => builtRow('asan-device'),
    fuzz: () => builtRow('fuzz'),
    tsan: () => builtRow('tsan'),
  };
  /** The tests of a build of its own. @param {'asan' | 'asan-device' | 'fuzz' | 'tsan'} preset */
  async function builtRow(preset) {
    await step(buildPreset(preset).title, (begin) => ensureNative(begin, preset));
    return ctestRow({ ...common, name: preset, preset });
  }

  const loops = Array.from({ length: busy }, () => {
    const loop = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
    // They end with this process, which is not to wait for them.
    loop.unref();
    return loop;
  });
  process.on('exit', () => {
    for (const loop of loops) loop.kill('SIGKILL');
  });
  /** @type {Row[]} */
  const rows = [];
  if (examplesFailed) {
    const failures = [{ name: 'examples', detail: examplesFailed.message }];
    report({ ...emptyRow('set-up'), failures }, rows);
  }
  for (const name of only) {
    // Lint has no tests that a pattern could choose from.
    if (name === 'lint' && pattern) continue;
    const row = await /** @type {() => Promise<Row>} */ (run[name])().catch((error) => {
      if (!(error instanceof SetupError)) throw error;
      return { ...emptyRow(name), failures: [{ name: 'set-up', detail: error.message }] };
    });
    report(row, rows);
  }
  return conclude(rows, pattern);
}

/** @param {(typeof CLIENTS)[number]} client */
async function ensured({ name, ensure }) {
  const missing = await step(name, ensure);
  if (missing === undefined) return;
  if (process.env['CI']) {
    throw new SetupError(`${missing}\nIn CI (the variable CI is set) it is required.`);
  }
  console.log(`\n${missing}\nIts test will be skipped.\n`);
}

/** Shows a finished row that had tests, and keeps it. @param {Row} row @param {Row[]} rows */
function report(row, rows) {
  const { name, passed, failures, unsteady, skips, seconds } = row;
  if (passed + failures.length + skips.length === 0) return; // nothing of this kind here
  rows.push(row);
  const counts = lastLine({ passed, failed: failures.length, skipped: skips.length });
  console.log(`${name}: ${counts} (${seconds.toFixed(1)} s)`);
  if (failures.length > 0) console.log(`\n${showFailures(row)}`);
  if (unsteady.length > 0) console.log(`\n${showFailures(row, 'unsteady')}`);
}

function options() {
  const { values, positionals } = parse();
  const rows = [...ROWS, ...NIGHTLY];
  const only = values.only?.split(',') ?? (values.all ? rows : ROWS);
  const unknown = only.filter((name) => !rows.includes(name));
  if (unknown.length > 0) {
    throw new SetupError(`--only ${unknown.join(',')}: no such row; there are ${rows.join(', ')}.`);
  }
  const times = numberOf('times', values.times, 1);
  const busy = numberOf('busy', values.busy, 0);
  if (positionals.length > 1) throw new SetupError('One PATTERN at most.');
  try {
    const help = values.help === true;
    return {
      help,
      only,
      times,
      busy,
      all: values.all === true,
      pattern: positionals[0] === undefined ? undefined : new RegExp(positionals[0]),
    };
  } catch (error) {
    throw new SetupError(
      `PATTERN is not a regular expression: ${/** @type {Error} */ (error).message}`,
    );
  }
}

/** @param {string} name @param {string | undefined} text @param {number} usual */
function numberOf(name, text, usual) {
  const number = text === undefined ? usual : Number(text);
  if (Number.isInteger(number) && number >= usual && number <= 100) return number;
  throw new SetupError(`--${name} ${text}: give a number from ${usual} to 100.`);
}

function parse() {
  try {
    return parseArgs({
      args: takeDevice(process.argv.slice(2)),
      options: {
        all: { type: 'boolean' },
        only: { type: 'string' },
        times: { type: 'string' },
        busy: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
      allowPositionals: true,
    });
  } catch (error) {
    throw new SetupError(`${/** @type {Error} */ (error).message}\nSee: npm test -- --help`);
  }
}

/** @param {RegExp} pattern */
function nothingMatches(pattern) {
  return new SetupError(
    `No test matches ${pattern}: neither the source file of one in TypeScript nor the name of one of ` +
      'ctest, in the rows that were asked for. See: npm test -- --help',
  );
}

/** @param {Row[]} found @param {RegExp | undefined} pattern */
function conclude(found, pattern) {
  const rows = judged(found);
  const total = totals(rows);
  if (total.passed + total.failed + total.skipped === 0) {
    throw pattern ? nothingMatches(pattern) : new SetupError('There was no test to run.');
  }
  console.log(`\n${table(rows)}\n`);
  console.log(`slowest:\n${slowest(rows).join('\n')}\n`);
  for (const line of skipReasons(rows)) console.log(line);
  const unsteady = unsteadyTable(rows);
  writeFileSync(join(build, 'unsteady.tsv'), unsteady);
  if (unsteady !== '') {
    const failed = rows === found ? '' : `, which fail: more than ${UNSTEADY_AT_MOST}`;
    console.log(`unsteady (failed once and passed alone)${failed}:\n${unsteady}`);
  }
  console.log(lastLine(total));
  return total.failed > 0 ? 1 : 0;
}
