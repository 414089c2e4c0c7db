// Dilu: its profiling and its lazy scaling.
import fc from 'fast-check';
import t from 'tap';
import { Ledger } from '../../policies/cluster/ledger.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { bisect, hybridGrowth, type Measure } from '../../policies/cluster/profiling.js';
import { dilu } from '../../policies/cluster/scaling/dilu.js';
import { type ClusterState, contractVersion } from '../../policies/cluster/state.js';

/** A function that needs `work` milliseconds of all SMs for each request, `fixed` for a batch, and uses so many at most. */
const model =
  (work: number, fixed: number, uses: number, seen: string[] = []): Measure =>
  (sm, batch) => {
    seen.push(`${sm},${batch}`);
    const latency = fixed + (100 * work * batch) / Math.min(sm, uses);
    return { latency, throughput: (1000 * batch) / latency };
  };

t.test(
  'the growth search keeps the SLO, tries nothing twice and says when there is no plan',
  async (t) => {
    const part = fc.double({ min: 0.1, max: 20, noNaN: true });
    const uses = fc.integer({ min: 10, max: 100 });
    const run = fc.property(
      part,
      part,
      uses,
      fc.integer({ min: 10, max: 400 }),
      fc.boolean(),
      (work, fixed, uses, slo, further) => {
        const seen: string[] = [];
        const measure = model(work, fixed, uses, seen);
        const found = hybridGrowth(measure, slo, further);
        if (new Set(seen).size !== seen.length) return false;
        if (!found) return measure(100, 1).latency > slo / 2;
        const { request, limit, batch, trials } = found;
        return (
          measure(request, batch).latency <= slo / 2 &&
          limit === Math.min(100, 2 * request) &&
          trials === seen.length - 1 &&
          request % 10 === 0
        );
      },
    );
    t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
    t.equal(hybridGrowth(model(1, 100, 100), 100), null, 'no part of the GPU is fast enough');
    const slow = () => ({ latency: 0, throughput: 1 });
    t.throws(() => hybridGrowth(slow, 100), /10 % of SMs and batches of 1 gave no time/);
  },
);

t.test('what the search for training finds is the least that is enough', async (t) => {
  const run = fc.property(fc.integer({ min: 5, max: 100 }), (uses) => {
    const seen: string[] = [];
    const measure = model(10, 1, uses, seen);
    const { request, limit, trials } = bisect(measure);
    if (trials !== seen.length || new Set(seen).size !== seen.length) return false;
    const whole = measure(100, 1).throughput;
    const enough = (sm: number, part: number) => measure(sm, 1).throughput >= (part - 0.02) * whole;
    const isLeast = (sm: number, part: number) =>
      enough(sm, part) && (sm === 5 || !enough(sm - 5, part));
    return request <= limit && isLeast(request, 0.8) && isLeast(limit, 1);
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 200 }));
});

class Trial {
  readonly ledger = new Ledger([{ node: 0, server: '', gpu: 0, slice: null, memory: 1000 }]);
  #memory = dilu.start();
  #next = 0;
  solo: number | null = 100;

  constructor(count: number) {
    for (let one = 0; one < count; one++) this.#add();
  }

  #add() {
    const resources = { sm: 1, smLimit: 1, time: 1000, memory: 1 };
    const parts = [{ device: 0, resources }];
    this.ledger.claim({ instance: this.#next++, name: 'f', how: 'starting', parts });
  }

  get count() {
    return this.ledger.of('f').size;
  }

  /** Ten requests a second are what an instance serves. Returns by how much it scales. */
  second(requests: number, name = 'f'): number {
    const resources = { sm: 1, smLimit: 1, time: 1000, memory: 1 };
    const about = { name: 'f', kind: 'inference', class: 'strict', slo: null, devices: 1 } as const;
    const functions = new Map([['f', { ...about, resources, batch: 1, solo: this.solo }]]);
    const { ledger } = this;
    const state: ClusterState = {
      version: contractVersion,
      revision: 0,
      now: 0,
      ledger,
      functions,
      waiting: [],
    };
    const events = [{ kind: 'rate', name, requests, period: 1000 } as const];
    const memory = this.#memory;
    const decision = dilu.decide({ state, events, memory, parameters: parametersOf(dilu) });
    this.#memory = decision.memory;
    const [effect] = decision.effects;
    if (effect?.kind !== 'scale') return 0;
    if (effect.by > 0) this.#add();
    else ledger.release(Math.max(...ledger.of('f')));
    return effect.by;
  }
}

t.test('out after 20 seconds of 40, in after 30, never the last', async (t) => {
  const trial = new Trial(1);
  const seconds = (count: number, requests: number) =>
    Array.from({ length: count }, () => trial.second(requests));
  t.same(new Set(seconds(19, 11)), new Set([0]));
  t.equal(trial.second(11), 1);
  t.same(new Set(seconds(19, 99)), new Set([0]), 'all begins anew');
  t.equal(trial.second(99), 1);
  t.equal(trial.count, 3);
  t.same(new Set(seconds(29, 0)), new Set([0]));
  t.equal(trial.second(0), -1);
  t.same(seconds(200, 0).filter(Boolean), [-1], 'one is left');
  t.same(new Set(seconds(100, Number.NaN)), new Set([0]), 'no number is none');
  t.same(new Set(seconds(39, 10)), new Set([0]), 'exactly what it serves');
  t.equal(trial.second(100, 'unheard of'), 0);
  trial.solo = null;
  t.same(new Set(seconds(100, 100)), new Set([0]), 'never profiled');
});

t.test('never two steps within 20 seconds, and none against what was seen', async (t) => {
  let steps = 0;
  const rates = fc
    .array(fc.tuple(fc.constantFrom(0, 5, 15, 25, 60), fc.integer({ min: 1, max: 40 })), {
      minLength: 5,
      maxLength: 12,
    })
    .map((some) => some.flatMap(([rate, seconds]) => Array<number>(seconds).fill(rate)));
  const run = fc.property(rates, (rates) => {
    const trial = new Trial(2);
    let last = -20;
    for (const [second, requests] of rates.entries()) {
      const before = trial.count;
      const by = trial.second(requests);
      if (by === 0) continue;
      steps++;
      if (second - last < 20 || trial.count < 1) return false;
      const seen = rates.slice(Math.max(0, second - 39), second + 1);
      if (by > 0 && !seen.some((rate) => rate > 10 * before)) return false;
      if (by < 0 && !seen.some((rate) => rate < 10 * (before - 1))) return false;
      last = second;
    }
    return true;
  });
  fc.assert(run, { numRuns: 200 });
  t.ok(steps > 200, `${steps} steps`);
});
