// A function may have any name: under one that every object of JavaScript knows each policy decides as under any other,
// also from its memory as it is stored.
import t from 'tap';
import { Ledger } from '../../policies/cluster/ledger.js';
import { parametersOf } from '../../policies/cluster/policy.js';
import { clusterPolicies } from '../../policies/cluster/registry.js';
import {
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type FunctionState,
  type RequestState,
} from '../../policies/cluster/state.js';

const plain = 'a-function';
const known = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf'];
const resources = { sm: 300, smLimit: 500, time: 300, memory: 4 };
const minute = 60_000;

function request(id: number, name: string, arrived: number): RequestState {
  return { id, name, arrived, class: 'strict', deadline: null };
}

/** What happens in each step: it is called, measured and timed, it grows, and it is called no more. */
function stepsOf(name: string): ClusterEvent[][] {
  const calls = (from: number, at: number): ClusterEvent[] =>
    [0, 1, 2].map((n) => ({ kind: 'request arrived', request: request(from + n, name, at) }));
  return [
    [{ kind: 'profiled', name, beside: 'other', degradation: 0.05 }],
    [{ kind: 'measured', name, degradation: 0.04, beside: ['other'] }],
    [100, 300, 500, 1000].map((time) => ({
      ...{ kind: 'timed', name, batch: 4, sm: 300, time, latency: 20_000 / time },
    })),
    [{ kind: 'instance wanted', name, instance: 50, parts: [resources] }],
    ...[1, 2, 3, 4, 5, 6].map((n) => calls(10 * n, n * minute)),
    ...[30, 200, 900, 900, 900].map((requests): ClusterEvent[] => [
      { kind: 'rate', name, requests, period: 1000 },
    ]),
    ...[0, 0, 0].map((requests): ClusterEvent[] => [
      { kind: 'rate', name, requests, period: 1000 },
    ]),
    [{ kind: 'instance ended', name, instance: 1 }],
  ];
}

/** All that is decided, with the name of the function in one place only. */
function decided(policy: (typeof clusterPolicies)[number], name: string) {
  const devices = [0, 1, 2, 3].map((gpu) => ({
    ...{ node: gpu >> 1, server: '', gpu: gpu & 1, slice: null, memory: 16 },
  }));
  const ledger = new Ledger(devices);
  ledger.claim({ instance: 1, name, how: 'running', parts: [{ device: 0, resources }] });
  const functionOf = (its: string): FunctionState => ({
    ...{ name: its, kind: 'inference', class: 'strict', slo: 200, devices: 1 },
    ...{ resources, batch: 4, solo: 20 },
  });
  const functions = new Map([name, 'other'].map((its) => [its, functionOf(its)]));
  const parameters = parametersOf(policy, {});
  let memory = policy.start();
  const effects = [];
  for (const [revision, events] of stepsOf(name).entries()) {
    const now = revision * minute;
    const waiting = [request(900, name, now - 500), request(901, name, now)];
    const state: ClusterState = {
      ...{ version: contractVersion, revision, now, ledger, functions, waiting },
    };
    const stored = JSON.parse(JSON.stringify(memory)) as unknown;
    const decision = policy.decide({ state, events, memory: stored, parameters });
    memory = decision.memory;
    effects.push(decision.effects);
  }
  const text = JSON.stringify(effects);
  const remembered = JSON.stringify(memory);
  return { effects: text.replaceAll(name, plain), memory: remembered.replaceAll(name, plain) };
}

for (const policy of clusterPolicies) {
  t.test(`${policy.kind} ${policy.name}: a name is a name`, async (t) => {
    const usual = decided(policy, plain);
    for (const name of known) t.same(decided(policy, name), usual, name);
  });
}

t.test('and they do decide something of it', async (t) => {
  const about = (kind: string, name: string) => {
    const policy = clusterPolicies.find((one) => one.kind === kind && one.name === name);
    if (!policy) throw new Error(`no ${kind} ${name}`);
    return decided(policy, '__proto__');
  };
  t.match(about('scaling', 'has-gpu').effects, /"kind":"(quota|scale|place)"/);
  t.match(about('scaling', 'has-gpu').memory, /a-function/);
  t.match(about('prewarm', 'smore-histogram').memory, /a-function/);
  t.match(about('placement', 'smore').effects, /"kind":"place"/);
});
