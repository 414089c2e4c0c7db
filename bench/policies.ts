// What one step of each quota policy, and one placement, costs with 64 sessions that all have work.
//   node build/js/bench/policies.js
import { placementPolicies, quotaPolicies } from '../monitor/policies/index.js';
import { usualParameters } from '../monitor/policies/placement.js';
import type { QuotaSession } from '../monitor/policies/quota.js';
import type { GpuState, SessionRequest, SessionState } from '../monitor/policies/state.js';

const count = 64;
const rounds = 5000;

function median(sample: () => void): number {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const began = process.hrtime.bigint();
    sample();
    times.push(Number(process.hrtime.bigint() - began) / 1000);
  }
  return times.sort((one, other) => one - other)[rounds / 2] ?? 0;
}

function show(kind: string, name: string, microseconds: number) {
  console.log(`${kind.padEnd(10)}${name.padEnd(16)}${microseconds.toFixed(1).padStart(8)} us`);
}

for (const policy of quotaPolicies.values()) {
  let memory = policy.start();
  let now = 0n;
  const charged = new Array<bigint>(count).fill(0n);
  const step = () => {
    now += BigInt(policy.periodMs) * 1_000_000n;
    const sessions = charged.map((used, id): QuotaSession => {
      // Some more, some less than they are owed.
      charged[id] = used + BigInt(40_000 + 1700 * (id % 40));
      return {
        id,
        class: id % 2 === 0 ? 'latency-strict' : 'best-effort',
        shareRequest: id % 3 === 0 ? 2 : 0,
        shareLimit: id % 5 === 0 ? 20 : 100,
        charged: charged[id] ?? 0n,
        wants: true,
      };
    });
    memory = policy.step({ now, sessions, memory }).memory;
  };
  show('quota', policy.name, median(step));
}

const session = (id: number): SessionState => ({
  id,
  group: id,
  tenant: 'a',
  name: `function ${id % 9}`,
  class: 'best-effort',
  slot: id,
  memory: 1n << 30n,
  used: 0n,
  shareRequest: 1,
  shareLimit: 5,
  started: 0,
});
const gpus = Array.from({ length: 8 }, (_, index): GpuState => {
  return {
    index,
    uuid: `GPU-${index}`,
    name: 'bench',
    healthy: true,
    memory: 80n << 30n,
    reserved: BigInt(index) << 30n,
    usual: 8n << 30n,
    free: [false, true],
    sessions: Array.from({ length: count / 8 }, (_, id) => session(id)),
  };
});
const request: SessionRequest = {
  tenant: 'a',
  name: 'function 3',
  class: 'best-effort',
  gpus: 1,
  memory: null,
  shareRequest: 5,
  shareLimit: 10,
  allowed: null,
};
const state = { now: 0, gpus, queue: [], history: [] };
for (const policy of placementPolicies.values()) {
  show(
    'placement',
    policy.name,
    median(() => policy.place(state, request, usualParameters)),
  );
}
