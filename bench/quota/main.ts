// npm run bench -- quota [--only NAME,...] [--policy device-time]
//
// Sessions with shares of one GPU, all real programs through a real server: what each receives,
// second by second, against what it is owed. Writes bench/results/quota.{json,md,svg}.
//
// A share here is a part of what all sessions together got from the device in that second: guests and
// server share this machine's processors with the software device, so "all" is less than a second.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { buildExamples } from '../../examples/build.mjs';
import type { KernelView, SessionView, View } from '../../monitor/src/base/view.js';
import { Loaded } from '../load/serving.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { plot, type Series } from './plot.js';
import { type Scenario, scenarios } from './scenarios.js';
import { calibrate, native, type Program, start, unitMicroseconds } from './workload.js';

const sampleMilliseconds = 250;
/** Of each scenario, and after each change, nothing is judged for so long. */
const settleSeconds = 2;
const windowSeconds = 1;
const markPoints = 2;
/** Microseconds from which on one kernel is the most that anybody may be ahead or behind. */
const longKernel = 50_000;

interface Sample {
  /** Seconds since the scenario began. */
  at: number;
  sessions: { name: string; deviceNs: number; received: number; owed: number; held: boolean }[];
}

interface Result {
  scenario: string;
  what: string;
  /** Percentage points between received and owed, in windows of a second. */
  worst: number;
  mean: number;
  /** Of the whole run: what one session received less or more than it was owed, at most. */
  overall: number;
  /** Points of a window that one kernel of the longest kind is: it cannot be cut. */
  kernel: number;
  /** The most that anybody was ahead of what it was owed, or behind, of all so far: in kernels of the longest kind. */
  ahead: number;
  /** As `overall`, by what the programs' kernels were, not by what the server measured; null: not counted. */
  work: number | null;
  met: boolean;
  sessions: { name: string; owed: number; received: number; kernels: number; gateWaits: number }[];
}

const { values } = parseArgs({
  options: { only: { type: 'string' }, policy: { type: 'string', default: 'device-time' } },
});
const wanted = values.only?.split(',');
const nvcc = process.env['NVCC'];
if (!nvcc) throw new Error('bench quota runs CUDA programs, and there is no nvcc to compile them');
await buildExamples({
  nvcc,
  sources: path.join(root, 'bench', 'quota'),
  out: path.join(build, 'bench'),
});
if (!existsSync(path.join(build, 'guest-lib', 'libcuda.so.1'))) throw new Error('nothing is built');

const scratch = mkdtempSync(path.join(tmpdir(), 'outboard-quota-'));
process.once('exit', () => rmSync(scratch, { recursive: true, force: true }));
const turns = await calibrate();
console.log(`${turns.toFixed(0)} turns are a microsecond here; policy ${values.policy}\n`);
const results: Result[] = [];
const plots: { title: string; series: Series[] }[] = [];
for (const scenario of scenarios) {
  if (wanted && !wanted.includes(scenario.name)) continue;
  const samples = await play(scenario);
  const result = judge(scenario, samples);
  results.push(result);
  plots.push({ title: `${scenario.name}: ${scenario.what}`, series: seriesOf(samples) });
  print(result);
}
const overhead = wanted ? null : await alone();
write();

async function play(scenario: Scenario) {
  const traits = `time-slices=${path.join(scratch, scenario.name)}`;
  const server = await Loaded.start(
    1,
    scenario.loads.length,
    ['--quota', values.policy],
    scenario.slices ? { SOFTWARE_DEVICE_TRAITS: traits } : {},
  );
  const address = `127.0.0.1:${server.address.port}`;
  const programs: Program[] = scenario.loads.map((load, index) =>
    start(`${index}`, load, turns, scenario.seconds, address),
  );
  const samples: Sample[] = [];
  const last = new Map<string, SessionView>();
  const counts: Count[] = [];
  const begun = performance.now();
  const pending = [...(scenario.changes ?? [])];
  let over = false;
  const ended = Promise.all(programs.map(({ done }) => done)).finally(() => {
    over = true;
  });
  while (!over) {
    const at = (performance.now() - begun) / 1000;
    for (const change of pending.filter(({ after }) => after <= at)) {
      pending.splice(pending.indexOf(change), 1);
      const session = last.get(`${change.load}`);
      if (session) await share(server, session.id, change);
    }
    const view = await state(server);
    const sessions = view.sessions.filter(({ state }) => state === 'running');
    for (const session of sessions) last.set(session.name, session);
    samples.push({ at, sessions: sessions.map(sampleOf) });
    const all = sessions.length === scenario.loads.length;
    if (all && at > settleSeconds && at < scenario.seconds && countable(scenario))
      counts.push({ at, kernels: await count(server, sessions) });
    await sleep(sampleMilliseconds);
  }
  const kernels = await ended;
  await server.stop();
  return { samples, kernels, last, done: doneBetween(counts) };
}

/** Kernels of each session that had ended, at some moment. */
interface Count {
  at: number;
  kernels: Map<string, number>;
}

async function count({ http }: Loaded, sessions: readonly SessionView[]) {
  const kernels = new Map<string, number>();
  for (const { id, name } of sessions) {
    const answer = await fetch(`${http}v1/sessions/${id}/kernels`);
    if (!answer.ok) continue;
    const all = (await answer.json()) as KernelView[];
    kernels.set(
      name,
      all.reduce((sum, { launches }) => sum + launches, 0),
    );
  }
  return kernels;
}

/** How many each session has ended between the first and the last of those counts; null: not all were counted. */
function doneBetween(counts: readonly Count[]): Map<string, number> | null {
  const [first, last] = [counts[0], counts.at(-1)];
  if (!first || !last || first === last) return null;
  return new Map([...last.kernels].map(([name, n]) => [name, n - (first.kernels.get(name) ?? 0)]));
}

type Played = Awaited<ReturnType<typeof play>>;

function sampleOf({ name, share }: SessionView): Sample['sessions'][number] {
  const { deviceNs, received, owed, held } = share;
  if (deviceNs === null || received === null || owed === null)
    throw new Error(`the server does not measure ${name}`);
  return { name, deviceNs, received, owed, held };
}

async function state({ http }: Loaded): Promise<View> {
  return (await (await fetch(`${http}v1/state`)).json()) as View;
}

async function share(
  { http }: Loaded,
  id: number,
  { request, limit }: { request: number; limit: number },
) {
  const answer = await fetch(`${http}v1/sessions/${id}/share`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request, limit }),
  });
  if (!answer.ok) throw new Error(`share of ${id}: ${await answer.text()}`);
}

/** What each session got in each window, as a part of what all got, in percent. */
function windows({ samples }: Played) {
  const found: { at: number; name: string; received: number; owed: number }[] = [];
  const steps = Math.round((windowSeconds * 1000) / sampleMilliseconds);
  for (let i = steps; i < samples.length; i++) {
    const [from, to] = [samples[i - steps], samples[i]];
    if (!from || !to) continue;
    const gains = to.sessions.map((session) => {
      const before = from.sessions.find(({ name }) => name === session.name);
      return { ...session, gain: before ? session.deviceNs - before.deviceNs : Number.NaN };
    });
    const all = gains.reduce((sum, { gain }) => sum + gain, 0);
    if (!(all > 0)) continue;
    for (const { name, gain, owed } of gains) {
      found.push({ at: to.at, name, received: (100 * gain) / all, owed });
    }
  }
  return found;
}

/** What each is owed stays the same, and each always has work. */
function countable({ loads, changes }: Scenario): boolean {
  return !changes && loads.length > 1 && loads.every(({ burst }) => !burst);
}

/** Points between what a session's kernels were of all work, and what it was owed. */
function workOff({ loads }: Scenario, { done }: Played): number | null {
  if (!done) return null;
  const work = loads.map((load, index) => {
    const launches = done.get(`${index}`) ?? 0;
    return launches * unitMicroseconds(load);
  });
  const all = work.reduce((sum, one) => sum + one, 0);
  const requests = loads.reduce((sum, { request }) => sum + request, 0);
  return Math.max(
    ...loads.map(({ request }, i) =>
      Math.abs((100 * (work[i] ?? 0)) / all - (100 * request) / requests),
    ),
  );
}

/** Nanoseconds between the furthest that a session was ahead of what it was owed and the furthest behind. */
function mostAhead({ samples }: Played, calm: (at: number) => boolean): number {
  const ranges = new Map<string, { now: number; least: number; most: number }>();
  for (const [i, to] of samples.entries()) {
    const from = samples[i - 1];
    if (!from || !calm(to.at)) continue;
    const gains = to.sessions.map((session) => {
      const before = from.sessions.find(({ name }) => name === session.name);
      return { ...session, gain: before ? session.deviceNs - before.deviceNs : 0 };
    });
    const all = gains.reduce((sum, { gain }) => sum + gain, 0);
    for (const { name, gain, owed } of gains) {
      const range = ranges.get(name) ?? { now: 0, least: 0, most: 0 };
      range.now += gain - (owed / 100) * all;
      range.least = Math.min(range.least, range.now);
      range.most = Math.max(range.most, range.now);
      ranges.set(name, range);
    }
  }
  return Math.max(0, ...[...ranges.values()].map(({ least, most }) => most - least));
}

function judge(scenario: Scenario, played: Played): Result {
  const calm = (at: number) =>
    at > settleSeconds + windowSeconds &&
    (scenario.changes ?? []).every(
      ({ after }) => at < after || at > after + settleSeconds + windowSeconds,
    );
  const judged = windows(played).filter(({ at }) => at < scenario.seconds && calm(at));
  // Alone there is nobody to compare with: then the part of the time counts, as the server has it.
  const single = scenario.loads.length === 1;
  const limit = scenario.loads[0]?.limit ?? 100;
  const off = single
    ? played.samples
        .filter(({ at }) => calm(at) && at < scenario.seconds)
        .flatMap(({ sessions }) => sessions.map(({ received }) => received - limit))
        .map((points) => Math.max(0, points))
    : judged.map(({ received, owed }) => Math.abs(received - owed));
  const bursts = scenario.loads.some(({ burst }) => burst);
  const worst = Math.max(...off);
  const mean = off.reduce((sum, one) => sum + one, 0) / off.length;
  const sessions = scenario.loads.map((_, index) => {
    const mine = judged.filter(({ name }) => name === `${index}`);
    const average = (of: (one: (typeof mine)[number]) => number) =>
      mine.reduce((sum, one) => sum + of(one), 0) / mine.length;
    return {
      name: `${index}`,
      owed: average(({ owed }) => owed),
      received: average(({ received }) => received),
      kernels: played.kernels[index] ?? 0,
      gateWaits: played.last.get(`${index}`)?.share.gateWaits ?? 0,
    };
  });
  const overall = single
    ? worst
    : Math.max(...sessions.map(({ owed, received }) => Math.abs(received - owed)));
  const longest = Math.max(...scenario.loads.map(unitMicroseconds));
  const kernel = (100 * longest) / 1e6 / windowSeconds;
  const inTime = (at: number) => at < scenario.seconds && calm(at);
  const ahead = single ? 0 : mostAhead(played, inTime) / (longest * 1000);
  const work = workOff(scenario, played);
  // Who rests within a window is owed less than at its end: there the mean is what counts.
  const met =
    (bursts ? mean : worst) <= markPoints + kernel &&
    overall <= markPoints &&
    (work ?? 0) <= markPoints &&
    (longest < longKernel || ahead <= 1);
  const { name, what } = scenario;
  return { scenario: name, what, worst, mean, overall, kernel, ahead, work, met, sessions };
}

function seriesOf(played: Played): Series[] {
  const found = windows(played);
  const names = [...new Set(found.map(({ name }) => name))].sort();
  return names.map((name) => {
    const mine = found.filter((one) => one.name === name);
    return {
      name,
      points: mine.map(({ at, received }) => [at, received]),
      owed: mine.map(({ at, owed }) => [at, owed]),
    };
  });
}

/** One session with the whole GPU, with the policy and without any; and natively. */
async function alone() {
  const seconds = 3;
  const load = { request: 100, limit: 100, kernelMicroseconds: 200, form: 'plain' as const };
  const pairs: { gated: number; open: number; native: number }[] = [];
  for (let i = 0; i < 5; i++) {
    const one = async (policy: string) => {
      const server = await Loaded.start(1, 1, ['--quota', policy]);
      const address = `127.0.0.1:${server.address.port}`;
      const kernels = await start('alone', load, turns, seconds, address).done;
      await server.stop();
      return kernels;
    };
    pairs.push({
      gated: await one(values.policy),
      open: await one('none'),
      native: await native(load, turns, seconds),
    });
  }
  const median = (numbers: number[]) =>
    [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? 0;
  const figures = {
    kernels: median(pairs.map(({ gated }) => gated)),
    againstNone: median(pairs.map(({ gated, open }) => gated / open)),
    againstNative: median(pairs.map(({ gated, native }) => gated / native)),
  };
  console.log(
    `\nalone, 100 %: ${figures.againstNone.toFixed(3)} of the kernels without a policy, ` +
      `${figures.againstNative.toFixed(3)} of those of a native run`,
  );
  return figures;
}

function print(result: Result) {
  const { scenario, what, worst, mean, overall, kernel, ahead, work, met, sessions } = result;
  console.log(`${scenario.padEnd(10)} ${what}`);
  for (const { name, owed, received, kernels, gateWaits } of sessions) {
    const figures = `owed ${owed.toFixed(1)}  received ${received.toFixed(1)}`;
    console.log(`   ${name}  ${figures}  ${kernels} kernels, held ${gateWaits} times`);
  }
  const points = [mean, worst, overall, kernel].map((one) => one.toFixed(2));
  console.log(
    `   off by ${points[0]} points in a second, ${points[1]} at worst, ${points[2]} over all; ` +
      `a kernel is ${points[3]}; at most ${ahead.toFixed(2)} kernels ahead or behind; ` +
      `${work?.toFixed(2) ?? '–'} by kernels: ${met ? 'met' : 'NOT MET'}\n`,
  );
}

function write() {
  const folder = wanted ? path.join(build, 'bench') : record;
  mkdirSync(folder, { recursive: true });
  const date = new Date().toISOString();
  const here = machine();
  const whole = { date, machine: here, policy: values.policy, mark: markPoints, results, overhead };
  writeFileSync(path.join(folder, 'quota.json'), `${JSON.stringify(whole, null, 2)}\n`);
  writeFileSync(path.join(folder, 'quota.svg'), plot(plots));
  writeFileSync(path.join(folder, 'quota.md'), markdown(date));
  console.log(`Written to ${path.relative(process.cwd(), folder)}/quota.{json,md,svg}.`);
}

function markdown(date: string): string {
  const rows = results.map((result) => {
    const { scenario, what, mean, worst, overall, kernel, ahead, work, met, sessions } = result;
    const shares = sessions.map(
      ({ owed, received }) => `${received.toFixed(1)} (${owed.toFixed(1)})`,
    );
    const points = [mean, worst, kernel, overall].map((one) => one.toFixed(2));
    const more = [work?.toFixed(2) ?? '–', kernel * 1e4 >= longKernel ? ahead.toFixed(2) : '–'];
    const figures = [...points, ...more, met ? 'yes' : 'no'].join(' | ');
    return `| ${scenario} | ${what} | ${shares.join(', ')} | ${figures} |`;
  });
  const { cpu, cores } = machine();
  const more = overhead
    ? `\nAlone with 100 %: ${overhead.againstNone.toFixed(3)} of the kernels that it runs without a policy, ` +
      `${overhead.againstNative.toFixed(3)} of a native run's (medians of 5 pairs).\n`
    : '';
  return `# Shares of GPU time

\`npm run bench -- quota\`, policy \`${values.policy}\`, ${date}, software device, ${cores} cores of ${cpu}.
Received (owed): percent of what all sessions got; points off: in windows of ${windowSeconds} s. The mark is ${markPoints} points over all, and in
each window beside what one kernel of the longest kind is, which nothing can cut. By kernels: over all, too, but counted
by the kernels that have ended and not by what the server measured; 2 points as well. Ahead: with kernels of 50 ms and
more, how many of them lie between the furthest that anybody was ahead of what it was owed and the furthest behind, at
any time; the mark is one. [Plot](quota.svg).

| | sessions | received (owed) | points off | worst | a kernel | over all | by kernels | ahead | met |
|---|---|---|---|---|---|---|---|---|---|
${rows.join('\n')}
${more}`;
}
