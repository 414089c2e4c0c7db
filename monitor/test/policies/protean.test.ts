// PROTEAN: its model of slowdown, queue, slices, scaling, partitions and machines.
import fc from 'fast-check';
import t from 'tap';
import { Ledger } from '../../policies/cluster/ledger.js';
import { protean as partition, wantedFor } from '../../policies/cluster/partition/protean.js';
import { protean as slices } from '../../policies/cluster/placement/protean.js';
import { type ClusterPolicy, parametersOf } from '../../policies/cluster/policy.js';
import { protean as procurement } from '../../policies/cluster/procurement/protean.js';
import { protean as queue } from '../../policies/cluster/queue/protean.js';
import { protean as scaling } from '../../policies/cluster/scaling/protean.js';
import { eta, fitBandwidths, slicedOf, sliceOf } from '../../policies/cluster/slowdown.js';
import {
  type BatchState,
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type Effect,
  type FunctionState,
  type RequestClass,
  type RequestState,
} from '../../policies/cluster/state.js';

const functionOf = (name: string, batch = 4, memory = 2): FunctionState => ({
  ...{ name, kind: 'inference', class: 'strict', slo: 100, devices: 1, batch, solo: 10 },
  resources: { sm: 0, smLimit: 0, time: 1000, memory },
});

function stateOf(
  given: Partial<ClusterState> = {},
  functions = ['a', 'b', 'c'].map((one) => functionOf(one)),
) {
  const known = new Map(functions.map((one) => [one.name, one]));
  const usual = { revision: 0, now: 0, ledger: new Ledger([]), waiting: [] };
  return { version: contractVersion, ...usual, functions: known, ...given } satisfies ClusterState;
}

/** A policy with its memory. */
function running<Memory, Names extends string>(
  policy: ClusterPolicy<Memory, Names>,
  given: Record<string, number> = {},
) {
  let memory = policy.start();
  const parameters = parametersOf(policy, given);
  return (state: ClusterState, ...events: ClusterEvent[]): readonly Effect[] => {
    const before = JSON.stringify(memory);
    const first = policy.decide({ state, events, memory, parameters });
    const again = policy.decide({ state, events, memory: JSON.parse(before), parameters });
    if (JSON.stringify(first) !== JSON.stringify(again)) throw new Error('not the same again');
    if (JSON.stringify(memory) !== before) throw new Error('memory was changed');
    memory = first.memory;
    return first.effects;
  };
}

// ---- the model -------------------------------------------------------------------------------------

t.test('sharing costs what goes beyond the bandwidth', async (t) => {
  const one = { bandwidth: 0.4, slowdown: 2 };
  t.equal(eta(one, 0), 2);
  t.equal(eta(one, 0.6), 2, 'all of it is used');
  t.equal(eta(one, 1.1).toFixed(6), '3.000000');
  t.same(slicedOf({}, 'f', null), { bandwidth: 0.25, slowdown: 1 });
  const known = {
    f: { '7g': { bandwidth: 0.2, slowdown: 1 }, '2g': { bandwidth: 0.9, slowdown: 3 } },
  };
  t.same(slicedOf(known, 'f', '2g.10gb'), { bandwidth: 0.9, slowdown: 3 });
  t.ok(slicedOf(known, 'f', '1g').slowdown > slicedOf(known, 'f', '4g').slowdown);
  t.throws(() => sliceOf('5g'), /no slice 5g: expected one of 1g/);
});

t.test(
  'bandwidths are found from runs that were slowed down, whatever else was measured',
  async (t) => {
    const bandwidth = fc.double({ min: 0.3, max: 0.9, noNaN: true });
    const run = fc.property(bandwidth, bandwidth, bandwidth, (a, b, c) => {
      const real: Record<string, number> = { a, b, c };
      const runs = [
        ['a', 'b', 'c'],
        ['a', 'a', 'b', 'b'],
        ['b', 'c', 'c', 'b'],
        ['a', 'a', 'c', 'c'],
        ['a'],
      ];
      const measured = runs.map((names) => {
        const sum = names.reduce((sum, name) => sum + (real[name] ?? 0), 0);
        return [names, Math.max(sum, 1)] as const;
      });
      const telling = measured.filter(([, longer]) => longer > 1.02).length;
      const found = fitBandwidths(measured);
      if (telling < 4) return true;
      return ['a', 'b', 'c'].every(
        (name) => Math.abs((found.get(name) ?? 0) - (real[name] ?? 0)) < 0.01,
      );
    });
    t.doesNotThrow(() => fc.assert(run, { numRuns: 300 }));
    t.equal(fitBandwidths([[['a', 'b'], 1]]).size, 0, 'who was not slowed down tells nothing');
  },
);

// ---- the queue -------------------------------------------------------------------------------------

const requests: fc.Arbitrary<RequestState[]> = fc
  .array(
    fc.record({
      name: fc.constantFrom('a', 'b', 'unheard of'),
      class: fc.constantFrom<RequestClass>('strict', 'best-effort'),
      arrived: fc.nat(100),
      deadline: fc.option(fc.integer({ min: 100, max: 200 })),
    }),
    { maxLength: 30 },
  )
  .map((some) =>
    some.map((one, id) => ({ ...one, id })).sort((one, other) => one.arrived - other.arrived),
  );

t.test(
  'strict batches first, none too large, each function in order, whoever is due in one',
  async (t) => {
    let batches = 0;
    const run = fc.property(requests, fc.integer({ min: 0, max: 200 }), (waiting, now) => {
      const effects = running(queue)(stateOf({ waiting, now }));
      const seen = new Set<number>();
      let strictIsOver = false;
      for (const effect of effects) {
        if (effect.kind !== 'batch') throw new Error(effect.kind);
        batches++;
        if (effect.class === 'strict' && strictIsOver) return false;
        strictIsOver ||= effect.class === 'best-effort';
        if (effect.requests.length > (effect.name === 'unheard of' ? 1 : 4)) return false;
        for (const id of effect.requests) {
          const one = waiting.find((request) => request.id === id);
          if (!one || seen.has(id) || one.name !== effect.name || one.class !== effect.class)
            return false;
          seen.add(id);
        }
      }
      // Of each function and class those that are in batches are the first ones.
      for (const one of waiting) {
        const own = waiting.filter(
          ({ name, class: its }) => name === one.name && its === one.class,
        );
        const taken = own.map(({ id }) => seen.has(id));
        if (taken.lastIndexOf(true) >= taken.filter(Boolean).length) return false;
      }
      return waiting.every(({ id, arrived, deadline }) => {
        const due = now >= Math.min(arrived + 50, (deadline ?? Number.POSITIVE_INFINITY) - 10);
        return !due || seen.has(id);
      });
    });
    fc.assert(run, { numRuns: 1000 });
    t.ok(batches > 1000, `${batches} batches`);
  },
);

t.test('with a guard best-effort requests do not starve', async (t) => {
  const request = (id: number, arrived: number, its: RequestClass): RequestState => {
    return { id, name: 'a', class: its, arrived, deadline: null };
  };
  const waiting = [request(1, 0, 'best-effort'), request(2, 900, 'strict')];
  const state = stateOf({ waiting, now: 1000 }, [functionOf('a', 1)]);
  const first = (given: Record<string, number>) => {
    const [effect] = running(queue, given)(state);
    return effect?.kind === 'batch' ? effect.requests : effect;
  };
  t.same(first({}), [2]);
  t.same(first({ guard: 1000 }), [1]);
});

// ---- slices ----------------------------------------------------------------------------------------

const sliced = (node: number, ...given: (readonly [slice: string | null, memory: number])[]) =>
  given.map(([slice, memory]) => ({ node, server: '', gpu: 0, slice, memory }));
const batch = (id: number, name: string, its: RequestClass = 'strict'): BatchState => {
  return { id, name, class: its, requests: [] };
};

t.test(
  'best-effort batches fill small slices, strict ones go where they are fastest',
  async (t) => {
    const functions = [functionOf('fast', 1, 4), functionOf('huge', 1, 30), functionOf('be', 1, 4)];
    const ledger = new Ledger(sliced(0, ['4g', 20], ['2g', 10], ['1g', 5]));
    const state = stateOf({ ledger }, functions);
    const ready = (...some: BatchState[]) =>
      some.map((one) => ({ kind: 'batch ready', batch: one }) as const);
    const where = (effects: readonly Effect[]) =>
      effects.map((effect) =>
        effect.kind === 'dispatch' ? [effect.batch, effect.device] : effect.kind,
      );
    const decide = running(slices);
    t.same(where(decide(state, ...ready(batch(1, 'be', 'best-effort'), batch(2, 'fast')))), [
      [2, 0],
      [1, 2],
    ]);
    const effect = (id: number, device: number) =>
      ({ kind: 'dispatch', batch: id, device, reason: { text: '' } }) as const;
    const told: ClusterEvent[] = [
      { kind: 'acknowledged', effect: effect(2, 0), failed: null },
      { kind: 'acknowledged', effect: effect(1, 2), failed: 'it went away' },
    ];
    t.same(where(decide(state, ...told)), [[1, 2]], 'what failed is tried again');
    t.same(where(running(slices)(state, ...ready(batch(1, 'huge')))), [], 'it fits on no slice');
    const flood = Array.from({ length: 40 }, (_, id) => batch(id + 10, 'be', 'best-effort'));
    const [first, ...rest] = where(running(slices)(state, ...ready(...flood, batch(1, 'fast'))));
    t.same(first, [1, 0], 'tags are 1 everywhere');
    t.equal(
      rest.length,
      7,
      '4 of memory each: four on the large slice, but one is taken; two and one',
    );
  },
);

t.test('no slice gets more than its memory holds, and a lost one nothing', async (t) => {
  let sent = 0;
  const some = fc.array(fc.record({ name: fc.constantFrom('a', 'b', 'c'), strict: fc.boolean() }), {
    maxLength: 25,
  });
  const sizes = fc.tuple(fc.nat(12), fc.nat(12), fc.nat(12));
  const run = fc.property(some, sizes, fc.nat(5), (some, sizes, lost) => {
    const functions = sizes.map((memory, index) => functionOf('abc'[index] ?? '', 1, memory));
    const ledger = new Ledger([
      ...sliced(0, ['4g', 20], ['3g', 20]),
      ...sliced(1, ['4g', 20], ['2g', 10], ['1g', 5]),
    ]);
    if (lost < 5) ledger.lose(lost);
    const batches = some.map(({ name, strict }, id) =>
      batch(id, name, strict ? 'strict' : 'best-effort'),
    );
    const events = batches.map((one) => ({ kind: 'batch ready', batch: one }) as const);
    const used = ledger.devices.map(() => 0);
    for (const effect of running(slices)(stateOf({ ledger }, functions), ...events)) {
      if (effect.kind !== 'dispatch') throw new Error(effect.kind);
      const { name } = batches[effect.batch] as BatchState;
      const memory = functions.find((one) => one.name === name)?.resources.memory ?? 0;
      used[effect.device] = (used[effect.device] ?? 0) + memory;
      sent++;
      if (effect.device === lost) return false;
    }
    return used.every((memory, device) => memory <= (ledger.devices[device]?.memory ?? 0));
  });
  fc.assert(run, { numRuns: 500 });
  t.ok(sent > 1000, `${sent} sent`);
});

// ---- scaling ---------------------------------------------------------------------------------------

const rate = (name: string, count: number): ClusterEvent => {
  return { kind: 'rate', name, requests: count, period: 1000 };
};

t.test(
  'as many containers as the last ten minutes needed at most, whatever the clock does',
  async (t) => {
    const steps = fc.array(fc.tuple(fc.integer({ min: -200, max: 400 }), fc.nat(40)), {
      maxLength: 40,
    });
    const run = fc.property(steps, (steps) => {
      const decide = running(scaling);
      const past: { at: number; count: number }[] = [];
      let now = 10_000;
      let count = 0;
      for (const [seconds, wanted] of steps) {
        now += seconds;
        past.push({ at: now, count: Math.ceil(wanted / 4) });
        for (const effect of decide(stateOf({ now: 1000 * now }), rate('a', wanted))) {
          if (effect.kind === 'scale') count += effect.by;
        }
        if (count < Math.ceil(wanted / 4)) return false;
        const recent = past.filter(({ at }) => at <= now && now - at < 600).map((one) => one.count);
        if (count > Math.max(...recent)) return false;
      }
      return true;
    });
    t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
    const decide = running(scaling);
    const at = (seconds: number, count: number) =>
      decide(stateOf({ now: 1000 * seconds }), rate('a', count)).map(
        (one) => one.kind === 'scale' && one.by,
      );
    t.same(at(0, 9), [3]);
    t.same(at(599, 1), [], 'ten minutes are not over');
    t.same(at(600, 1), [-2]);
    t.same(decide(stateOf({ now: 0 }), rate('unheard of', 9)), []);
  },
);

// ---- partitions ------------------------------------------------------------------------------------

t.test('which slices are wanted', async (t) => {
  const bounds = { least: 0.1, most: 0.9 };
  t.same(wantedFor(10, 40, bounds), ['4g', '1g', '2g']);
  t.same(wantedFor(14, 40, bounds), ['4g', '3g'], 'too full');
  t.same(wantedFor(17, 40, bounds), ['4g', '3g']);
  t.same(wantedFor(1, 40, bounds), ['4g', '3g'], 'hardly used');
  t.same(wantedFor(30, 40, bounds), ['4g', '3g'], 'more than any holds');
  t.same(wantedFor(10, 0, bounds), ['4g', '3g'], 'nothing there');
});

t.test('a GPU is divided anew after three mismatches in a row, and not many at once', async (t) => {
  const ledger = new Ledger(
    Array.from({ length: 10 }, (_, node) => sliced(node, ['4g', 20], ['3g', 20])).flat(),
  );
  const steps = fc.array(fc.constantFrom(0, 0, 60, 60, 60), { maxLength: 20 });
  let anew = 0;
  const run = fc.property(steps, (steps) => {
    const decide = running(partition);
    const inRow = Array.from({ length: 10 }, () => 0);
    let id = 0;
    for (const count of steps) {
      const ready = Array.from({ length: count }, () => batch(id++, 'a', 'best-effort'));
      const events = ready.map((one) => ({ kind: 'batch ready', batch: one }) as const);
      const effects = decide(stateOf({ ledger }), ...events, rate('a', 0));
      if (effects.length > 3) return false;
      anew += effects.length;
      for (const [gpu, times] of inRow.entries()) inRow[gpu] = times + 1;
      for (const effect of effects) {
        if (effect.kind !== 'partition') throw new Error(effect.kind);
        if ((inRow[effect.gpu] ?? 0) < 3) return false;
        inRow[effect.gpu] = 0;
      }
    }
    return true;
  });
  fc.assert(run, { numRuns: 200 });
  t.ok(anew > 100, `${anew} times`);
});

// ---- machines --------------------------------------------------------------------------------------

t.test(
  'spot first, on demand where there is none, and back; as many as there should be',
  async (t) => {
    const decide = running(procurement, { machines: 2 });
    const said = (...events: ClusterEvent[]) =>
      decide(stateOf(), ...events).map((one) =>
        one.kind === 'procure' || one.kind === 'give up'
          ? [one.kind, one.market, one.count]
          : one.kind,
      );
    const machine = (
      market: 'spot' | 'on-demand',
      what: 'granted' | 'refused' | 'gone',
    ): ClusterEvent => {
      return { kind: 'machine', market, what };
    };
    t.same(said(rate('', 0)), [['procure', 'spot', 2]]);
    t.same(said(rate('', 0)), [], 'they are on their way');
    t.same(said(machine('spot', 'granted'), machine('spot', 'refused')), [
      ['procure', 'on-demand', 1],
    ]);
    t.same(said(machine('on-demand', 'granted')), []);
    t.same(said(rate('', 0)), [['procure', 'spot', 1]], 'back to the spot market');
    t.same(said(machine('spot', 'granted')), [['give up', 'on-demand', 1]]);
    t.same(said({ kind: 'eviction', node: 3, notice: 30_000 }), ['drain']);
    t.same(said(machine('spot', 'gone')), [['procure', 'spot', 1]]);
    const what = fc.constantFrom('granted', 'refused', 'gone', 'period');
    const run = fc.property(
      fc.array(what, { maxLength: 60 }),
      fc.integer({ min: 1, max: 8 }),
      (steps, machines) => {
        const tell = running(procurement, { machines });
        const there = { spot: 0, 'on-demand': 0 };
        const asked: ('spot' | 'on-demand')[] = [];
        const carryOut = (...events: ClusterEvent[]) => {
          for (const one of tell(stateOf(), ...events)) {
            if (one.kind === 'procure') for (let n = 0; n < one.count; n++) asked.push(one.market);
            if (one.kind === 'give up') there[one.market] -= one.count;
          }
        };
        carryOut(rate('', 0));
        for (const step of steps) {
          if (step === 'period') carryOut(rate('', 0));
          else if (step === 'gone' && there.spot > 0) {
            there.spot--;
            carryOut(machine('spot', 'gone'));
          } else if (step !== 'gone') {
            const market = asked.shift();
            if (!market) continue;
            if (step === 'granted') there[market]++;
            carryOut(machine(market, step));
          }
          if (there.spot < 0 || there['on-demand'] < 0) return false;
          if (there.spot + there['on-demand'] > machines) return false;
          if (there.spot + there['on-demand'] + asked.length < machines) return false;
        }
        return true;
      },
    );
    t.doesNotThrow(() => fc.assert(run, { numRuns: 500 }));
  },
);
