// HAS-GPU: its filter, its timings and its hybrid scaling, over any sequence of rates.
import fc from 'fast-check';
import t from 'tap';
import { kalmanStep, unmeasured } from '../../policies/cluster/kalman.js';
import { Ledger } from '../../policies/cluster/ledger.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { hasGpu } from '../../policies/cluster/scaling/has-gpu.js';
import {
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type Effect,
  type FunctionState,
  problemOf,
} from '../../policies/cluster/state.js';
import { latencyOf, timedSms, withTiming } from '../../policies/cluster/timings.js';

t.test('the filter follows, is never below what was measured, and bears anything', async (t) => {
  const options = { lift: 1, buffer: 5, feedback: false };
  const value = fc.oneof(
    fc.double({ min: 0, max: 1000, noNaN: true }),
    fc.constantFrom(Number.NaN, -3),
  );
  const run = fc.property(fc.array(value, { maxLength: 40 }), (values) => {
    let filter = unmeasured;
    for (const measured of values) {
      const step = kalmanStep(filter, measured, options);
      filter = step.filter;
      if (!(step.forecast >= (measured > 0 ? measured : 0) + 5)) return false;
      if (!(filter.variance > 0 && filter.variance < 11)) return false;
    }
    return true;
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
  const after = (feedback: boolean) => {
    let step = { filter: unmeasured, forecast: 0 };
    for (let n = 0; n < 200; n++) step = kalmanStep(step.filter, 100, { ...options, feedback });
    return step;
  };
  t.equal(after(false).filter.estimate.toFixed(3), '100.000', 'it arrives');
  t.ok(after(true).filter.estimate > 104, "with the authors' feedback it stays above");
});

t.test('timings: what was measured, and a line of rates between', async (t) => {
  const one = { name: 'f', batch: 4, sm: 300 };
  let timings = withTiming({}, { ...one, time: 200, latency: 80 });
  timings = withTiming(timings, { ...one, time: 100, latency: 200 });
  timings = withTiming(timings, { ...one, time: 400, latency: 40 });
  t.equal(latencyOf(timings, { ...one, time: 200 }), 80);
  t.equal(
    latencyOf(timings, { ...one, time: 300 })?.toFixed(3),
    (1 / (0.5 / 80 + 0.5 / 40)).toFixed(3),
  );
  t.equal(latencyOf(timings, { ...one, time: 300 }, true), null, 'only what was measured');
  t.equal(latencyOf(timings, { ...one, time: 900 }), 40, 'more time than was measured');
  t.equal(latencyOf(timings, { ...one, time: 50 }), null, 'less time than was measured');
  t.equal(latencyOf(timings, { ...one, sm: 500, time: 200 }), null);
  t.same(withTiming(timings, { ...one, time: 500, latency: 0 }), timings);
  t.same(withTiming(timings, { ...one, time: 500, latency: Number.NaN }), timings);
  t.same(
    timedSms(withTiming(timings, { ...one, sm: 100, time: 1, latency: 1 }), 'f', 4),
    [100, 300],
  );
  t.same(timedSms(timings, 'f', 8), []);
});

// ---- scaling ---------------------------------------------------------------------------------------

const functionOf = (name: string): FunctionState => ({
  ...{ name, kind: 'inference', class: 'strict', slo: 200, devices: 1, batch: 4, solo: 20 },
  resources: { sm: 300, smLimit: 300, time: 300, memory: 4 },
});

/** Latencies of 30 % and 60 % of the SMs, in steps of 10 % of time. */
const timed: ClusterEvent[] = ['f', 'g'].flatMap((name) =>
  [300, 600].flatMap((sm) =>
    Array.from({ length: 10 }, (_, index): ClusterEvent => {
      const time = 100 * (index + 1);
      return { kind: 'timed', name, batch: 4, sm, time, latency: 10 + 3_000_000 / (sm * time) };
    }),
  ),
);

class Trial {
  readonly ledger: Ledger;
  now = 0;
  #memory = hasGpu.start();
  readonly #parameters;

  constructor(devices: number, given: Record<string, number> = {}) {
    const of = (gpu: number) => ({ node: 0, server: '', gpu, slice: null, memory: 16 });
    this.ledger = new Ledger(Array.from({ length: devices }, (_, gpu) => of(gpu)));
    this.#parameters = parametersOf(hasGpu, given);
    for (const event of timed) this.tell(event);
  }

  start(instance: number, device: number, sm = 300, time = 300, name = 'f') {
    const resources = { sm, smLimit: sm, time, memory: 4 };
    this.ledger.claim({ instance, name, how: 'running', parts: [{ device, resources }] });
  }

  get state(): ClusterState {
    const functions = new Map(['f', 'g'].map((name) => [name, functionOf(name)]));
    const { now, ledger } = this;
    return { version: contractVersion, revision: 0, now, ledger, functions, waiting: [] };
  }

  tell(event: ClusterEvent): readonly Effect[] {
    const memory = this.#memory;
    const input = { state: this.state, events: [event], memory, parameters: this.#parameters };
    const decision = hasGpu.decide(input);
    const again = hasGpu.decide({ ...input, memory: JSON.parse(JSON.stringify(memory)) });
    if (JSON.stringify(decision) !== JSON.stringify(again)) throw new Error('not the same again');
    this.#memory = decision.memory;
    for (const effect of decision.effects) {
      const problem = problemOf(effect, this.state);
      if (problem !== null) throw new Error(problem);
      if (effect.kind === 'place') {
        const { instance, name, parts } = effect;
        this.ledger.claim({ instance, name, how: 'starting', parts });
      } else if (effect.kind === 'quota') this.ledger.resize(effect.instance, effect.resources);
      else if (effect.kind === 'end') this.ledger.release(effect.instance);
    }
    return decision.effects;
  }

  rate(requests: number, name = 'f') {
    return this.tell({ kind: 'rate', name, requests, period: 1000 });
  }

  /** [device, SMs, time] of each instance. */
  all(name = 'f') {
    return [...this.ledger.of(name)].map((instance) => {
      const part = this.ledger.entry(instance)?.parts[0];
      return [part?.device, part?.resources.sm, part?.resources.time];
    });
  }

  check() {
    for (const device of this.ledger.devices.keys()) {
      const rows = new Map<number, number>();
      for (const instance of this.ledger.on(device)) {
        const { sm = 0, time = 0 } = this.ledger.entry(instance)?.parts[0]?.resources ?? {};
        rows.set(sm, (rows.get(sm) ?? 0) + time);
      }
      if (rows.size > 2) throw new Error(`${rows.size} rows on ${device}`);
      for (const [sm, time] of rows) if (time > 1000) throw new Error(`${time} of time with ${sm}`);
      if ([...rows.keys()].reduce((sum, sm) => sum + sm, 0) > 1000) throw new Error('SMs');
      if ((this.ledger.memory[device] ?? 0) > 16) throw new Error('memory');
    }
  }
}

t.test('more time first, then beside others, then a new GPU; and back', async (t) => {
  const trial = new Trial(2);
  trial.start(1, 0);
  t.same(trial.rate(75), [], 'it has enough');
  t.same(
    trial.rate(100).map(({ kind }) => kind),
    ['quota'],
  );
  t.same(trial.all(), [[0, 300, 400]], 'as many steps as it takes');
  trial.rate(400);
  t.same(trial.all(), [
    [0, 300, 1000],
    [0, 600, 600],
  ]);
  trial.rate(1000);
  t.same(trial.all().at(-1)?.[0], 1, 'then another GPU');
  for (let time = 0; time < 5; time++) trial.rate(1000);
  const most = trial.all();
  t.same(trial.rate(1000), [], 'there is no more room');
  t.same(trial.all(), most);
  for (trial.now = 0; trial.now < 400_000; trial.now += 2000) trial.rate(0);
  t.same(
    trial.all(),
    [
      [0, 600, 100],
      [1, 600, 100],
    ],
    'those with many SMs stay',
  );
  const small = new Trial(1);
  small.start(1, 0, 300, 500);
  small.start(2, 0, 300, 500);
  for (small.now = 0; small.now < 400_000; small.now += 2000) small.rate(0);
  t.same(small.all(), [[0, 300, 100]], 'of those with few one is left');
});

t.test('what was never timed, does not run or is not known is left alone', async (t) => {
  const trial = new Trial(1);
  t.same(trial.rate(100), [], 'nothing runs');
  trial.start(1, 0, 450);
  t.same(trial.rate(100), [], 'never timed with so many SMs');
  t.same(trial.rate(100, 'unheard of'), []);
  t.same(trial.tell({ kind: 'rate', name: 'f', requests: 5, period: 0 }), []);
});

t.test('a lost GPU gets nothing', async (t) => {
  const trial = new Trial(3);
  trial.start(1, 0, 300, 1000);
  trial.ledger.lose(1);
  trial.rate(500);
  t.notOk(trial.all().some(([device]) => device === 1));
  t.ok(trial.all().some(([device]) => device === 2));
});

const rates = fc.array(
  fc.record({
    name: fc.constantFrom('f', 'g'),
    requests: fc.constantFrom(0, 0, 5, 20, 60, 150, 400),
    seconds: fc.constantFrom(-30, 0, 2, 2, 12),
  }),
  { maxLength: 40 },
);

for (const authors of [0, 1]) {
  t.test(`never over a row, two rows, a GPU; authors: ${authors}`, async (t) => {
    let effects = 0;
    const run = fc.property(rates, (rates) => {
      const trial = new Trial(3, { authors });
      trial.start(1, 0);
      trial.start(2, 1, 600, 100, 'g');
      for (const { name, requests, seconds } of rates) {
        trial.now += 1000 * seconds;
        effects += trial.rate(requests, name).length;
        trial.check();
        if (trial.ledger.of(name).size === 0) return false;
      }
      return true;
    });
    fc.assert(run, { numRuns: 300 });
    t.ok(effects > 500, `${effects} effects`);
  });
}

t.test(
  'it does not shrink so far that it would have to grow at once, nor again while it cools',
  async (t) => {
    let shrank = 0;
    const run = fc.property(
      fc.integer({ min: 20, max: 400 }),
      fc.integer({ min: 0, max: 100 }),
      (high, low) => {
        fc.pre(low <= high);
        const trial = new Trial(3);
        trial.start(1, 0);
        for (let tick = 0; tick < 10; tick++) trial.rate(high);
        let last = Number.NEGATIVE_INFINITY;
        for (let tick = 0; tick < 60; tick++) {
          trial.now += 2000;
          const before = JSON.stringify(trial.all());
          const effects = trial.rate(low);
          if (effects.length === 0) continue;
          const time = (all: string) =>
            JSON.parse(all).reduce((sum: number, one: number[]) => sum + (one[2] ?? 0), 0);
          if (time(JSON.stringify(trial.all())) > time(before)) return false;
          if (trial.now - last < 10_000) return false;
          last = trial.now;
          shrank++;
        }
        return true;
      },
    );
    fc.assert(run, { numRuns: 100 });
    t.ok(shrank > 50, `${shrank} times`);
  },
);
