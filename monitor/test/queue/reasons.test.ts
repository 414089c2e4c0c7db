// What is said for reasons must be what was decided by.
import fc from 'fast-check';
import t from 'tap';
import { placementPolicies } from '../../policies/index.js';
import { obstacle } from '../../policies/placement/candidates.js';
import { worstFit } from '../../policies/placement/worst-fit.js';
import type { PlacementPolicy } from '../../policies/placement.js';
import type { GpuState, ServerState, SessionRequest } from '../../policies/state.js';
import { guarded } from '../../src/queue/guarded-placement.js';
import { Placer } from '../../src/queue/placer.js';
import { whatGpusLack, whyPlaced } from '../../src/queue/reasons.js';
import type { Pool } from '../../src/slots/pool.js';

const share = fc.integer({ min: 0, max: 100 });
const amount = fc.bigInt({ min: 0n, max: 8n });

const gpus: fc.Arbitrary<GpuState> = fc.record({
  index: fc.constant(0),
  uuid: fc.constant('GPU-0'),
  name: fc.constant('test'),
  healthy: fc.boolean(),
  memory: fc.constant(8n),
  reserved: amount,
  usual: amount,
  free: fc.array(fc.boolean(), { maxLength: 2 }),
  sessions: fc.array(
    fc.record({
      ...{ id: fc.nat(), group: fc.nat(), tenant: fc.constant('a'), slot: fc.constant(0) },
      ...{ name: fc.constantFrom('f', 'g'), class: fc.constant('best-effort' as const) },
      ...{ memory: amount, used: amount, started: fc.constant(0) },
      ...{ shareRequest: share, shareLimit: share },
    }),
    { maxLength: 2 },
  ),
});

const requests: fc.Arbitrary<SessionRequest> = fc.record({
  ...{ tenant: fc.constant('a'), name: fc.constantFrom('f', 'g'), gpus: fc.constant(1) },
  class: fc.constantFrom('latency-strict' as const, 'best-effort' as const),
  memory: fc.option(amount),
  ...{ shareRequest: share, shareLimit: share },
  allowed: fc.constantFrom(null, [0], [1], []),
});

const numbers = fc.record({
  omega: fc.double({ min: 0.1, max: 1, noNaN: true }),
  gamma: fc.double({ min: 1, max: 2, noNaN: true }),
});

const states = (...all: GpuState[]): ServerState => ({ now: 0, gpus: all, queue: [], history: [] });

t.test('a GPU lacks something if and only if the policy does not place there', async (t) => {
  for (const policy of placementPolicies.values()) {
    fc.assert(
      fc.property(gpus, requests, numbers, (gpu, request, parameters) => {
        const placed = policy.place(states(gpu), request, parameters);
        const lacks = obstacle(policy, gpu, request, parameters);
        const [said = ''] = whatGpusLack(policy, states(gpu), request, parameters);
        if (placed === null) return lacks !== null && !said.includes('would fit');
        const why = whyPlaced(policy, states(gpu), request, parameters, [placed]);
        return lacks === null && said.includes('would fit') && why.startsWith('GPU 0 with ');
      }),
      { numRuns: 500 },
    );
  }
  t.pass('for all policies');
});

const free: GpuState = {
  ...{ index: 0, uuid: 'GPU-0', name: 'test', healthy: true, memory: 8n, reserved: 0n, usual: 4n },
  ...{ free: [true, true], sessions: [] },
};
const request: SessionRequest = {
  ...{ tenant: 'a', name: 'f', class: 'latency-strict', gpus: 1, memory: 2n, allowed: null },
  ...{ shareRequest: 0, shareLimit: 100 },
};
const usual = { omega: 1, gamma: 1.5 };

t.test('dilu says which of its three rules chose', async (t) => {
  const dilu = placementPolicies.get('dilu') as PlacementPolicy;
  const one = (name: string) => ({
    ...{ id: 1, group: 1, tenant: 'a', name, class: 'latency-strict' as const, slot: 0 },
    ...{ memory: 1n, used: 0n, shareRequest: 10, shareLimit: 20, started: 0 },
  });
  const its = { ...request, shareLimit: 20 };
  const place = (index: number, ...all: GpuState[]) => {
    const [found] = [dilu.place(states(...all), its, usual)];
    t.equal(found?.gpu, index);
    return whyPlaced(dilu, states(...all), its, usual, found ? [found] : []);
  };
  t.match(place(0, free), 'because no GPU in use has room for it');
  const used = { ...free, index: 1, sessions: [one('g')] };
  t.match(place(1, free, used), 'because it is the fullest in use');
  const pair = { ...free, index: 2, sessions: [one('f'), one('g')] };
  t.match(place(1, free, used, pair), 'because a partner of its function runs there');
});

t.test('a request of many GPUs and a server of many have short reasons', async (t) => {
  const many = Array.from({ length: 64 }, (_, index) => ({ ...free, index }));
  const placements = [0, 1].map((gpu) => ({ gpu, slot: 0, memory: 2n }));
  const why = whyPlaced(worstFit, states(...many), { ...request, gpus: 2 }, usual, placements);
  t.match(why, /^GPUs 0, 1 with 2 bytes, by worst-fit, because it has the most unreserved memory/);
  t.match(why, /; 54 more$/);
  t.equal(whatGpusLack(worstFit, states(...many), request, usual).at(-1), 'and 56 more GPUs');
});

/** A placer for one free GPU with a policy of one's own, as the server puts it together. */
function placerWith(place: PlacementPolicy['place']) {
  const own: PlacementPolicy = { name: 'own', summary: 'one of ours', place };
  const placer: Placer = new Placer(
    {
      placement: guarded(own, worstFit, (_policy, _why, what) => placer.failed(what)),
      ...{ instead: worstFit, parameters: usual },
    },
    { state: [free] } as unknown as Pool,
    (all) => states(...all),
  );
  return placer;
}

t.test('where a policy fails, the reason is that of who decided instead', async (t) => {
  let throws = true;
  const placer = placerWith((...asked) => {
    if (throws) throw new Error('no GPU 7');
    return worstFit.place(...asked);
  });
  const failed = placer.place(request) ?? [];
  t.same(placer.failures, ['no GPU 7']);
  t.match(placer.whyPlaced(request, failed), 'by worst-fit, because it has the most');
  throws = false;
  const well = placer.place(request) ?? [];
  t.same(placer.failures, []);
  t.match(placer.whyPlaced(request, well), 'by own, because it takes one of ours');
});

t.test('a policy that fails at its reason has its summary for one', async (t) => {
  const policy: PlacementPolicy = {
    ...worstFit,
    because: () => {
      throw new Error('no words');
    },
  };
  const [placed] = [policy.place(states(free), request, usual)];
  const why = whyPlaced(policy, states(free), request, usual, placed ? [placed] : []);
  t.match(why, `because it takes ${worstFit.summary}`);
});
