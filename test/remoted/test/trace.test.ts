// A real program, recorded by guest and server, on one time axis.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { serve } from '../../../monitor/src/commands/serve.js';
import { readStats } from '../../../monitor/src/run/stats.js';
import { chromeTrace } from '../../../monitor/src/trace/chrome.js';
import { type ClockMap, estimateClocks } from '../../../monitor/src/trace/clocks.js';
import { perfettoTrace, traceTypes } from '../../../monitor/src/trace/perfetto.js';
import { type Recording, readRecording } from '../../../monitor/src/trace/recording.js';
import { makeTimeline } from '../../../monitor/src/trace/timeline.js';
import { replay, type Seen } from '../../../monitor/test/support/track-events.js';
import { build, noPrograms, softwareDevice } from '../../support/paths.js';
import { example, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const host = path.join(build, 'api-server', 'executor-host');

/** The executor by itself, for one session that is recorded. */
async function startHost(folder: string): Promise<{ address: string; child: ChildProcess }> {
  const args = ['--library', softwareDevice, '--sessions', '1', '--trace-dir', folder];
  const child = spawn(host, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const [line] = await once(lines, 'line');
  return { address: `127.0.0.1:${/\d+/.exec(line)?.[0]}`, child };
}

interface Recorded {
  guest: Recording;
  server: Recording;
  /** By name, as the guest library counted them. */
  counts: Map<string, number>;
  unsupported: number;
  stdout: string;
}

async function record(folder: string, program: string, args: string[]): Promise<Recorded> {
  const { address, child } = await startHost(folder);
  const files = { trace: path.join(folder, 'guest.trace'), stats: path.join(folder, 'stats') };
  const env = { OUTBOARD_TRACE: files.trace, OUTBOARD_STATS: files.stats };
  const ended = once(child, 'exit');
  const run = await remoted(program, address, { args, env });
  if (run.code !== 0) throw new Error(run.stderr);
  await ended;
  return {
    guest: readRecording(files.trace),
    server: readRecording(path.join(folder, 'session-1.trace')),
    ...countsOf(files.stats),
    stdout: run.stdout,
  };
}

function countsOf(file: string) {
  const { byCall, unsupported } = readStats(file);
  return { counts: new Map(byCall.map(({ name, count }) => [name, count] as const)), unsupported };
}

function bytesOf(guest: Recording | null, server: Recording | null): Buffer {
  return Buffer.concat([...perfettoTrace(makeTimeline(guest, server))]);
}

/** The same, as if the server's machine were another one, so much ahead. */
function elsewhere(server: Recording, ahead: bigint): Recording {
  return { ...server, clock: 'another machine', base: server.base + ahead };
}

function checkCalls(t: Test, seen: Seen[], { counts, unsupported }: Recorded) {
  const calls = seen.filter(({ category }) => category === 'cuda');
  const found = new Map<string, number>();
  for (const { name } of calls) found.set(name, (found.get(name) ?? 0) + 1);
  const served = [...found].filter(([name]) => counts.has(name));
  t.same(Object.fromEntries(served), Object.fromEntries(counts), 'every call, so often');
  const rest = [...found].filter(([name]) => !counts.has(name));
  t.equal(
    rest.reduce((sum, [, count]) => sum + count, 0),
    unsupported,
    'and those that are not served',
  );
}

/** Kernels run after their launch, and before what waited for them is told. */
function checkKernels(t: Test, seen: Seen[], recorded: Recorded, clockWithin: number) {
  const device = recorded.server.events.filter(({ name }) => name === 'device clock');
  // Floats of milliseconds, and rounding.
  const within = clockWithin + Math.max(...device.map(({ a }) => a)) + 2000;
  const kernels = seen.filter(({ category }) => category === 'kernel');
  t.ok(kernels.length > 0, 'there are kernels');
  const launches = seen.filter(({ name }) => name.startsWith('cuLaunchKernel'));
  const waits = seen.filter(({ category }) => category === 'wait');
  const wrong: unknown[] = [];
  for (const kernel of kernels) {
    const own = launches.filter(({ from }) => from.some((flow) => kernel.to.includes(flow)));
    if (own.length === 0) wrong.push(['nobody launched', kernel]);
    // Several launches may be one box, which begins with the first of them.
    const first = Math.min(...own.map(({ at }) => at));
    if (first > kernel.at + within) wrong.push(['before its launch', own, kernel]);
    for (const launch of own) {
      if (launch.at > (kernel.end ?? 0) + within)
        wrong.push(['over before its launch', launch, kernel]);
      const sequence = launch.from.map((flow) => (flow - 1n) / 2n)[0] ?? 0n;
      const waited = waits.find(
        ({ args, name }) =>
          (args['sequence'] as bigint) > sequence && /Synchronize|Download/.test(name),
      );
      if (!waited) wrong.push(['nobody waited', kernel]);
      else if ((kernel.end ?? 0) > (waited.end ?? 0) + within) {
        wrong.push(['after who waited', waited, kernel]);
      }
    }
  }
  t.same(wrong, []);
}

function checkSides(t: Test, seen: Seen[]) {
  const tracks = new Set(seen.map(({ track }) => track));
  for (const name of ['main thread', 'wire: out', 'wire: in', 'queue', 'executor']) {
    t.ok(tracks.has(name), `a track ${name}`);
  }
  const waits = seen.filter(({ category, from }) => category === 'wait' && from.length > 0);
  t.ok(waits.length > 0, 'waits lead to commands');
  for (const wait of waits) {
    t.ok(wait.depth > 0, `${wait.name} lies in a call`);
    const command = seen.find(({ to }) => to.some((flow) => wait.from.includes(flow)));
    t.ok(command && wait.name === `wait: ${command.name}`, `${wait.name} leads to its command`);
  }
}

function check(t: Test, recorded: Recorded, clocks: ClockMap | null) {
  const { guest, server } = recorded;
  // A thread may have been in the middle of a record when the program ended.
  t.ok(guest.lost <= 1);
  t.equal(server.lost, 0);
  t.equal(guest.session, server.session);
  const ahead = 3_600_000_000_000n;
  const { within } = clocks ?? {};
  if (!clocks || within === undefined) return t.fail('clocks can be compared');
  t.ok(Number.isFinite(within) && within > 0);
  const off = clocks.ahead + Number(server.base - guest.base);
  t.ok(Math.abs(off) <= clocks.within + 1, `the estimate of 0 is ${off} ns, +- ${clocks.within}`);
  for (const [name, other, exact] of [
    ['one machine', server, 0],
    ['two machines', elsewhere(server, ahead), within],
  ] as const) {
    t.test(name, async (t) => {
      const seen = replay(bytesOf(guest, other));
      checkCalls(t, seen, recorded);
      checkSides(t, seen);
      checkKernels(t, seen, recorded, exact);
      const [facts] = seen;
      t.match(facts, { name: 'trace', args: { clocks: exact ? 'estimated' : 'same' } });
      if (exact) {
        const told = Number(facts?.args['clocks.ahead_ns']) - Number(ahead);
        t.ok(Math.abs(told) <= within + 2, 'the difference is told');
      }
    });
  }
  return t.test('each side alone, and in both formats', async (t) => {
    checkCalls(t, replay(bytesOf(guest, null)), recorded);
    const alone = replay(bytesOf(null, server));
    t.ok(alone.every(({ process }) => process === 'outboard server'));
    const bytes = bytesOf(guest, server);
    const { packet } = traceTypes().Trace.decode(bytes) as unknown as { packet: unknown[] };
    const seen = replay(bytes);
    t.ok(packet.length > seen.length);
    const json = JSON.parse([...chromeTrace(makeTimeline(guest, server))].join('')) as {
      traceEvents: { ph: string }[];
    };
    const count = (ph: string) => json.traceEvents.filter((event) => event.ph === ph).length;
    const slices = seen.filter(({ end }) => end !== null).length;
    t.same([count('B'), count('E')], [slices, slices]);
    t.equal(count('i'), seen.length - slices - 1, 'all moments; facts stand elsewhere');
  });
}

const skip = noPrograms;

t.test('vector-add', { skip }, async (t) => {
  const recorded = await record(t.testdir(), example('vector-add'), []);
  check(t, recorded, estimateClocks(recorded.guest, recorded.server));
});

t.test('k-means: many launches and waits', { skip }, async (t) => {
  const args = ['--generate', '20000', '--k', '6', '--iterations', '10'];
  const recorded = await record(t.testdir(), example('kmeans'), args);
  check(t, recorded, estimateClocks(recorded.guest, recorded.server));
});

t.test('threads and streams', { skip }, async (t) => {
  const recorded = await record(t.testdir(), testProgram('threads'), []);
  const seen = replay(bytesOf(recorded.guest, recorded.server));
  checkCalls(t, seen, recorded);
  const threads = new Set(seen.filter(({ category }) => category === 'cuda').map((s) => s.track));
  t.ok(threads.size > 1, 'several threads called');
});

const option = serve.options && 'trace-dir' in serve.options;
const noOption = option ? noPrograms : 'outboard serve has no --trace-dir';

t.test('through a monitor', { skip: noOption }, async (t) => {
  const folder = t.testdir();
  const traces = path.join(folder, 'traces');
  const args = ['--device', 'software', '--gpus', '1', '--trace-dir', traces];
  const server = await startServer({ args });
  const trace = path.join(folder, 'guest.trace');
  try {
    const env = { OUTBOARD_TRACE: trace };
    const run = await remoted(example('vector-add'), server.address, { env });
    t.equal(run.code, 0, run.stderr);
  } finally {
    await server.stop();
  }
  const file = path.join(traces, 'session-1.trace');
  t.ok(existsSync(file));
  const seen = replay(bytesOf(readRecording(trace), readRecording(file)));
  const queue = seen.filter(({ track }) => track === 'queue').map(({ name }) => name);
  for (const name of ['hello', 'queue', 'handover', 'welcome']) {
    t.ok(queue.includes(name), `the queue's track has ${name}`);
  }
  t.ok(seen.some(({ category }) => category === 'kernel'));
});
