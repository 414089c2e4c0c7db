// What Outboard costs on this device: the figures of bench/, natively and remoted, and two sessions with shares.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { build } from '../../../bin/paths.mjs';
import { measurements } from '../../src/figures.js';
import { median, short } from '../../src/row.js';
import { type Day, type Group, isBuilt, type Server, type Step } from '../day.js';
import { ending, lastLine, type Ran } from '../processes.js';
import type { Found } from '../results.js';

const bench = (name: string) => path.join(build, 'bench', name);

/** Names of figures in bench/src/figures.ts. */
const wanted = [
  'launch.returned',
  'call',
  'synchronise',
  'read',
  'upload.64M',
  'download.64M',
  'upload.64M.pinned',
  'download.64M.pinned',
];

interface Line {
  figure: string;
  side: string;
  value: number;
}

function valuesOf({ stdout }: Ran, from: string): number[] {
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)
    .filter(({ figure, side }) => figure === from && side === 'cuda')
    .map(({ value }) => value);
}

function measured(name: string): Step {
  return {
    name,
    seconds: 60,
    async run(day) {
      const measurement = measurements.find(({ figures }) => figures.some((f) => f.name === name));
      const figure = measurement?.figures.find((one) => one.name === name);
      if (!measurement || !figure) throw new Error(`there is no figure ${name}`);
      const { argument, repetitions, count } = measurement;
      const some = day.options.short ? Math.max(1, Math.floor(count / 20)) : count;
      const argv = [bench('bench-measure'), argument, String(repetitions), String(some)];
      const figures: Record<string, number> = {};
      if (day.driver.exclusive) await day.noServer();
      for (const [where, run] of [
        ['natively', () => day.native(argv, 25)],
        ['remoted', () => day.remoted(argv, 25)],
      ] as const) {
        const ran = await run();
        if (ran.code !== 0) {
          const how = `${where} ${ending(ran)}: ${lastLine(ran.stderr)}`;
          return { figures, differs: [{ name, how }] };
        }
        const value = short(median(valuesOf(ran, figure.from)));
        figures[`${name}, ${where}, ${figure.unit}`] = value;
      }
      return { figures };
    },
  };
}

/** Each line of bench-gate is one figure. */
async function gate(day: Day): Promise<Found> {
  await day.noServer();
  const ran = await day.native([bench('bench-gate'), day.driver.library], 50);
  if (ran.code !== 0)
    return { differs: [{ name: 'gate', how: `${ending(ran)}: ${lastLine(ran.stderr)}` }] };
  const figures = Object.fromEntries(
    ran.stdout
      .trim()
      .split('\n')
      .map((line) => line.split(/: (.*)/s))
      .map(([what = '', value = '']) => [`gate: ${withoutLengths(what)}`, value]),
  );
  return { figures };
}

/** The length of a kernel is measured; it must not be in a name. */
const withoutLengths = (what: string) => what.replace(/ of [\d.]+ us/, '');

/** Ticks of the processor, of a process and those that it has started, in milliseconds. */
function processorMilliseconds(pid: number): number {
  const ofOne = (id: number) => {
    // The name may hold anything; fields are counted behind it.
    const fields = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    return (Number(fields[11]) + Number(fields[12])) * 10;
  };
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    const ids = [pid, ...children.split(' ').filter(Boolean).map(Number)];
    return ids.reduce((sum, id) => sum + ofOne(id), 0);
  } catch {
    return Number.NaN;
  }
}

async function waits(day: Day): Promise<Found> {
  const server = await day.server();
  const before = processorMilliseconds(server.pid);
  const seconds = day.options.short ? 1 : 5;
  const answers = await day.remoteProbe('waiting', { more: [String(seconds)] });
  if (answers['error'] !== undefined)
    return { differs: [{ name: 'waiting', how: `${answers['error']}` }] };
  const used = processorMilliseconds(server.pid) - before;
  const name = 'processor time while waiting';
  return {
    figures: {
      [`${name}, program, percent`]: short(
        Number(answers['processor time while waiting, percent']),
      ),
      ...(Number.isNaN(used)
        ? {}
        : { [`${name}, server and attaching, percent`]: short((used / seconds / 1000) * 100) }),
    },
  };
}

const promised = [75, 25] as const;

/** Two sessions that always have work, in kernels of so many microseconds: what each received, as the server has it. */
async function shares(day: Day, kernel: number, most: number): Promise<Found> {
  const name = `two sessions, 75:25, kernels of ${kernel / 1000} ms`;
  if (!isBuilt(bench('spin'))) return { left: [{ name, why: 'bench/spin is not built' }] };
  if (day.driver.exclusive)
    return { left: [{ name, why: 'the GPU is in exclusive mode: one slot' }] };
  await day.noServer();
  const calibrated = await day.native([bench('spin'), 'calibrate'], 30);
  const turns = Number(calibrated.stdout) / 1000;
  if (!(turns > 0)) return { differs: [{ name, how: `spin ${ending(calibrated)}` }] };
  const server = await day.startServer(2);
  try {
    const seconds = day.options.short ? 3 : most;
    const argv = [bench('spin'), String(Math.round(kernel * turns)), String(seconds), 'plain', '2'];
    const runs = promised.map((share, i) => {
      const own = { OUTBOARD_NAME: `${i}`, OUTBOARD_SHARE: `${share}:100`, OUTBOARD_MEMORY: '16M' };
      const env = { ...day.remoteEnvironment(server.address), ...own };
      return day.run(argv, env, seconds + 30);
    });
    const received = await watched(server, runs);
    const ended = await Promise.all(runs);
    const bad = ended.find(({ code }) => code !== 0);
    if (bad) return { differs: [{ name, how: `${ending(bad)}: ${lastLine(bad.stderr)}` }] };
    const sum = received.reduce((a, b) => a + b, 0);
    if (!(sum > 0)) return { differs: [{ name, how: 'the server has measured nothing' }] };
    const kernels = ended.map(({ stdout }) => Number(stdout));
    return {
      figures: {
        [`${name}: received of the GPU's time, percent`]: received
          .map((one) => Math.round((one / sum) * 100))
          .join(':'),
        [`${name}: kernels run`]: kernels.join(':'),
      },
    };
  } finally {
    await server.stop();
  }
}

/** Nanoseconds of the device that each got while both were there. */
async function watched(server: Server, runs: Promise<Ran>[]): Promise<number[]> {
  let over = false;
  // The first that ends ends the comparison.
  void Promise.race(runs).then(() => {
    over = true;
  });
  let first: number[] | undefined;
  let last: number[] = [];
  while (!over) {
    const { sessions } = await server.view();
    const now = promised.map((_, i) => sessions.find(({ name }) => name === `${i}`));
    if (now.every((one) => one?.state === 'running')) {
      last = now.map((one) => one?.share.deviceNs ?? 0);
      first ??= last;
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  return last.map((value, i) => value - (first?.[i] ?? 0));
}

export const figures: Group = {
  name: 'figures',
  what: 'launch, round trip, GiB/s each way, gate, processor time while waiting; two sessions with shares',
  seconds: 300,
  steps: [
    ...wanted.map(measured),
    { name: 'gate', seconds: 60, run: gate },
    { name: 'waits', seconds: 60, run: waits },
    { name: 'shares', seconds: 90, run: (day) => shares(day, 1000, 8) },
    { name: 'shares of long kernels', seconds: 90, run: (day) => shares(day, 100_000, 16) },
  ],
};
