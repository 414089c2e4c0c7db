// Dilu's states and constants, by table.
import t from 'tap';
import { measure, noBursts, slowdown } from '../../policies/quota/bursts.js';
import { constants, type DiluMemory, dilu } from '../../policies/quota/dilu.js';
import type { QuotaSession } from '../../policies/quota.js';
import type { SessionClass } from '../../policies/state.js';
import { SimulatedDevice } from '../support/simulated-device.js';

const max = 10_000;

interface Task {
  class: SessionClass;
  request: number;
  limit: number;
  /** Blocks in each period. */
  blocks: number[];
}

/** Runs the policy over the samples, the first time it sees them before; tells what it says. */
function play(version: 'paper' | 'corrected', tasks: Task[]) {
  const policy = dilu(version, { maxBlocks: max });
  let memory: DiluMemory = policy.start();
  const charged = tasks.map(() => 0n);
  const steps = Math.max(...tasks.map(({ blocks }) => blocks.length));
  const seen = [];
  for (let step = -1; step < steps; step++) {
    const sessions = tasks.map((task, index): QuotaSession => {
      charged[index] = (charged[index] ?? 0n) + BigInt(task.blocks[step] ?? 0);
      return {
        id: index + 1,
        class: task.class,
        shareRequest: task.request,
        shareLimit: task.limit,
        charged: charged[index] ?? 0n,
        wants: true,
      };
    });
    const output = policy.step({ now: BigInt(step + 1) * 5_000_000n, sessions, memory });
    memory = output.memory;
    const quotaTokens = tasks.map((_, index) =>
      Math.round(memory.tasks.get(index + 1)?.quotaTokens ?? -1),
    );
    seen.push({ state: memory.state, quotaTokens, limits: output.limits });
  }
  return seen;
}

const last = <T>(values: T[]): T => values[values.length - 1] as T;
const strict = (blocks: number[]): Task => {
  return { class: 'latency-strict', request: 40, limit: 80, blocks };
};
const effort = (blocks: number[]): Task => {
  return { class: 'best-effort', request: 30, limit: 60, blocks };
};
const runs = (...lengths: [work: number, rest: number][]) =>
  lengths.flatMap(([work, rest]) => [...Array(work).fill(100), ...Array(rest).fill(0)]);
const busy = (length: number) => Array(length + 1).fill(100);

t.test('constants of the paper and its code', async (t) => {
  t.match(constants, { periodMs: 5, window: 100, violation: 0.6, outlier: 3, increase: 1.3 });
  t.equal(dilu('paper').unit, 'blocks');
  t.equal(dilu('paper').periodMs, 5);
});

t.test('bursts: samples in a row, the shortest of those that tell', async (t) => {
  const after = (samples: number[], ages = false) =>
    samples.reduce((bursts, blocks) => measure(bursts, blocks > 0, ages), noBursts);
  t.equal(slowdown(noBursts), 0, 'nothing known yet');
  t.equal(after(runs([6, 1])).shortest, null, '30 ms tell nothing');
  t.equal(after(runs([7, 1])).shortest, 7);
  t.equal(slowdown(after(runs([10, 1], [16, 1]))), 0.6);
  t.equal(slowdown(after([...runs([10, 1]), ...busy(11)])), 0.2, 'one that goes on counts');
  const fast = runs([7, 1], ...Array<[number, number]>(20).fill([14, 1]));
  t.equal(after(fast).shortest, 7);
  t.equal(after(fast, true).shortest, 14, 'one fast burst is forgotten');
});

t.test('states', async (t) => {
  for (const version of ['paper', 'corrected'] as const) {
    t.match(last(play(version, [effort(busy(5))])), { state: 'NONE', quotaTokens: [6000] });
    // The strict one has done nothing: it has its request, the other may grow to its limit.
    const idle = play(version, [strict(Array(40).fill(0)), effort(busy(39))]);
    t.match(last(idle), { state: 'RECOVERY', quotaTokens: [4000, 6000] });
    // Both work: what it was promised, and the other keeps what it has.
    const both = play(version, [strict([...Array(9).fill(0), ...busy(3)]), effort(busy(12))]);
    t.equal(last(both).state, 'CONTENTION');
    t.equal(last(both).quotaTokens[0], 4000);
    t.equal(last(both).quotaTokens[1], both[9]?.quotaTokens[1]);
    // Alone it grows: by 1.3 each period.
    const alone = play(version, [strict(busy(30)), effort(Array(31).fill(0))]);
    t.equal(alone[0]?.state, 'RECOVERY');
    t.equal(alone[1]?.quotaTokens[0], 5200, 'from its request');
    t.equal(alone[2]?.quotaTokens[0], 6760);
    t.equal(last(alone).quotaTokens[0], version === 'paper' ? max : 8000, 'to the limit');
  }
});

t.test('growth in RECOVERY: each period as printed, each fifth when corrected', async (t) => {
  const grown = (version: 'paper' | 'corrected') =>
    play(version, [strict(Array(12).fill(0)), effort(busy(11))]).map(
      ({ quotaTokens }) => quotaTokens[1],
    );
  t.same(grown('paper').slice(0, 3), [1300, 1690, 2197]);
  t.same(grown('corrected').slice(0, 10), [...Array(4).fill(1000), ...Array(5).fill(1300), 1690]);
});

t.test('an emergency: the limit for its owner, the others shrink', async (t) => {
  // Bursts of 10 samples, then one of 16: 1.6 times.
  const work = [...runs([10, 3], [10, 3]), ...busy(15)];
  const others = effort(busy(work.length - 1));
  for (const version of ['paper', 'corrected'] as const) {
    const seen = play(version, [strict(work), others]);
    const before = seen.at(-2);
    t.equal(before?.state, 'CONTENTION');
    const { state, quotaTokens } = last(seen);
    t.equal(state, 'EMERGENCY');
    t.equal(quotaTokens[0], 8000);
    const had = Math.min(3000, before?.quotaTokens[1] ?? 0);
    // As printed, dividing by 0.6 gives more, not less.
    t.equal(quotaTokens[1], Math.round(had / (version === 'paper' ? 0.6 : 1.6)));
  }
});

t.test(
  'an emergency ends at once as printed, and when all is nearly well when corrected',
  async (t) => {
    // After the slow burst one of 13: slower than the shortest by 0.3.
    const work = runs([10, 3], [16, 3], [13, 3], [10, 3]);
    const states = (version: 'paper' | 'corrected', until: number) =>
      play(version, [strict(work.slice(0, until)), effort(busy(until - 1))]).map(
        ({ state }) => state,
      );
    const afterThird = 13 + 19 + 14;
    t.equal(last(states('paper', afterThird)), 'CONTENTION');
    t.equal(last(states('corrected', afterThird)), 'EMERGENCY');
    t.equal(last(states('corrected', work.length - 2)), 'CONTENTION');
  },
);

t.test('four times as long is other work', async (t) => {
  const work = [...runs([10, 3]), ...busy(39)];
  for (const version of ['paper', 'corrected'] as const) {
    const seen = play(version, [strict(work), effort(busy(work.length - 1))]);
    t.equal(last(seen).state, 'CONTENTION');
    t.equal(seen.at(-2)?.state, 'EMERGENCY');
  }
});

t.test(
  'two strict sessions: the last one decides as printed, the worse off when corrected',
  async (t) => {
    const slow = [...runs([10, 3]), ...busy(15)];
    const steady = busy(slow.length - 1);
    const states = (version: 'paper' | 'corrected') =>
      last(play(version, [strict(slow), strict(steady)])).state;
    t.equal(states('paper'), 'CONTENTION');
    t.equal(states('corrected'), 'EMERGENCY');
  },
);

t.test('never less than a hundredth of the request', async (t) => {
  const work = [...runs([10, 3]), ...busy(28)];
  const seen = play('corrected', [strict(work), effort(busy(work.length - 1))]);
  t.equal(last(seen).quotaTokens[1], 30);
});

t.test('a bucket: quota tokens flow out each period, a large launch is a debt', async (t) => {
  const seen = play('paper', [effort([30_000, 0, 0, 0, 0, 0])]);
  const left = seen.map(({ limits }, step) => {
    const charged = step === 0 ? 0n : 30_000n;
    return Number((limits.get(1) ?? 0n) - charged);
  });
  // 6000 a period: 30,000 - 6000 in the bucket, of which 6000 may be.
  t.same(left, [6001, -17_999, -11_999, -5999, 1, 6001, 6001]);
});

t.test('on a device: rates are kept to', async (t) => {
  const kernel = () => 20_000;
  const tasks = [10, 20].map((share, index) => {
    const request = share;
    const blocks = () => 10;
    return {
      id: index,
      class: 'best-effort' as const,
      shareRequest: request,
      shareLimit: share,
      kernel,
      blocks,
    };
  });
  // 20 us for 10 blocks: 2500 in 5 ms are all of it.
  const device = new SimulatedDevice(dilu('corrected', { maxBlocks: 2500 }), tasks);
  device.runUntil(2e9);
  t.ok(Math.abs(device.received(0, 1e9, 2e9) - 10) < 1);
  t.ok(Math.abs(device.received(1, 1e9, 2e9) - 20) < 1);
});
