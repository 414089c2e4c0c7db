// A placement policy that fails does not fail its server: the usual one decides, and somebody is told.
import t from 'tap';
import { worstFit } from '../../policies/placement/worst-fit.js';
import { type PlacementPolicy, placeAll, usualParameters } from '../../policies/placement.js';
import type { GpuState, ServerState, SessionRequest } from '../../policies/state.js';
import { guarded } from '../../src/queue/guarded-placement.js';

const gpu = (index: number, reserved: bigint): GpuState => ({
  ...{ index, uuid: `GPU-${index}`, name: 'test', healthy: true, memory: 8n, reserved, usual: 4n },
  ...{ free: [true], sessions: [] },
});
const state: ServerState = { now: 0, gpus: [gpu(0, 4n), gpu(1, 0n)], queue: [], history: [] };
const request: SessionRequest = {
  ...{ tenant: '', name: 'f', class: 'latency-strict', gpus: 1, memory: 2n, allowed: null },
  ...{ shareRequest: 0, shareLimit: 100 },
};

/** The GPUs that the policy chooses, and what was told of it. */
function run(place: PlacementPolicy['place'], gpus = 1) {
  const told: string[][] = [];
  const policy = guarded({ name: 'own', summary: 'one of ours', place }, worstFit, (...what) => {
    told.push(what);
  });
  const placed = placeAll(policy, state, { ...request, gpus }, usualParameters);
  return { gpus: placed?.map(({ gpu }) => gpu) ?? null, told, name: policy.name };
}

t.test('one that works decides', async (t) => {
  const first = run(() => ({ gpu: 0, slot: 0, memory: 2n }));
  t.same(first, { gpus: [0], told: [], name: 'own' });
  t.same(run(() => null).gpus, null, 'it may say that one has to wait');
});

t.test('where it throws, the usual one does, each time', async (t) => {
  const thrown = run(() => {
    throw new Error('no GPU 7');
  }, 2);
  t.same(thrown.gpus, [0, 1]);
  t.same(thrown.told, [
    ['own', 'threw', 'no GPU 7'],
    ['own', 'threw', 'no GPU 7'],
  ]);
});

t.test('where it takes too long, too; but not where it only had to wait', async (t) => {
  const busy = run(() => {
    const begun = process.cpuUsage();
    for (let used = 0; used < 60_000; ) {
      const { user, system } = process.cpuUsage(begun);
      used = user + system;
    }
    return { gpu: 0, slot: 0, memory: 2n };
  });
  t.same(busy.gpus, [1]);
  t.match(busy.told, [['own', 'slow', /^a decision took \d+ ms$/]]);
  const idle = run(() => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
    return { gpu: 0, slot: 0, memory: 2n };
  });
  t.same(idle, { gpus: [0], told: [], name: 'own' });
});
