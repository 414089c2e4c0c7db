// Placement policies: what each prefers, and what holds for all of them on any state.
import fc from 'fast-check';
import t from 'tap';
import { admissible } from '../../policies/admissible.js';
import { placementPolicies } from '../../policies/index.js';
import { type PlacementParameters, placeAll, usualParameters } from '../../policies/placement.js';
import type {
  EndedState,
  GpuState,
  ServerState,
  SessionRequest,
  SessionState,
} from '../../policies/state.js';

const GiB = 1n << 30n;

function session(given: Partial<SessionState> = {}): SessionState {
  return {
    id: 1,
    group: 1,
    tenant: 'a',
    name: 'one',
    class: 'latency-strict',
    slot: 0,
    memory: GiB,
    used: 0n,
    shareRequest: 0,
    shareLimit: 100,
    started: 0,
    ...given,
  };
}

function gpu(index: number, given: Partial<GpuState> = {}): GpuState {
  return {
    index,
    uuid: `GPU-${index}`,
    name: 'test',
    healthy: true,
    memory: 8n * GiB,
    reserved: 0n,
    usual: 4n * GiB,
    free: [true, true],
    sessions: [],
    ...given,
  };
}

function wants(given: Partial<SessionRequest> = {}): SessionRequest {
  return {
    tenant: 'a',
    name: 'one',
    class: 'latency-strict',
    gpus: 1,
    memory: GiB,
    shareRequest: 0,
    shareLimit: 100,
    allowed: null,
    ...given,
  };
}

const server = (...gpus: GpuState[]): ServerState => ({ now: 0, gpus, queue: [], history: [] });

function place(
  name: string,
  state: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters = usualParameters,
) {
  const policy = placementPolicies.get(name);
  if (!policy) throw new Error(`no policy ${name}`);
  return policy.place(state, request, parameters);
}

function placeOnAll(
  name: string,
  state: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters = usualParameters,
) {
  const policy = placementPolicies.get(name);
  if (!policy) throw new Error(`no policy ${name}`);
  return placeAll(policy, state, request, parameters);
}

const names = [...placementPolicies.keys()];

t.test('several GPUs: the best ones, in their order, or none', async (t) => {
  const state = server(
    gpu(0, { reserved: 2n * GiB }),
    gpu(1, { reserved: 5n * GiB, free: [false, true] }),
    gpu(2, { healthy: false }),
    gpu(3),
  );
  const on = (name: string, given: Partial<SessionRequest>) =>
    placeOnAll(name, state, wants(given))?.map(({ gpu }) => gpu) ?? null;
  t.same(on('worst-fit', { gpus: 1 }), [3]);
  t.same(on('worst-fit', { gpus: 2 }), [0, 3]);
  t.same(on('best-fit', { gpus: 2 }), [0, 1]);
  t.same(on('worst-fit', { gpus: 3 }), [0, 1, 3]);
  t.equal(on('worst-fit', { gpus: 4 }), null, 'one of them is ill');
  t.equal(on('worst-fit', { gpus: 3, memory: 4n * GiB }), null, 'one has not the memory');
  t.same(on('worst-fit', { gpus: 2, allowed: [0, 1] }), [0, 1]);
  t.same(placeOnAll('worst-fit', state, wants({ gpus: 2, memory: null })), [
    { gpu: 0, slot: 0, memory: 4n * GiB },
    { gpu: 3, slot: 0, memory: 4n * GiB },
  ]);
});

t.test('by memory', async (t) => {
  const state = server(
    gpu(0, { reserved: 2n * GiB }),
    gpu(1, { reserved: 5n * GiB, free: [false, true] }),
    gpu(2, { reserved: 5n * GiB }),
    gpu(3),
    gpu(4),
  );
  t.same(place('best-fit', state, wants()), { gpu: 1, slot: 1, memory: GiB });
  t.same(place('best-fit', state, wants({ memory: 4n * GiB }))?.gpu, 0);
  t.same(place('worst-fit', state, wants()), { gpu: 3, slot: 0, memory: GiB });
  t.same(place('worst-fit', state, wants({ memory: null }))?.memory, 4n * GiB);
  t.equal(place('worst-fit', state, wants({ memory: 8n * GiB + 1n })), null);
});

t.test('by share, then by memory', async (t) => {
  const state = server(
    gpu(0, { sessions: [session({ shareRequest: 30 })], reserved: GiB }),
    gpu(1, { sessions: [session({ shareRequest: 60 })], reserved: GiB }),
    gpu(2, { sessions: [session({ shareRequest: 60 })], reserved: 2n * GiB }),
    gpu(3, { reserved: GiB }),
    gpu(4),
  );
  t.equal(place('spread', state, wants())?.gpu, 4);
  t.equal(place('pack', state, wants())?.gpu, 2);
  t.equal(place('pack', state, wants({ shareRequest: 40 }))?.gpu, 2, 'exactly 100 %');
  t.equal(place('pack', state, wants({ shareRequest: 41 }))?.gpu, 0, 'not more than 100 %');
});

t.test('dilu: used GPUs, then an empty one; the fullest of them', async (t) => {
  const other = session({ name: 'other', shareRequest: 40, shareLimit: 50 });
  const state = server(
    gpu(0),
    gpu(1, { sessions: [{ ...other, shareRequest: 20 }], reserved: GiB }),
    gpu(2, { sessions: [other], reserved: GiB }),
    gpu(3, { sessions: [session({ shareRequest: 10, shareLimit: 50 })], reserved: GiB }),
  );
  const asks = (given: Partial<SessionRequest>) =>
    place('dilu', state, wants({ shareRequest: 10, shareLimit: 50, ...given }))?.gpu;
  t.equal(asks({}), 2, 'the most promised: the same function elsewhere does not count');
  t.equal(asks({ tenant: 'b' }), 2);
  t.equal(asks({ shareRequest: 95, shareLimit: 95 }), 0, 'requests bounded by omega');
  t.equal(asks({ shareLimit: 100 }), 2, 'limits of 50 and 100 are gamma');
  const full = server(gpu(0), gpu(1, { sessions: [{ ...other, shareLimit: 51 }] }));
  t.equal(place('dilu', full, wants({ tenant: 'b' }))?.gpu, 0, 'limits bounded by gamma');
  t.equal(place('dilu', server(full.gpus[1] as GpuState), wants()), null);
});

t.test('dilu: beside the partners of the other instances', async (t) => {
  const of = (name: string, shareRequest: number, tenant = 'a') =>
    session({ tenant, name, shareRequest, shareLimit: 30 });
  const asks = (state: ServerState, given: Partial<SessionRequest> = {}) =>
    place('dilu', state, wants({ name: 'b', shareRequest: 10, shareLimit: 30, ...given }))?.gpu;
  // b shares GPU 0 with p; p is on GPU 1, too. GPU 2 is the fullest, GPU 3 has b alone.
  const state = server(
    gpu(0, { sessions: [of('p', 20), of('b', 20)] }),
    gpu(1, { sessions: [of('p', 20)] }),
    gpu(2, { sessions: [of('x', 80)] }),
    gpu(3, { sessions: [of('b', 70)] }),
    gpu(4),
  );
  t.equal(asks(state), 1, 'where its partner is, and it is not yet');
  t.equal(asks(state, { name: 'p' }), 3, 'both ways');
  t.equal(asks(state, { name: 'x' }), 2, 'one without a partner goes to the fullest GPU');
  t.equal(asks(state, { name: 'new' }), 2);
  t.equal(asks(state, { tenant: 'b' }), 2, "another tenant's function is another function");
  const [shared, beside, ...others] = state.gpus as [GpuState, GpuState, ...GpuState[]];
  const without = server(shared, { ...beside, free: [false, false] }, ...others);
  t.equal(asks(without), 2, 'where no partner has room, as if there were none');
  const ill = server({ ...shared, healthy: false }, beside, ...others);
  t.equal(asks(ill), 1, 'a GPU that takes nobody tells of partners all the same');
  const stranger = server(
    gpu(0, { sessions: [of('p', 20, 'c'), of('b', 20)] }),
    gpu(1, { sessions: [of('p', 20, 'd')] }),
    gpu(2, { sessions: [of('p', 10, 'c')] }),
  );
  t.equal(asks(stranger), 2, 'a partner may be another tenant; it is its function that counts');
});

t.test('dilu: instances that are placed together have like neighbours', async (t) => {
  const of = (name: string, shareRequest: number) =>
    session({ tenant: 'b', name, shareRequest, shareLimit: 30 });
  // The fullest GPU has p; of the others, the fuller has q.
  const state = server(
    gpu(0, { sessions: [of('p', 30)] }),
    gpu(1, { sessions: [of('q', 20)] }),
    gpu(2, { sessions: [of('p', 10)] }),
  );
  const job = wants({ name: 'train', gpus: 2, shareRequest: 10, shareLimit: 30 });
  t.same(
    placeOnAll('dilu', state, job)?.map(({ gpu }) => gpu),
    [0, 2],
  );
});

t.test('dilu: 0.6 of time against 0.4 of memory', async (t) => {
  const of = (index: number, shareRequest: number, reserved: bigint) =>
    gpu(index, {
      memory: 10n * GiB,
      reserved,
      sessions: [session({ tenant: 'b', shareRequest, shareLimit: 40 })],
    });
  // 0.6 * 0.30 + 0.4 * 0.1 = 0.22 against 0.6 * 0.10 + 0.4 * 0.5 = 0.26, each plus the same.
  t.equal(place('dilu', server(of(0, 30, GiB), of(1, 10, 5n * GiB)), wants())?.gpu, 1);
  // 0.18 + 0.08 = 0.26: equal, so the lowest index.
  t.equal(place('dilu', server(of(0, 30, 2n * GiB), of(1, 10, 5n * GiB)), wants())?.gpu, 0);
  t.equal(place('dilu', server(of(1, 10, 5n * GiB), of(0, 30, 2n * GiB)), wants())?.gpu, 0);
  // One percent of time more than makes up for less memory.
  t.equal(place('dilu', server(of(0, 30, 2n * GiB), of(1, 11, 5n * GiB)), wants())?.gpu, 1);
});

t.test('what can never be had', async (t) => {
  const state = server(
    gpu(0, { memory: 4n * GiB, usual: 2n * GiB, reserved: 4n * GiB, free: [false] }),
    gpu(1, { healthy: false, sessions: [session({ shareRequest: 100 })] }),
  );
  const reason = (given: Partial<SessionRequest>, parameters?: PlacementParameters) =>
    admissible(state, wants(given), parameters)?.reason;
  t.equal(reason({}), undefined, 'waiting may help');
  t.equal(reason({ memory: 8n * GiB }), undefined);
  t.same(admissible(state, wants({ memory: 8n * GiB + 1n })), {
    reason: 'memory',
    largest: { gpus: 2, memory: 8n * GiB, share: 100 },
  });
  t.match(admissible(state, wants({ memory: 5n * GiB, allowed: [0] })), {
    reason: 'memory',
    largest: { memory: 4n * GiB },
  });
  t.equal(reason({ gpus: 2 }), undefined);
  t.match(admissible(state, wants({ gpus: 2, memory: 5n * GiB })), {
    reason: 'memory',
    largest: { memory: 4n * GiB },
  });
  t.match(admissible(state, wants({ gpus: 3 })), { reason: 'gpus', largest: { gpus: 2 } });
  t.match(admissible(state, wants({ gpus: 2, allowed: [1] })), {
    reason: 'gpus',
    largest: { gpus: 1 },
  });
  t.equal(reason({ gpus: 0 }), 'gpus');
  t.match(admissible(state, wants({ allowed: [7] })), { reason: 'allowed', largest: { gpus: 0 } });
  t.equal(reason({ shareRequest: 101, shareLimit: 101 }), 'share');
  t.equal(reason({ shareRequest: 81 }, { omega: 0.8, gamma: 1 }), 'share');
  t.equal(reason({ shareRequest: 80 }, { omega: 0.8, gamma: 1 }), undefined);
  t.equal(reason({ shareRequest: 100 }, { omega: 2, gamma: 1 }), undefined);
  t.equal(reason({ shareRequest: 30, shareLimit: 20 }), 'share-order');
});

// Arbitrary states, of which many are full, broken or inconsistent. Few different values, so that
// ties are frequent.
const percent = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom(0, 0, 10, 25, 33.3, 50) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 100 }) },
);
const bytes = fc.bigInt(0n, 12n);
const word = fc.constantFrom('a', 'b', 'c');

const sessions = fc.array(
  fc.record({ tenant: word, name: word, shareRequest: percent, shareLimit: percent }),
  { maxLength: 3 },
);
const gpus = fc.uniqueArray(fc.integer({ min: 0, max: 9 }), { maxLength: 6 }).chain((indices) =>
  fc.tuple(
    ...indices.map((index) =>
      fc
        .record({
          healthy: fc.constantFrom(true, true, true, false),
          memory: fc.constantFrom(4n, 8n, 8n, 12n),
          reserved: bytes.map((some) => some / 2n),
          usual: bytes,
          free: fc.array(fc.boolean(), { maxLength: 4 }),
          sessions: sessions.map((some) => some.map(session)),
        })
        .map((given) => gpu(index, given)),
    ),
  ),
);
const history: fc.Arbitrary<EndedState[]> = fc.array(
  fc.record({
    tenant: word,
    name: word,
    gpu: fc.integer({ min: 0, max: 4 }),
    memory: bytes,
    peak: bytes,
    waited: fc.nat(9),
    seconds: fc.nat(9),
  }),
  { maxLength: 5 },
);
const states: fc.Arbitrary<ServerState> = fc.record({
  now: fc.nat(),
  gpus,
  queue: fc.constant([]),
  history,
});
const requests: fc.Arbitrary<SessionRequest> = fc
  .record({
    tenant: word,
    name: word,
    gpus: fc.constantFrom(1, 1, 1, 1, 2),
    memory: fc.option(bytes, { freq: 3 }),
    shareRequest: percent,
    shareLimit: percent,
    allowed: fc.oneof(fc.constant(null), fc.constant(null), fc.array(fc.nat(9), { maxLength: 6 })),
  })
  .map(wants);
const parameters: fc.Arbitrary<PlacementParameters> = fc.record({
  omega: fc.constantFrom(1, 1, 0.8, 0.5, 1.5),
  gamma: fc.constantFrom(1, 1.25, 1.5, 2),
});

/** Told again here, from the words of the issue and not from the code under test. */
function fits(
  gpu: GpuState,
  request: SessionRequest,
  { omega, gamma }: PlacementParameters,
  name: string,
): boolean {
  const sum = (key: 'shareRequest' | 'shareLimit') =>
    gpu.sessions.reduce((sum, one) => sum + one[key], 0) + request[key];
  const rounding = 1e-6;
  return (
    request.gpus === 1 &&
    gpu.healthy &&
    gpu.free.includes(true) &&
    (request.allowed === null || request.allowed.includes(gpu.index)) &&
    gpu.reserved + (request.memory ?? gpu.usual) <= gpu.memory &&
    sum('shareRequest') <= Math.min(1, omega) * 100 + rounding &&
    (name !== 'dilu' || sum('shareLimit') <= gamma * 100 + rounding)
  );
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
}

for (const name of names) {
  t.test(`${name}: promises only what is there, and everything that is`, async (t) => {
    let placed = 0;
    const run = fc.property(states, requests, parameters, (state, request, parameters) => {
      const placement = place(name, freeze(state), freeze(request), freeze(parameters));
      if (!placement) return !state.gpus.some((gpu) => fits(gpu, request, parameters, name));
      placed++;
      const found = state.gpus.find(({ index }) => index === placement.gpu);
      return (
        found !== undefined &&
        fits(found, request, parameters, name) &&
        found.free[placement.slot] === true &&
        placement.memory === (request.memory ?? found.usual)
      );
    });
    fc.assert(run, { numRuns: 3000 });
    t.ok(placed > 500 && placed < 2900, `${placed} of 3000 placed`);
  });

  t.test(`${name}: several GPUs, all different, whenever there are so many`, async (t) => {
    let placed = 0;
    const several = requests.chain((request) =>
      fc.integer({ min: 1, max: 3 }).map((gpus) => ({ ...request, gpus })),
    );
    const run = fc.property(states, several, parameters, (state, request, parameters) => {
      const one = { ...request, gpus: 1 };
      const there = state.gpus.filter((gpu) => fits(gpu, one, parameters, name));
      const found = placeOnAll(name, freeze(state), freeze(request), freeze(parameters));
      if (!found) return there.length < request.gpus;
      placed++;
      const indices = found.map(({ gpu }) => gpu);
      return (
        found.length === request.gpus &&
        indices.every((index, at) => at === 0 || index > (indices[at - 1] ?? 0)) &&
        found.every(({ gpu: index, slot, memory }) => {
          const gpu = there.find((gpu) => gpu.index === index);
          return gpu?.free[slot] === true && memory === (request.memory ?? gpu.usual);
        })
      );
    });
    fc.assert(run, { numRuns: 3000 });
    t.ok(placed > 200 && placed < 2700, `${placed} of 3000 placed`);
  });

  t.test(`${name}: the order in which things are told means nothing`, async (t) => {
    const seeds = fc.array(fc.nat(), { minLength: 5, maxLength: 5 });
    const run = fc.property(
      states,
      requests,
      parameters,
      seeds,
      (state, request, parameters, s) => {
        const shuffled = {
          ...state,
          gpus: shuffle(state.gpus, s).map((gpu) => ({
            ...gpu,
            sessions: shuffle(gpu.sessions, s),
          })),
          history: shuffle(state.history, s),
        };
        const first = place(name, state, request, parameters);
        t.same(place(name, shuffled, request, parameters), first);
        t.same(place(name, state, request, parameters), first);
      },
    );
    fc.assert(run, { numRuns: 500 });
  });

  t.test(`${name}: what is admissible is placed when all others are gone`, async (t) => {
    const run = fc.property(states, requests, parameters, (state, request, parameters) => {
      const gpus = state.gpus.map((gpu) => ({
        ...gpu,
        healthy: true,
        reserved: 0n,
        free: gpu.free.map(() => true),
        sessions: [],
      }));
      const refused = admissible(state, request, parameters);
      const placed = placeOnAll(name, { ...state, gpus }, request, parameters);
      // A limit below the request is refused, although there would be a place.
      return refused?.reason === 'share-order' || (refused === null) === (placed !== null);
    });
    t.doesNotThrow(() => fc.assert(run, { numRuns: 2000 }));
  });
}

function shuffle<T>(values: readonly T[], seeds: readonly number[]): T[] {
  return values
    .map((value, index) => ({ value, key: seeds[index % seeds.length] ?? 0 }))
    .sort((one, other) => one.key - other.key)
    .map(({ value }) => value);
}
