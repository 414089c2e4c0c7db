// What every policy of a cluster says of itself, which of them go together, and how parameters are checked.
import t from 'tap';
import { Ledger } from '../../policies/cluster/ledger.js';
import { parametersOf, policyKinds } from '../../policies/cluster/policy.js';
import { clusterPolicies, clusterPolicy, combine } from '../../policies/cluster/registry.js';
import { type ClusterState, contractVersion } from '../../policies/cluster/state.js';
import {
  admissionPolicies,
  migrationPolicies,
  placementPolicies,
  queuePolicies,
  quotaPolicies,
} from '../../policies/index.js';

for (const policy of clusterPolicies) {
  t.test(`${policy.kind} ${policy.name}: says what it is, and from where`, async (t) => {
    t.ok(policyKinds.includes(policy.kind));
    t.match(policy.summary, /^[^.].{10,110}[^.]$/);
    t.match(policy.source.section, /\S/);
    for (const [name, about] of Object.entries(policy.parameters)) {
      t.ok(about.least <= about.default && about.default <= about.most, name);
      t.match(about.summary, /\S/, name);
      t.match(about.source.section, /\S/, name);
    }
    for (const [kind, names] of Object.entries(policy.needs ?? {})) {
      for (const name of names) t.doesNotThrow(() => clusterPolicy(kind as 'queue', name));
    }
    const memory = policy.start();
    t.same(JSON.parse(JSON.stringify(memory)), memory, 'its memory can be stored');
  });

  t.test(`${policy.kind} ${policy.name}: without anything there is nothing to do`, async (t) => {
    const none = { functions: new Map(), waiting: [] };
    const state: ClusterState = {
      version: contractVersion,
      revision: 0,
      now: 0,
      ledger: new Ledger([]),
      ...none,
    };
    const memory = Object.freeze(policy.start()) as unknown;
    const input = { state, events: [], memory, parameters: parametersOf(policy) };
    const { effects, memory: after } = policy.decide(input);
    t.same(effects, []);
    t.same(JSON.parse(JSON.stringify(after)), after);
    t.same(policy.decide(input), policy.decide(input));
  });
}

t.test('what a server runs says what it is good for', async (t) => {
  const live = [
    ...[placementPolicies, queuePolicies, admissionPolicies, migrationPolicies, quotaPolicies],
  ].flatMap((policies) => [...policies.values()]);
  t.ok(live.length > 15);
  for (const { name, about = '' } of live) t.match(about, /^[A-Z][^\n]{40,400}\.$/, name);
});

t.test('of one kind no two have one name', async (t) => {
  const names = clusterPolicies.map(({ kind, name }) => `${kind} ${name}`);
  t.equal(new Set(names).size, names.length);
});

t.test('parameters that are unknown or out of range are refused', async (t) => {
  const dilu = clusterPolicy('placement', 'dilu');
  t.match(parametersOf(dilu), { omega: 1, gamma: 1.5 });
  t.match(parametersOf(dilu, { gamma: 2 }), { omega: 1, gamma: 2 });
  t.throws(() => parametersOf(dilu, { delta: 1 }), /no parameter delta: expected one of omega/);
  t.throws(() => parametersOf(dilu, { toString: 1 } as never), /no parameter toString/);
  t.throws(() => parametersOf(dilu, { gamma: 0.5 }), /gamma is 0.5: expected a number from 1 to/);
  t.throws(() => parametersOf(dilu, { gamma: Number.NaN }), /gamma is NaN/);
});

t.test('combinations without sense are refused', async (t) => {
  t.equal(combine({ placement: 'dilu' }).get('placement')?.name, 'dilu');
  t.equal(combine({}).size, 0);
  t.throws(() => combine({ placement: 'delu' }), /no placement policy delu: expected one of dilu/);
  t.throws(() => combine({ placing: 'dilu' } as never), /no kind of policies placing/);
});
