// What all policies of a cluster bear: events of what nobody knows, of devices that are gone, twice, from clocks that
// jump. Each decides the same again from its memory as it is stored, and nothing that cannot be carried out.
import fc from 'fast-check';
import t from 'tap';
import { Ledger } from '../../policies/cluster/ledger.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { clusterPolicies } from '../../policies/cluster/registry.js';
import {
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type FunctionState,
  problemOf,
  type RequestState,
} from '../../policies/cluster/state.js';

/** Of these `lost` is known to nobody, `raw` was never profiled, and the SLO of `hopeless` cannot be met. Every object knows two. */
const names = ['f', 'g', 'constructor', '__proto__', 'raw', 'hopeless', 'lost'];
const resources = { sm: 300, smLimit: 500, time: 300, memory: 4 };

function functionOf(name: string): FunctionState {
  const solo = name === 'raw' ? null : 20;
  const slo = name === 'hopeless' ? 1 : name === 'g' ? null : 200;
  const kind = name === 'g' ? 'training' : 'inference';
  const its = name === 'g' ? 'best-effort' : 'strict';
  return { name, kind, class: its, slo, devices: 1, resources, batch: 4, solo };
}

const name = fc.constantFrom(...names);
const part = fc.constantFrom(0, 0.1, 0.5, 1, 3, -1, Number.NaN, Number.POSITIVE_INFINITY);
const amount = fc.constantFrom(0, 1, 50, 1e4, -1, Number.NaN, Number.POSITIVE_INFINITY);
const now = fc.constantFrom(0, 1000, 999, 1e9, 5, 2 ** 45);
const request: fc.Arbitrary<RequestState> = fc.record({
  ...{ id: fc.integer({ min: 1, max: 20 }), name, arrived: now, deadline: fc.option(now) },
  class: fc.constantFrom('strict' as const, 'best-effort' as const),
});

const event: fc.Arbitrary<ClusterEvent> = fc.oneof(
  fc.record({
    ...{ kind: fc.constant('instance wanted' as const), name },
    instance: fc.integer({ min: 100, max: 110 }),
    parts: fc.array(fc.constantFrom(resources, { ...resources, memory: 1e6 }), { maxLength: 3 }),
  }),
  fc.record({
    ...{ kind: fc.constant('instance ended' as const), name },
    instance: fc.integer({ min: 1, max: 9 }),
  }),
  fc.record({ kind: fc.constant('request arrived' as const), request }),
  fc.record({ kind: fc.constant('request served' as const), request, took: amount }),
  fc.record({ kind: fc.constant('rate' as const), name, requests: amount, period: amount }),
  fc.record({ kind: fc.constant('profiled' as const), name, beside: name, degradation: part }),
  fc.record({
    ...{ kind: fc.constant('measured' as const), name, degradation: part },
    beside: fc.array(name, { maxLength: 3 }),
  }),
  fc.record({
    ...{ kind: fc.constant('timed' as const), name, batch: fc.constantFrom(1, 4) },
    ...{ sm: fc.constantFrom(300, 1000), time: fc.constantFrom(100, 500, 1000), latency: amount },
  }),
  fc.record({
    kind: fc.constant('device lost' as const),
    device: fc.integer({ min: 0, max: 9 }),
    instances: fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 2 }),
  }),
  fc.record({
    kind: fc.constant('eviction' as const),
    ...{ node: fc.integer({ min: 0, max: 3 }), notice: amount },
  }),
);

const waiting = fc.uniqueArray(request, { maxLength: 8, selector: ({ id }) => id });
const steps = fc.array(fc.tuple(now, fc.array(event, { maxLength: 3 }), waiting), {
  ...{ minLength: 1, maxLength: 8 },
});

/** Two nodes of two devices, with an instance of `f` on the first. */
function ledgerWith(): Ledger {
  const devices = [0, 1, 2, 3].map((gpu) => ({
    ...{ node: gpu >> 1, server: '', gpu: gpu & 1, slice: null, memory: 16 },
  }));
  const ledger = new Ledger(devices);
  ledger.claim({ instance: 1, name: 'f', how: 'running', parts: [{ device: 0, resources }] });
  return ledger;
}

for (const policy of clusterPolicies) {
  t.test(
    `${policy.kind} ${policy.name}: bears anything, and decides nothing impossible`,
    async (t) => {
      const functions = new Map(names.slice(0, -1).map((one) => [one, functionOf(one)]));
      const parameters = parametersOf(policy, {});
      t.doesNotThrow(() =>
        fc.assert(
          fc.property(steps, (steps) => {
            const ledger = ledgerWith();
            let memory = policy.start();
            for (const [revision, [now, drawn, waiting]] of steps.entries()) {
              const state: ClusterState = {
                ...{ version: contractVersion, revision, now, ledger, functions, waiting },
              };
              // Of what is wanted there is one at most in a decision, as the contract says.
              const wanted = drawn.findIndex(({ kind }) => kind === 'instance wanted');
              const events = drawn.filter(
                ({ kind }, index) => kind !== 'instance wanted' || index === wanted,
              );
              const decision = policy.decide({ state, events, memory, parameters });
              const stored = JSON.parse(JSON.stringify(memory));
              const again = policy.decide({ state, events, memory: stored, parameters });
              if (JSON.stringify(again) !== JSON.stringify(decision)) return false;
              for (const effect of decision.effects) {
                const problem = problemOf(effect, state);
                if (problem !== null) throw new Error(`${JSON.stringify(effect)}: ${problem}`);
                if (effect.reason.text === '') return false;
              }
              memory = decision.memory;
            }
            return true;
          }),
          { numRuns: 200 },
        ),
      );
    },
  );
}
