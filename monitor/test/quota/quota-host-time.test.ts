// HAS-GPU's quota tokens: their arithmetic, and what it does to programs that launch often and seldom.
import fc from 'fast-check';
import t from 'tap';
import { hostTime } from '../../policies/quota/host-time.js';

const ms = 1_000_000;

interface Program {
  /** Percent of the SMs; all. */
  sm?: number;
  request: number;
  limit: number;
  /** Milliseconds the host needs to launch a request's work, and the device to do it. */
  host: number;
  device: number;
}

/** Programs that work on one request after the other, for a second; milliseconds per request. */
function latencies(programs: Program[], windowMs = 40): number[] {
  const policy = hostTime({ windowMs });
  let memory = policy.start();
  const tick = 0.1;
  const states = programs.map(({ host }) => {
    return { charged: 0n, launching: host, busyUntil: 0, done: 0, limit: 0n };
  });
  for (let step = 0; step < 10_000; step++) {
    const now = step * tick;
    if (step % 10 === 0) {
      const sessions = states.map(({ charged, busyUntil }, id) => {
        const { request, limit, sm = 100 } = programs[id] as Program;
        const wants = now >= busyUntil;
        return {
          id,
          class: 'best-effort' as const,
          shareRequest: request,
          shareLimit: limit,
          charged,
          wants,
          sm,
        };
      });
      const output = policy.step({ now: BigInt(Math.round(now * ms)), sessions, memory });
      memory = output.memory;
      for (const [id, limit] of output.limits)
        (states[id] as { limit: bigint | null }).limit = limit;
    }
    for (const [id, state] of states.entries()) {
      const { host, device } = programs[id] as Program;
      if (now < state.busyUntil || state.charged >= state.limit) continue;
      state.charged += BigInt(tick * ms);
      state.launching -= tick;
      if (state.launching > 0.01) continue;
      state.done++;
      state.launching = host;
      state.busyUntil = now + device;
    }
  }
  return states.map(({ done }) => 1000 / done);
}

t.test('one that launches all the time gets its part of the wall time', async (t) => {
  for (const share of [10, 20, 50, 80]) {
    const [latency = 0] = latencies([{ request: share, limit: share, host: 4, device: 0 }]);
    t.ok(Math.abs(latency / (4 / (share / 100)) - 1) < 0.12, `${share} %: ${latency} ms`);
  }
});

t.test('one with few launches is hardly slowed down', async (t) => {
  const at = (share: number) =>
    latencies([{ request: share, limit: share, host: 0.4, device: 15.6 }])[0] ?? 0;
  const free = at(100);
  t.ok(Math.abs(free - 16) < 1, `${free} ms`);
  t.ok(at(50) < 22, 'two in a window');
  // On device time they would be 80 and 160 ms.
  t.ok(at(20) < 42, 'one in a window');
  t.ok(at(10) < 42);
});

t.test(
  'two that launch all the time: quota tokens follow one another, the request comes first',
  async (t) => {
    const [one = 0, two = 0] = latencies([
      { request: 60, limit: 100, host: 4, device: 0 },
      { request: 20, limit: 100, host: 4, device: 0 },
    ]);
    t.ok(one < 4 / 0.45, `${one} ms`);
    t.ok(two < 4 / 0.2, `${two} ms`);
    t.ok(4 / one + 4 / two > 0.95, 'all of the time');
  },
);

t.test('the token of a request, the sliding window, the turn', async (t) => {
  const policy = hostTime();
  const session = (id: number, request: number, limit: number, charged = 0n, wants = true) => {
    return {
      id,
      class: 'best-effort' as const,
      shareRequest: request,
      shareLimit: limit,
      charged,
      wants,
    };
  };
  const first = policy.step({
    now: 0n,
    sessions: [session(1, 25, 50), session(2, 50, 50)],
    memory: policy.start(),
  });
  t.same([...first.limits.values()], [10_000_000n, 0n], 'one at a time; of equals the first');
  const next = policy.step({
    now: 10_000_000n,
    sessions: [session(1, 25, 50, 10_000_000n), session(2, 50, 50)],
    memory: first.memory,
  });
  t.same([...next.limits.values()], [10_000_000n, 20_000_000n], 'who needs more of its request');
  const third = policy.step({
    now: 30_000_000n,
    sessions: [session(1, 25, 50, 10_000_000n), session(2, 50, 50, 20_000_000n)],
    memory: next.memory,
  });
  t.same([...third.limits.values()], [20_000_000n, 20_000_000n], 'limit reached: it waits');
  const held = policy.step({
    now: 0n,
    sessions: [session(1, 0, 50)],
    memory: policy.start(),
  });
  t.same([...held.limits.values()], [20_000_000n], 'without a request: of its limit');
  const together = hostTime().step({
    now: 0n,
    sessions: [
      { ...session(1, 25, 50), sm: 50 },
      { ...session(2, 50, 50), sm: 50 },
    ],
    memory: policy.start(),
  });
  t.same([...together.limits.values()], [10_000_000n, 20_000_000n], 'half of the SMs each');
});

t.test('windows of any length: quota tokens are a part of them', async (t) => {
  for (const windowMs of [10, 100, 1000]) {
    const policy = hostTime({ windowMs });
    const session = {
      ...{ id: 1, class: 'best-effort' as const, shareRequest: 20, shareLimit: 20 },
      ...{ charged: 0n, wants: true },
    };
    const { limits } = policy.step({ now: 0n, sessions: [session], memory: policy.start() });
    t.same([...limits.values()], [BigInt(windowMs * 200_000)], `${windowMs} ms`);
  }
  // The share of the time is the same; who has all of its launches in one token waits for a whole window.
  const of = (host: number, windowMs: number) =>
    latencies([{ request: 20, limit: 20, host, device: 0 }], windowMs)[0] ?? 0;
  for (const windowMs of [10, 40, 100]) {
    const latency = of(4, windowMs);
    t.ok(Math.abs(latency / 20 - 1) < 0.15, `${windowMs} ms: ${latency} ms`);
  }
});

t.test(
  'partitions of the SMs: who fits beside those who launch has a quota token, too',
  async (t) => {
    const busy = { request: 60, limit: 100, host: 4, device: 0 };
    const beside = (one: number, other: number) =>
      latencies([
        { ...busy, sm: one },
        { ...busy, sm: other },
      ]).map((latency) => Math.round((100 * 4) / latency));
    // Percent of the wall time in which each launches.
    const [all = 0, whole = 0] = beside(100, 100);
    t.ok(all + whole >= 95 && all + whole <= 100, `${all} and ${whole}: one at a time`);
    for (const [one, other] of [
      [50, 50],
      [30, 70],
    ] as const) {
      for (const part of beside(one, other)) t.ok(part >= 95, `${one}:${other}: ${part}`);
    }
    const [large = 0, small = 0] = beside(60, 50);
    t.ok(large + small <= 100, `${large} and ${small}: together more than there are`);
  },
);

t.test('at no time do those with quota tokens have more than all SMs', async (t) => {
  const percent = fc.integer({ min: 1, max: 100 });
  const sessions = fc.array(fc.record({ sm: percent, request: percent, more: percent }), {
    minLength: 1,
    maxLength: 8,
  });
  const windowMs = fc.constantFrom(10, 40, 500);
  const uses = fc.array(
    fc.array(fc.integer({ min: 0, max: 3e6 }), { minLength: 8, maxLength: 8 }),
    {
      maxLength: 40,
    },
  );
  const run = fc.property(sessions, windowMs, uses, (kinds, windowMs, uses) => {
    const policy = hostTime({ windowMs });
    let memory = policy.start();
    const charged = kinds.map(() => 0n);
    let limits: ReadonlyMap<number, bigint | null> = new Map();
    for (const [step, used] of uses.entries()) {
      const now = BigInt(step * ms);
      const sessions = kinds.map(({ sm, request, more }, id) => {
        charged[id] = (charged[id] ?? 0n) + BigInt(used[id] ?? 0);
        return {
          ...{ id, class: 'best-effort' as const, charged: charged[id] ?? 0n, wants: true, sm },
          ...{ shareRequest: request, shareLimit: Math.min(100, request + more) },
        };
      });
      ({ limits, memory } = policy.step({ now, sessions, memory }));
      const open = sessions.filter(({ id, charged }) => charged < (limits.get(id) ?? 0n));
      const all = open.reduce((sum, { sm }) => sum + sm, 0);
      if (all > 100) throw new Error(`${all} percent of the SMs in step ${step}`);
      if (open.length === 0 && kinds.every(({ request, more }) => request + more > 100))
        throw new Error(`nobody may launch in step ${step}`);
    }
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 200, seed: 36 }));
});
