// Placement in a cluster: each policy on any sequence of instances that come and go, and Dilu's affinity by itself.
import fc from 'fast-check';
import t from 'tap';
import { Ledger, type Part } from '../../policies/cluster/ledger.js';
import { dilu } from '../../policies/cluster/placement/dilu.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { type AnyClusterPolicy, clusterPolicies } from '../../policies/cluster/registry.js';
import type { Device, Resources } from '../../policies/cluster/resources.js';
import {
  type ClusterState,
  contractVersion,
  type FunctionKind,
  type FunctionState,
  problemOf,
} from '../../policies/cluster/state.js';

const devices: Device[] = Array.from({ length: 12 }, (_, index) => ({
  ...{ node: Math.floor(index / 4), server: 'one', gpu: index % 4, slice: null },
  memory: index === 3 ? 20 : 40,
}));

function functionOf(name: string, kind: FunctionKind, resources: Resources, count = 1) {
  const none = { slo: null, batch: 1, solo: null };
  return {
    name,
    kind,
    class: 'strict',
    devices: count,
    resources,
    ...none,
  } satisfies FunctionState;
}

function stateOf(ledger: Ledger, functions: FunctionState[]): ClusterState {
  const known = new Map(functions.map((one) => [one.name, one]));
  return { version: contractVersion, revision: 0, now: 0, ledger, functions: known, waiting: [] };
}

function decide(policy: AnyClusterPolicy, state: ClusterState, instance: number, name: string) {
  const { resources, devices } = state.functions.get(name) as FunctionState;
  const parts = Array.from({ length: devices }, () => resources);
  const events = [{ kind: 'instance wanted', instance, name, parts }] as const;
  const memory = policy.start();
  const { effects } = policy.decide({ state, events, memory, parameters: parametersOf(policy) });
  return effects;
}

const some = (sm: number, smLimit = sm, memory = 4): Resources => ({
  sm,
  smLimit,
  time: 1000,
  memory,
});

t.test('dilu: beside a partner of its other instances, not beside itself', async (t) => {
  const ledger = new Ledger(devices);
  const put = (instance: number, name: string, device: number, sm: number) =>
    ledger.claim({ instance, name, how: 'running', parts: [{ device, resources: some(sm) }] });
  put(1, 'p', 0, 200);
  put(2, 'b', 0, 200);
  put(3, 'p', 5, 200);
  put(4, 'x', 6, 800);
  put(5, 'b', 7, 700);
  const state = stateOf(ledger, [
    functionOf('b', 'inference', some(100)),
    functionOf('new', 'inference', some(100)),
    functionOf('large', 'inference', some(900)),
  ]);
  const where = (name: string) => {
    const [effect] = decide(dilu as unknown as AnyClusterPolicy, state, 9, name);
    return effect?.kind === 'place' ? [effect.parts[0]?.device, effect.reason.text] : effect?.kind;
  };
  t.same(where('b'), [5, 'beside a partner of its function']);
  t.same(where('new'), [6, 'the fullest device that is used']);
  t.same(where('large'), [1, 'no used device has room']);
  put(6, 'q', 5, 790);
  t.same(where('b'), [6, 'the fullest device that is used'], 'no partner has room');
});

t.test(
  'dilu: a large model over the emptiest memories of one node; many parts on one node',
  async (t) => {
    const ledger = new Ledger(devices);
    const fill = (device: number, memory: number) =>
      ledger.claim({
        ...{ instance: 100 + device, name: `f${device}`, how: 'running' },
        parts: [{ device, resources: some(100, 100, memory) }],
      });
    for (const device of devices.keys()) fill(device, device === 3 ? 20 : device < 4 ? 38 : 25);
    const state = stateOf(ledger, [
      functionOf('llm', 'llm-inference', some(300, 400, 32)),
      functionOf('too large', 'llm-inference', some(300, 400, 90)),
      functionOf('job', 'training', some(300, 400, 10), 3),
      functionOf('wide', 'training', some(300, 400, 1), 5),
    ]);
    const places = (name: string) => {
      const [effect] = decide(dilu as unknown as AnyClusterPolicy, state, 1, name);
      return effect?.kind === 'place'
        ? effect.parts.map(({ device, resources }) => [device, resources.memory])
        : effect?.kind;
    };
    t.same(places('llm'), [
      [4, 15],
      [5, 15],
      [6, 2],
    ]);
    t.equal(places('too large'), 'wait');
    t.same(places('job'), [
      [4, 10],
      [5, 10],
      [6, 10],
    ]);
    t.equal(places('wide'), 'wait', 'no node has five devices');
  },
);

const kinds = fc.constantFrom<FunctionKind>('inference', 'llm-inference', 'training');
const functions = fc.array(
  fc.record({
    kind: kinds,
    sm: fc.constantFrom(0, 100, 250, 250, 333, 500, 1000),
    more: fc.constantFrom(0, 200, 500),
    memory: fc.constantFrom(0, 1, 10, 20, 35, 40, 60),
    count: fc.constantFrom(1, 1, 2, 4),
  }),
  { minLength: 1, maxLength: 5 },
);
const steps = fc.array(fc.record({ name: fc.nat(4), ends: fc.option(fc.nat(40), { freq: 2 }) }), {
  maxLength: 40,
});

// protean-slices places batches on slices, and has a test of its own.
const ofInstances = clusterPolicies.filter(
  ({ kind, name }) => kind === 'placement' && name !== 'protean-slices',
);
for (const policy of ofInstances) {
  t.test(`${policy.name}: never over a limit, all or nothing, the same each time`, async (t) => {
    let placed = 0;
    const run = fc.property(functions, steps, (given, steps) => {
      const ledger = new Ledger(devices);
      const known = given.map(({ kind, sm, more, memory, count }, index) =>
        functionOf(`f${index}`, kind, some(sm, sm + more, memory), kind === 'training' ? count : 1),
      );
      const state = stateOf(ledger, known);
      for (const [index, { name, ends }] of steps.entries()) {
        if (ends !== null) ledger.release(ends);
        const wanted = known[name % known.length] as FunctionState;
        const effects = decide(policy, state, index, wanted.name);
        const again = decide(policy, state, index, wanted.name);
        if (JSON.stringify(effects) !== JSON.stringify(again))
          throw new Error('not the same again');
        const [effect] = effects;
        if (effects.length !== 1 || !effect) throw new Error(`${effects.length} effects`);
        if (effect.reason.text === '') throw new Error('no reason');
        if (effect.kind === 'wait') continue;
        if (effect.kind !== 'place') throw new Error(effect.kind);
        const problem = problemOf(effect, state);
        if (problem !== null) throw new Error(problem);
        checkParts(effect.parts, wanted);
        ledger.claim({ instance: index, name: wanted.name, how: 'running', parts: effect.parts });
        placed++;
        checkSums(ledger, Object.hasOwn(policy.parameters, 'gamma'));
      }
    });
    fc.assert(run, { numRuns: 300 });
    t.ok(placed > 500, `${placed} placed`);
  });
}

/** As much memory altogether as was wanted, on as many devices at least; what is split is on one node. */
function checkParts(parts: readonly Part[], { devices: count, resources }: FunctionState) {
  const nodes = new Set(parts.map(({ device }) => devices[device]?.node));
  const memory = parts.reduce((sum, part) => sum + part.resources.memory, 0);
  if (memory !== count * resources.memory) throw new Error(`${memory} GB altogether`);
  if (parts.length < count) throw new Error('too few devices');
  if (parts.length > count && nodes.size > 1) throw new Error('split over nodes');
}

function checkSums(ledger: Ledger, limits: boolean) {
  for (const [device, { memory }] of devices.entries()) {
    if ((ledger.memory[device] ?? 0) > memory) throw new Error(`memory of ${device}`);
    if ((ledger.sm[device] ?? 0) > 1000) throw new Error(`SMs of ${device}`);
    if (limits && (ledger.smLimit[device] ?? 0) > 1500) throw new Error(`limits of ${device}`);
  }
}
