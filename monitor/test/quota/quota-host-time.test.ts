// HAS-GPU's quota tokens: their arithmetic, and what it does to programs that launch often and seldom.
import t from 'tap';
import { hostTime } from '../../policies/quota/host-time.js';

const ms = 1_000_000;

interface Program {
  request: number;
  limit: number;
  /** Milliseconds the host needs to launch a request's work, and the device to do it. */
  host: number;
  device: number;
}

/** Programs that work on one request after the other, for a second; milliseconds per request. */
function latencies(programs: Program[], sm = 100): number[] {
  const policy = hostTime(sm);
  let memory = policy.start();
  const tick = 0.1;
  const states = programs.map(({ host }) => {
    return { charged: 0n, launching: host, busyUntil: 0, done: 0, limit: 0n };
  });
  for (let step = 0; step < 10_000; step++) {
    const now = step * tick;
    if (step % 10 === 0) {
      const sessions = states.map(({ charged, busyUntil }, id) => {
        const { request, limit } = programs[id] as Program;
        const wants = now >= busyUntil;
        return {
          id,
          class: 'best-effort' as const,
          shareRequest: request,
          shareLimit: limit,
          charged,
          wants,
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
  const together = hostTime(50).step({
    now: 0n,
    sessions: [session(1, 25, 50), session(2, 50, 50)],
    memory: policy.start(),
  });
  t.same([...together.limits.values()], [10_000_000n, 20_000_000n], 'half of the SMs each');
});
