// npm run bench -- idle [--quick] [--out FILE]
//
// What an attached session takes that does nothing: processor time and wake-ups of its API server
// process, of the program and of the monitor, thread by thread, on the null device and on the
// software device. The program has worked before. Writes bench/results/idle.json.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../../bin/paths.mjs';
import type { View } from '../../monitor/src/base/view.js';
import { deviceUnderTest, named } from '../../test/support/device.js';
import { Loaded } from '../load/serving.js';
import type { Bound } from '../src/figures.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { median, meets, short } from '../src/row.js';
import { nullDevice, startProcess } from '../src/serving.js';
import { type Activity, activity, threadsOf } from './threads.js';

interface Row {
  name: string;
  what: string;
  unit: string;
  /** Median of the windows; min and max are of the same. */
  value: number;
  min: number;
  max: number;
  windows: number;
  mark: (Bound & { met: boolean }) | null;
}

/** Threads of a process, in one window. */
interface Window {
  process: string;
  threads: Activity[];
}

const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } },
});
const windows = values.quick ? 1 : 5;
const windowSeconds = values.quick ? 0.5 : 3;
const settleSeconds = values.quick ? 2 : 3;

const devices =
  named === null
    ? [
        { device: 'null', library: path.join(nullDevice, 'libcuda.so.1') },
        { device: 'software', library: 'software' },
      ]
    : [{ device: path.basename(named), library: deviceUnderTest().serve }];
const rows: Row[] = [];
const threads: Record<string, Activity[]> = {};
for (const { device, library } of devices) {
  const server = await Loaded.start(1, 1, ['--device', library]);
  try {
    judge(device, 'without', await watch({ monitor: server.child.pid ?? 0 }));
    await withProgram(server, async (pids) => judge(device, 'with', await watch(pids)));
  } finally {
    await server.stop();
  }
}
const out = values.out ?? path.join(...(values.quick ? [build, 'bench'] : [record]), 'idle.json');
mkdirSync(path.dirname(out), { recursive: true });
const result = { date: new Date().toISOString(), machine: machine(), windowSeconds, rows, threads };
writeFileSync(out, `${JSON.stringify(result, null, 2)}\n`);
print();

/** Runs a program until it idles. */
async function withProgram(
  server: Loaded,
  use: (pids: { monitor: number } & Record<string, number>) => Promise<void>,
): Promise<void> {
  const program = startProcess([path.join(build, 'bench', 'bench-idle')], {
    LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
    OUTBOARD_SERVER: `127.0.0.1:${server.address.port}`,
  });
  try {
    await program.line;
    const view = (await (await fetch(`${server.http}v1/state`)).json()) as View;
    const executor = view.sessions[0]?.slotPid;
    if (!executor) throw new Error('the server has no session');
    await use({
      executor,
      program: program.child.pid ?? 0,
      monitor: server.child.pid ?? 0,
    });
  } finally {
    program.child.stdin?.end();
    await program.exit;
  }
}

/**
 * What comes to rest behind work has come to rest: no thread of these processes wakes any more, but Node's own, which
 * always does. On a slow machine that takes a while; one that never rests is seen in what is measured then.
 */
async function settled(pids: number[]) {
  await sleep(settleSeconds * 1000);
  for (let looks = 0; looks < 30; looks++) {
    const before = pids.map(threadsOf);
    await sleep(1000);
    const active = pids.flatMap((pid, index) =>
      activity(before[index] ?? new Map(), threadsOf(pid), 1),
    );
    if (!active.some(({ thread, wakeUps }) => thread !== 'node' && wakeUps > 0)) return;
  }
}

/** All processes in the same windows. */
async function watch({
  monitor,
  ...pids
}: { monitor: number } & Record<string, number>): Promise<Window[]> {
  const found: Window[] = [];
  await settled(Object.values(pids));
  for (let i = 0; i < windows; i++) {
    const all = { ...pids, monitor };
    const before = new Map(Object.values(all).map((pid) => [pid, threadsOf(pid)]));
    const begun = performance.now();
    await sleep(windowSeconds * 1000);
    const seconds = (performance.now() - begun) / 1000;
    for (const [process, pid] of Object.entries(all)) {
      const then = before.get(pid) ?? new Map();
      found.push({ process, threads: activity(then, threadsOf(pid), seconds) });
    }
  }
  return found;
}

function judge(device: string, session: 'with' | 'without', found: Window[]) {
  const add = (
    name: string,
    what: string,
    unit: string,
    of: Window[],
    one: (thread: Activity) => number,
    most?: number,
  ) => {
    const all = of.map((window) => window.threads.reduce((sum, thread) => sum + one(thread), 0));
    const value = short(median(all));
    rows.push({
      ...{ name: `${name}.${device}`, what, unit, value, windows: all.length },
      ...{ min: short(Math.min(...all)), max: short(Math.max(...all)) },
      mark:
        most === undefined ? null : { of: 'value', most, met: meets({ of: 'value', most }, value) },
    });
  };
  const of = (process: string, threads: (thread: Activity) => boolean = () => true) =>
    found
      .filter((window) => window.process === process)
      .map((window) => ({ ...window, threads: window.threads.filter(threads) }));
  const cpu = (thread: Activity) => thread.cpu;
  const wakeUps = (thread: Activity) => thread.wakeUps;
  const core = '% of a core';
  if (session === 'without') {
    add('monitor.none', 'the monitor, while there is no session', core, of('monitor'), cpu);
    add('monitor.none.wake-ups', 'all its threads', '/s', of('monitor'), wakeUps);
    return;
  }
  // Threads of Node have its name; the executor's and the driver's have names of their own.
  const native = of('executor', ({ thread }) => /^(outboard|softdev)-/.test(thread));
  const node = of('executor', ({ thread }) => !/^(outboard|softdev)-/.test(thread));
  add('executor', 'the API server process', core, of('executor'), cpu, 1);
  add('executor.wake-ups', 'threads of executor and driver', '/s', native, wakeUps, 0);
  add('executor.node.wake-ups', "threads of the process's Node", '/s', node, wakeUps);
  add('program', 'the program', core, of('program'), cpu, 1);
  add('program.wake-ups', 'all its threads', '/s', of('program'), wakeUps, 0);
  add('monitor', 'the monitor, with that session', core, of('monitor'), cpu);
  add('monitor.wake-ups', 'all its threads', '/s', of('monitor'), wakeUps);
  for (const process of ['executor', 'program', 'monitor'])
    threads[`${process}.${device}`] = medians(of(process));
}

/** Of each name of a thread. */
function medians(found: Window[]): Activity[] {
  const all = found.flatMap((window) => window.threads);
  return [...new Set(all.map(({ thread }) => thread))].map((thread) => {
    const mine = all.filter((one) => one.thread === thread);
    const of = (one: (thread: Activity) => number) => short(median(mine.map(one)));
    return {
      thread,
      count: of(({ count }) => count),
      cpu: of((one) => one.cpu),
      wakeUps: of((one) => one.wakeUps),
    };
  });
}

function print() {
  for (const { name, what, unit, value, mark } of rows) {
    const verdict = mark ? `<= ${mark.most}: ${mark.met ? 'met' : 'NOT met'}` : '';
    console.log(
      `${name.padEnd(32)}${`${value} ${unit}`.padEnd(22)}${verdict.padEnd(16)}${what}`.trimEnd(),
    );
  }
  for (const [process, all] of Object.entries(threads)) {
    console.log(`\n${process}`);
    for (const { thread, count, cpu, wakeUps } of all)
      console.log(`  ${`${count} ${thread}`.padEnd(24)} ${wakeUps} wake-ups/s, ${cpu} %`);
  }
  console.log(`\nWritten to ${path.relative(process.cwd(), out)}.`);
}
