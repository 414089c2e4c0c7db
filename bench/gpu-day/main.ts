// npm run gpu-day -- [OPTION...], and node gpu-day.mjs in a bundle: all that a first day on a GPU has to answer, in order of
// worth. What is found is written after each step; the same command goes on where it was cut.
import { readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { machine } from '../src/machine.js';
import { Day, type Group, type Step } from './day.js';
import { DayError } from './day-error.js';
import { type DayDriver, findDriver } from './driver.js';
import { allGroups } from './groups/all.js';
import { page } from './page.js';
import { Processes } from './processes.js';
import { type Found, Journal, mostCuts, read, writeWhole } from './results.js';

const HELP = `Usage: npm run gpu-day -- [OPTION...], or node gpu-day.mjs [OPTION...] in a bundle

Runs everything that a first day on a GPU has to answer, and prints one page. It changes no setting of a GPU. Results are
written after each step; the same command goes on where it was cut.

  --device nvidia|software|PATH  the driver library (nvidia, wherever it lies)
  --only GROUP,...               only these groups
  --fresh                        begin anew
  --short                        a part of each group, to see that all of it works
  --out DIR                      for results.json, page.md and day.log
  --python PATH                  the Python whose packages are tried (python3)
  --serve-option OPTION          for each outboard serve, as --serve-option=--sandbox=off; may be repeated
  --at-once N                    programs that run at a time, 1 to 16 (2)
  --bundle DIR                   npm run only: write an archive for a machine with a GPU there
  --help                         this text

Exit status: 0 all agrees; 1 something differs or failed; 2 wrong usage; 3 it cannot run here, or not go on.
`;

const options = {
  device: { type: 'string', default: 'nvidia' },
  only: { type: 'string' },
  fresh: { type: 'boolean', default: false },
  short: { type: 'boolean', default: false },
  out: { type: 'string' },
  python: { type: 'string', default: 'python3' },
  'serve-option': { type: 'string', multiple: true },
  'at-once': { type: 'string', default: '2' },
  help: { type: 'boolean', default: false },
} as const;

const mostAtOnce = 16;
/** In a bundle beside gpu-day.mjs, which says where. */
const usualOut = process.env['GPU_DAY_OUT'] ?? path.join(build, 'gpu-day');
const recorded = path.join(root, 'bench', 'results', 'gpu', 'nvidia-like.json');
const groups = allGroups();
const processes = new Processes();

let stopping: NodeJS.Signals | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    stopping ??= signal;
    processes.close();
  });
}

function readOptions() {
  try {
    const { values } = parseArgs({ options });
    const only = values.only?.split(',');
    const unknown = only?.find((name) => !groups.some((group) => group.name === name));
    if (unknown !== undefined)
      throw new Error(
        `There is no group ${unknown}. The groups: ${groups.map(({ name }) => name).join(', ')}.`,
      );
    const atOnce = Number(values['at-once']);
    if (!Number.isInteger(atOnce) || atOnce < 1 || atOnce > mostAtOnce)
      throw new Error(`--at-once is a number from 1 to ${mostAtOnce}, not ${values['at-once']}.`);
    return { ...values, atOnce, chosen: groups.filter(({ name }) => only?.includes(name) ?? true) };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\nSee --help.\n`);
    return null;
  }
}

function describe({ kind, facts, version, traits }: DayDriver) {
  const driver = `${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
  return { kind, name: `${facts['name']}`, driver, traits };
}

const versionOfOutboard = () =>
  (JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string })
    .version;

async function main(): Promise<number> {
  const given = readOptions();
  if (given === null) return 2;
  if (given.help) {
    process.stdout.write(HELP);
    return 0;
  }
  const out = path.resolve(given.out ?? usualOut);
  const driver = await findDriver(given.device, processes);
  const device = describe(driver);
  const journal = Journal.open(
    path.join(out, 'results.json'),
    {
      version: versionOfOutboard(),
      begun: new Date().toISOString(),
      ...(given.short ? { short: true as const } : {}),
      device,
      machine: machine(),
    },
    given.fresh,
  );
  const { short, python, atOnce } = given;
  const log = path.join(out, 'day.log');
  if (given.fresh) rmSync(log, { force: true });
  const day = new Day(driver, processes, {
    ...{ short, python, atOnce, log },
    serveOptions: given['serve-option'] ?? [],
  });
  let trouble: unknown;
  try {
    say(`${device.name}, CUDA ${device.driver}${device.traits ? `, ${device.traits}` : ''}`);
    for (const group of given.chosen) await runGroup(day, journal, group);
  } catch (error) {
    trouble = error;
  } finally {
    await day.over();
  }
  const other = driver.traits === 'nvidia-like' ? undefined : read(recorded);
  const text = page(journal.results, given.chosen, other);
  process.stdout.write(`\n${text}`);
  if (stopping) {
    say(`stopped by ${stopping}; the same command goes on`);
    return 128 + os.constants.signals[stopping];
  }
  if (trouble !== undefined) throw trouble;
  writeWhole(path.join(out, 'page.md'), text);
  say(`written to ${path.relative(process.cwd(), out) || '.'}/{results.json,page.md}`);
  const bad = Object.values(journal.results.steps).some(({ differs = [] }) => differs.length > 0);
  return bad ? 1 : 0;
}

/** Progress is for who watches; the page is the output. */
function say(text: string) {
  process.stderr.write(`gpu-day: ${text}\n`);
}

async function runGroup(day: Day, journal: Journal, group: Group) {
  const until = performance.now() + group.seconds * 1000;
  for (const step of group.steps) {
    if (stopping) return;
    const name = `${group.name}/${step.name}`;
    const { steps, cut } = journal.results;
    if (steps[name]) continue;
    const left = (until - performance.now()) / 1000;
    if (left < 1) {
      say(`${name}: not begun, the ${group.seconds} s of this group are over`);
      continue;
    }
    if ((cut[name] ?? 0) >= mostCuts) {
      const how = `this command was ended ${mostCuts} times in the middle of it; it is not tried again`;
      journal.end(name, { group: group.name, seconds: 0, differs: [{ name: step.name, how }] });
      continue;
    }
    journal.begin(name);
    const begun = performance.now();
    const found = await runStep(day, step, Math.min(step.seconds, left));
    const seconds = Number(((performance.now() - begun) / 1000).toFixed(2));
    if (stopping) {
      journal.forget(name);
      return;
    }
    if (found.differs?.length) await mustBeAlive(day, journal, name);
    journal.end(name, withoutPaths({ group: group.name, seconds, ...found }, day));
    const { agrees = [], differs = [], figures = {} } = found;
    const counts = [
      [agrees.length, 'agree'],
      [differs.length, 'differ'],
      [Object.keys(figures).length, 'figures'],
    ].filter(([count]) => count !== 0);
    say(`${name}: ${counts.map((one) => one.join(' ')).join(', ') || 'nothing'} (${seconds} s)`);
  }
}

async function runStep(day: Day, step: Step, seconds: number): Promise<Found> {
  const over = new AbortController();
  const running = step.run(day).catch((error: unknown): Found => {
    const how = error instanceof Error ? error.message : String(error);
    return { differs: [{ name: step.name, how }] };
  });
  const late = sleep(seconds * 1000, 'late' as const, { signal: over.signal }).catch(
    () => 'late' as const,
  );
  const first = await Promise.race([running, late]);
  over.abort();
  if (first !== 'late') return first;
  processes.endAll();
  // What was found before is worth having.
  const found = await Promise.race([running, sleep(5000, {} as Found)]);
  const how = `it was cut after ${Math.round(seconds)} s`;
  return { ...found, differs: [{ name: step.name, how }, ...(found.differs ?? [])] };
}

/** A GPU that is lost fails every call; results of that are none. */
async function mustBeAlive(day: Day, journal: Journal, step: string) {
  if (day.driver.exclusive) await day.noServer();
  let why: string | null = null;
  for (let attempt = 0; attempt < 3 && !stopping; attempt++) {
    why = await day.alive();
    if (why === null) return;
    await sleep(2000);
  }
  if (stopping) return;
  journal.forget(step);
  throw new DayError(
    `${day.driver.facts['name']} no longer does what it is told, since ${step}: ${why}.`,
    'See `nvidia-smi` and the kernel log (dmesg, Xid). What was found before is kept; ' +
      'the same command goes on once the GPU is back.',
  );
}

/** Results are shown to others: nothing in them says where they were made. */
function withoutPaths<T>(value: T, day: Day): T {
  const places = [
    [day.folder, 'TEMP'],
    [root, '.'],
    [os.homedir(), '~'],
  ] as const;
  const clean = (text: string) =>
    places.reduce((so, [place, name]) => (place === '/' ? so : so.replaceAll(place, name)), text);
  return JSON.parse(clean(JSON.stringify(value))) as T;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.exitCode = 3;
  // What was stopped has no errors of its own.
  if (stopping) process.exitCode = 128 + os.constants.signals[stopping];
  else if (error instanceof DayError) process.stderr.write(`${error.sentence}\n`);
  else throw error;
} finally {
  processes.close();
}
