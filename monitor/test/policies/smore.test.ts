// SMORE: its model of degradation, admission by it, its order of the queue and its prewarmer.
import fc from 'fast-check';
import t from 'tap';
import {
  type Degradations,
  learned,
  nothingKnown,
  Predictor,
  withPair,
} from '../../policies/cluster/degradation.js';
import { Ledger } from '../../policies/cluster/ledger.js';
import { sample, smore } from '../../policies/cluster/placement/smore.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { histogram } from '../../policies/cluster/prewarm/forecast.js';
import { smore as prewarm } from '../../policies/cluster/prewarm/smore.js';
import { smore as queue } from '../../policies/cluster/queue/smore.js';
import {
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type FunctionState,
  type RequestState,
} from '../../policies/cluster/state.js';

const learning = { unknown: 0.1, safety: 2, rate: 0.5 };

function tableOf(rows: readonly (readonly [string, string, number])[]): Degradations {
  return rows.reduce(
    (model, [name, beside, cost]) => withPair(model, name, beside, cost),
    nothingKnown,
  );
}

const predict = (model: Degradations, name: string, beside: string[]) => {
  const predictor = new Predictor(model, learning);
  return predictor.degradation(
    [name, ...beside].map((one) => predictor.indexOf(one)),
    0,
  );
};

t.test('pairs add up, weighted where there are more than two', async (t) => {
  const model = tableOf([
    ['job', 'a', 0.02],
    ['job', 'b', 0.03],
    ['a', 'b', -0.5],
  ]);
  t.equal(predict(model, 'job', []), 0);
  t.equal(predict(model, 'job', ['a']), 0.02, 'alone with one, no weight');
  t.equal(predict(model, 'job', ['a', 'b']), 2 * 0.02 + 2 * 0.03);
  t.equal(predict(model, 'a', ['b']), 0, 'faster than alone is noise');
  t.equal(predict(model, 'b', ['a']), 0.1, 'never measured');
  t.equal(predict(model, 'nobody', ['a']), 0.1);
});

t.test(
  'what is measured again and again is predicted at last, and stays within bounds',
  async (t) => {
    const part = fc.double({ min: 0.01, max: 1, noNaN: true });
    const others = fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 8 });
    const run = fc.property(part, part, part, others, (a, b, measured, others) => {
      let model = tableOf([
        ['job', 'a', a],
        ['job', 'b', b],
      ]);
      const off = () => Math.abs(predict(model, 'job', others) - measured);
      const before = off();
      let last = before;
      for (let time = 0; time < 60; time++) {
        model = learned(model, 'job', others, measured, learning);
        if (off() > last + 1e-9) return false;
        last = off();
      }
      const weights = Object.values(model.weights).map(([weight]) => weight);
      // A weight is at most 20 and at least 0, which may be short of what was measured.
      const stuck = weights.some((weight) => weight === 0 || weight === 20);
      return weights.every((weight) => weight >= 0 && weight <= 20) && (last < 0.01 || stuck);
    });
    t.doesNotThrow(() => fc.assert(run, { numRuns: 300 }));
    const model = tableOf([['job', 'a', 0.1]]);
    t.same(
      learned(model, 'job', ['a'], Number.NaN, learning),
      model,
      'what is no number teaches nothing',
    );
    t.same(learned(model, 'job', [], 1, learning), model);
    t.same(withPair(model, 'job', 'a', Number.POSITIVE_INFINITY), model);
  },
);

t.test(
  'weights of more neighbours begin with those of fewer that were learned often',
  async (t) => {
    let model = tableOf([['job', 'a', 0.1]]);
    for (let time = 0; time < 4; time++) model = learned(model, 'job', ['a', 'a'], 0.9, learning);
    t.equal(predict(model, 'job', ['a', 'a', 'a']).toFixed(3), '0.600', 'not often enough');
    model = learned(model, 'job', ['a', 'a'], 0.9, learning);
    const weight = new Predictor(model, learning).weight(0, 1, 2);
    t.equal(predict(model, 'job', ['a', 'a', 'a']).toFixed(6), (3 * weight * 0.1).toFixed(6));
  },
);

// ---- admission -----------------------------------------------------------------------------------

const names = ['job', 'a', 'b', 'c'] as const;
const functionOf = (name: string, given: Partial<FunctionState> = {}): FunctionState => ({
  ...{
    name,
    kind: name === 'job' ? 'training' : 'inference',
    class: 'strict',
    slo: 30,
    devices: 1,
  },
  ...{ resources: { sm: 100, smLimit: 100, time: 1000, memory: 2 }, batch: 1, solo: 20 },
  ...given,
});

function stateOf(ledger: Ledger, given: Partial<ClusterState> = {}): ClusterState {
  const functions = new Map(names.map((name) => [name, functionOf(name)]));
  return {
    version: contractVersion,
    revision: 0,
    now: 0,
    waiting: [],
    ledger,
    functions,
    ...given,
  };
}

const devices = (count: number) =>
  Array.from({ length: count }, (_, gpu) => ({
    node: 0,
    server: '',
    gpu,
    slice: null,
    memory: 16,
  }));

const cost = fc.constantFrom(0, 0.01, 0.05, 0.1, 0.3, 0.6);
const pairs = fc.array(fc.tuple(fc.constantFrom(...names), fc.constantFrom(...names), cost), {
  maxLength: 12,
});
const residents = fc.array(fc.array(fc.constantFrom(...names), { maxLength: 4 }), {
  minLength: 1,
  maxLength: 5,
});

function admit(
  table: readonly (readonly [string, string, number])[],
  there: readonly (readonly string[])[],
  name: string,
  given: Record<string, number> = {},
) {
  const ledger = new Ledger(devices(there.length));
  let instance = 100;
  for (const [device, some] of there.entries()) {
    for (const one of some) {
      const parts = [{ device, resources: functionOf(one).resources }];
      ledger.claim({ instance: instance++, name: one, how: 'running', parts });
    }
  }
  const parameters = parametersOf(smore, given);
  const profiled = table.map(([name, beside, degradation]): ClusterEvent => {
    return { kind: 'profiled', name, beside, degradation };
  });
  const parts = [functionOf(name).resources];
  const wanted: ClusterEvent = { kind: 'instance wanted', instance: 1, name, parts };
  const events = [...profiled, wanted];
  const { effects } = smore.decide({
    ...{ state: stateOf(ledger), events, memory: smore.start(), parameters },
  });
  const [effect] = effects;
  return effect?.kind === 'place' ? (effect.parts[0]?.device ?? null) : null;
}

t.test(
  'nobody is predicted to become slower than it bears; whoever fits is admitted',
  async (t) => {
    let admitted = 0;
    const run = fc.property(pairs, residents, fc.constantFrom(...names), (table, there, name) => {
      const device = admit(table, there, name);
      const fine = there.map((some) => isFine(table, [...some, name]));
      if (device === null) return !fine.includes(true);
      admitted++;
      return fine[device] === true;
    });
    fc.assert(run, { numRuns: 1500 });
    t.ok(admitted > 300 && admitted < 1490, `${admitted} of 1500 admitted`);
  },
);

/** Told again here: sums of pairs, twice them where more than two share. */
function isFine(
  table: readonly (readonly [string, string, number])[],
  all: readonly string[],
): boolean {
  if (all.length === 1) return true;
  return all.every((name, self) => {
    const others = all.filter((_, index) => index !== self);
    const sum = others.reduce((sum, other) => {
      const last = table.findLast(([one, beside]) => one === name && beside === other);
      return sum + (others.length > 1 ? 2 : 1) * (last?.[2] ?? 0.1);
    }, 0);
    return sum <= (name === 'job' ? 0.1 : 0.5);
  });
}

t.test('a wider bound admits no fewer; the first that will do is one that will do', async (t) => {
  const run = fc.property(pairs, residents, fc.constantFrom(...names), (table, there, name) => {
    const narrow = admit(table, there, name, { bound: 0.05 });
    const wide = admit(table, there, name, { bound: 0.3 });
    const fast = admit(table, there, name, { fast: 1, bound: 0.3 });
    return (narrow === null || wide !== null) && (fast === null) === (wide === null);
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
});

t.test('a sample has as many different devices as it should, the same each time', async (t) => {
  const run = fc.property(
    fc.integer({ min: 1, max: 60 }),
    fc.nat(70),
    fc.nat(),
    (length, count, turn) => {
      const some = [...sample(length, count, turn)];
      const again = [...sample(length, count, turn)];
      return (
        some.length === Math.min(length, count) &&
        new Set(some).size === some.length &&
        some.every((one) => one >= 0 && one < length) &&
        JSON.stringify(some) === JSON.stringify(again)
      );
    },
  );
  t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
  const first = new Set(Array.from({ length: 200 }, (_, turn) => [...sample(50, 1, turn)][0]));
  t.ok(first.size > 30, `${first.size} of 50 devices come first some time`);
});

// ---- the queue -------------------------------------------------------------------------------------

const request = (
  id: number,
  name: string,
  arrived = 0,
  deadline: number | null = null,
): RequestState => {
  return { id, name, class: 'strict', arrived, deadline };
};

function order(now: number, waiting: RequestState[], given: Record<string, number> = {}) {
  const events: ClusterEvent[] = [
    { kind: 'profiled', name: 'job', beside: 'a', degradation: 0.01 },
    { kind: 'profiled', name: 'job', beside: 'b', degradation: 0.5 },
  ];
  const { effects } = queue.decide({
    ...{ state: stateOf(new Ledger([]), { now, waiting }), events, memory: queue.start() },
    parameters: parametersOf(queue, given),
  });
  const of = (kind: 'order' | 'drop') =>
    effects.flatMap((effect) => (effect.kind === kind ? effect.requests : []));
  return { order: of('order'), drop: of('drop') };
}

t.test(
  'first who uses much and harms little; nobody waits for ever, nobody hopeless at all',
  async (t) => {
    t.same(order(0, [request(1, 'b'), request(2, 'a'), request(3, 'a')]).order, [2, 3, 1]);
    t.same(
      order(60_000, [request(1, 'b'), request(2, 'a', 59_000)]).order,
      [1, 2],
      'it has waited',
    );
    t.same(order(0, [request(1, 'unheard of'), request(2, 'b')]).order, [2, 1]);
    const late = [request(1, 'a', 0, 119), request(2, 'a', 0, 120), request(3, 'b', 0, 90)];
    t.same(order(100, late), { order: [2], drop: [1, 3] });
    t.same(
      order(-5000, [request(1, 'b', 0), request(2, 'a', 0)]).order,
      [2, 1],
      'a clock went back',
    );
    const some = fc.uniqueArray(
      fc.record({ id: fc.nat(50), name: fc.constantFrom(...names), arrived: fc.nat(5000) }),
      { selector: ({ id }) => id },
    );
    const run = fc.property(some, fc.nat(10_000), (some, now) => {
      const waiting = some.map(({ id, name, arrived }) =>
        request(id, name, arrived, arrived + 6000),
      );
      const { order: first, drop } = order(now, waiting);
      return (
        [...first, ...drop].sort().join() ===
        waiting
          .map(({ id }) => id)
          .sort()
          .join()
      );
    });
    t.doesNotThrow(() => fc.assert(run, { numRuns: 300 }));
  },
);

// ---- prewarming ------------------------------------------------------------------------------------

t.test('a histogram expects requests at the gaps that it has seen', async (t) => {
  const each = histogram({ kept: 100, from: 0.05, to: 0.99, averaged: 10 });
  let memory = each.start();
  t.equal(each.next(memory), 0, 'nothing was ever asked for');
  const run = (counts: number[]) => {
    for (const count of counts) memory = each.observe(memory, count);
    return each.next(memory);
  };
  t.equal(run([4]), 4, 'after the first, at once');
  for (let time = 0; time < 20; time++) run([0, 0, 4]);
  t.equal(each.next(memory), 0, 'too early');
  t.equal(run([0]), 0);
  t.equal(run([0]), 4, 'now');
  t.equal(run([0]), 0, 'too late');
  t.equal(run([Number.NaN]), 0, 'what is no number is none');
});

t.test(
  'containers are kept while requests are expected, and given back when they are served',
  async (t) => {
    const parameters = parametersOf(prewarm);
    const state = stateOf(new Ledger([]), { now: 60_000 });
    let memory = prewarm.start();
    const tell = (event: ClusterEvent) => {
      const { effects, memory: after } = prewarm.decide({
        state,
        events: [event],
        memory,
        parameters,
      });
      memory = after;
      return effects.map((one) =>
        one.kind === 'prewarm' ? [one.containers, one.until] : one.kind,
      );
    };
    const rate = (requests: number, name = 'a'): ClusterEvent => {
      return { kind: 'rate', name, requests, period: 60_000 };
    };
    t.same(tell(rate(2)), [[1, 120_000]]);
    const served: ClusterEvent = { kind: 'request served', request: request(1, 'a'), took: 5 };
    t.same(tell(served), []);
    t.same(tell(served), [[0, 0]]);
    t.same(tell(served), []);
    t.same(
      tell(rate(9000)),
      [[1, 120_000]].map(([, until]) => [2, until]),
      '4501 of 20 ms',
    );
    t.same(tell(rate(1, 'unheard of')), [], 'nobody keeps containers of that');
  },
);
