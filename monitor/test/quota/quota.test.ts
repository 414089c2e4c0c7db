// Shares of device time on a simulated device: what is received is what is owed.
import fc from 'fast-check';
import t from 'tap';
import { deviceTime } from '../../policies/quota/device-time.js';
import { none } from '../../policies/quota/none.js';
import { owedShares, strictFirst } from '../../policies/quota/owed.js';
import { priority } from '../../policies/quota/priority.js';
import type { QuotaPolicy } from '../../policies/quota.js';
import { type Load, SimulatedDevice } from '../support/simulated-device.js';

const ms = 1e6;
const second = 1000 * ms;

const owed = (loads: readonly Load[], rank?: typeof strictFirst) =>
  owedShares(
    loads.map(({ id, class: of = 'latency-strict', shareRequest, shareLimit = 100 }) => {
      return { id, class: of, shareRequest, shareLimit, wants: true };
    }),
    rank,
  );

/** The largest difference between received and owed, in points, over any second from `from` on. */
function worst<Memory>(
  device: SimulatedDevice<Memory>,
  shares: ReadonlyMap<number, number>,
  from: number,
  to: number,
): number {
  let most = 0;
  for (let start = from; start + second <= to; start += 50 * ms) {
    for (const [id, share] of shares) {
      const off = Math.abs(device.received(id, start, start + second) - share);
      most = Math.max(most, off);
    }
  }
  return most;
}

const every =
  (length: number): Load['kernel'] =>
  () =>
    length;

t.test('owed: requests first, the rest in proportion, up to limits', async (t) => {
  const of = (...shares: [request: number, limit: number, wants?: boolean][]) =>
    [
      ...owedShares(
        shares.map(([shareRequest, shareLimit, wants = true], id) => {
          return { id, class: 'latency-strict', shareRequest, shareLimit, wants };
        }),
      ).values(),
    ].map((share) => Math.round(share * 100) / 100);
  t.same(of(), []);
  t.same(of([100, 100]), [100]);
  t.same(of([30, 100]), [100]);
  t.same(of([30, 40]), [40]);
  t.same(of([0, 100], [0, 100], [0, 100], [0, 100]), [25, 25, 25, 25]);
  t.same(of([30, 100], [10, 100]), [75, 25]);
  t.same(of([30, 50], [10, 100]), [50, 50]);
  t.same(of([30, 100, false], [10, 100]), [0, 100]);
  t.same(of([30, 100, false], [10, 20], [0, 100]), [0, 20, 80]);
  t.same(of([50, 100], [0, 100]), [99.02, 0.98], 'nobody starves');
  t.same(of([80, 100], [80, 100]), [50, 50], 'promised twice: each the same part');
  t.same(of([20, 30], [20, 30]), [30, 30]);
  const classes = (shareRequest: number, best: number) =>
    owedShares(
      [
        { id: 1, class: 'latency-strict', shareRequest, shareLimit: 90, wants: true },
        { id: 2, class: 'best-effort', shareRequest: best, shareLimit: 100, wants: true },
      ],
      strictFirst,
    );
  t.same(classes(20, 0).get(1), 90);
  t.same(classes(20, 0).get(2), 10);
  t.same(classes(20, 30).get(2), 30);
});

t.test('owed: never above the limit, never below the request, nothing left over', async (t) => {
  const session = fc.record({
    shareRequest: fc.integer({ min: 0, max: 100 }),
    more: fc.integer({ min: 0, max: 100 }),
    wants: fc.boolean(),
  });
  const run = fc.property(fc.array(session, { maxLength: 10 }), (some) => {
    const sessions = some.map(({ shareRequest, more, wants }, id) => {
      const shareLimit = Math.min(100, shareRequest + more);
      return { id, class: 'latency-strict' as const, shareRequest, shareLimit, wants };
    });
    const shares = owedShares(sessions);
    const wanting = sessions.filter(({ wants }) => wants);
    const sum = (values: number[]) => values.reduce((sum, value) => sum + value, 0);
    const requests = sum(wanting.map(({ shareRequest }) => shareRequest));
    const limits = sum(wanting.map(({ shareLimit }) => shareLimit));
    const total = sum([...shares.values()]);
    return (
      Math.abs(total - Math.min(100, limits)) < 1e-9 &&
      sessions.every(({ id, shareRequest, shareLimit, wants }) => {
        const share = shares.get(id) ?? -1;
        if (!wants) return share === 0;
        return share <= shareLimit + 1e-9 && (requests > 100 || share >= shareRequest - 1e-9);
      })
    );
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 2000 }));
});

/** Two to eight sessions that always have work; kernels from 10 us to `longest`. */
function splits(longest: number): fc.Arbitrary<Load[]> {
  const one = fc.record({
    part: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1, noNaN: true })),
    limited: fc.constantFrom(false, false, false, true),
    more: fc.integer({ min: 0, max: 60 }),
    length: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  const total = fc.integer({ min: 0, max: 100 });
  return fc.tuple(fc.array(one, { minLength: 2, maxLength: 8 }), total).map(([sessions, total]) => {
    const parts = sessions.reduce((sum, { part }) => sum + part, 0) || 1;
    return sessions.map(({ part, limited, more, length }, index) => {
      const shareRequest = Math.floor((total * part) / parts);
      return {
        id: index + 1,
        shareRequest,
        shareLimit: limited ? Math.min(100, Math.max(5, shareRequest + more)) : 100,
        kernel: every(Math.round(10_000 * (longest / 10_000) ** length)),
      };
    });
  });
}

const shown = (loads: Load[]) =>
  loads.map(({ shareRequest, shareLimit, kernel }) => [shareRequest, shareLimit, kernel(0)]);

for (const longest of [2 * ms, 50 * ms]) {
  t.test(`any split, kernels to ${longest / ms} ms`, async (t) => {
    let most = 0;
    const run = fc.property(splits(longest), (loads) => {
      const device = new SimulatedDevice(deviceTime(), loads);
      device.runUntil(2.5 * second);
      const off = worst(device, owed(loads), 0.2 * second, 2.5 * second);
      most = Math.max(most, off);
      // Kernels are not preempted: in one second, whole ones of everybody can be on either side.
      const kernels = loads.reduce((sum, { kernel }) => sum + kernel(0), 0);
      const points = longest <= 2 * ms ? 2 : 2 + (100 * 2 * kernels) / second;
      if (off > points) throw new Error(`${off} points: ${JSON.stringify(shown(loads))}`);
    });
    fc.assert(run, { numRuns: 50, seed: 4 });
    t.pass(`worst: ${most.toFixed(2)} points`);
  });
}

t.test('half a second in one kernel is a debt, and paid back', async (t) => {
  const loads = [
    { id: 1, shareRequest: 50, kernel: every(500 * ms) },
    { id: 2, shareRequest: 50, kernel: every(0.1 * ms) },
  ];
  const device = new SimulatedDevice(deviceTime(), loads);
  device.runUntil(20 * second);
  for (const id of [1, 2]) {
    t.ok(Math.abs(device.received(id, 0, 20 * second) - 50) < 2.6, `${id}: half of it`);
  }
  const first = device.samples.find(({ served }) => (served.get(1) ?? 0) >= 500 * ms);
  if (!first) throw new Error('it has run once');
  t.equal(first.now, 505 * ms);
  t.ok(device.received(2, first.now, first.now + 450 * ms) > 95, 'the other catches up');
});

t.test('long kernels that are charged less than they take are no idle device', async (t) => {
  for (const [length, counted] of [
    [100 * ms, 0.5],
    [500 * ms, 0.8],
  ] as const) {
    const loads = [
      { id: 1, shareRequest: 70, kernel: every(ms), counted },
      { id: 2, shareRequest: 30, kernel: every(length), counted },
    ];
    const device = new SimulatedDevice(deviceTime(), loads);
    device.runUntil(100 * length);
    const off = Math.abs(device.received(2, 0, 100 * length) - 30);
    t.ok(off <= 1, `${length / ms} ms: off by ${off} points, where a kernel is one`);
  }
});

/** By how many kernels of the longest kind a session was further ahead at one moment than at another. */
function spread(device: SimulatedDevice<unknown>, id: number, share: number, longest: number) {
  const ahead = device.samples
    .filter(({ now }) => now > 2 * second)
    .map(({ served }) => {
      const all = [...served.values()].reduce((sum, one) => sum + one, 0);
      return (served.get(id) ?? 0) - (share / 100) * all;
    });
  return (Math.max(...ahead) - Math.min(...ahead)) / longest;
}

t.test('long kernels that are not what was predicted are one kernel off at most', async (t) => {
  for (const [length, share] of [
    [100 * ms, 30],
    [500 * ms, 50],
  ] as const) {
    for (const varies of [0, 0.02, 0.1, 0.3]) {
      const kernel = (n: number) => length * (1 + varies * (((n * 0.618034) % 1) - 0.5));
      const loads = [
        { id: 1, shareRequest: 100 - share, kernel: every(ms) },
        { id: 2, shareRequest: share, kernel },
      ];
      const device = new SimulatedDevice(deviceTime(), loads);
      device.runUntil(2 * second + 100 * length);
      const off = spread(device, 2, share, length);
      t.ok(off <= 1, `${length / ms} ms, ${varies}: ${off.toFixed(2)} kernels`);
    }
  }
});

t.test('who rests for a moment finds its time not spent in one long kernel', async (t) => {
  const loads = [
    // 40 ms of work and 8 ms of rest, five sixths of the device if it had that for itself.
    {
      id: 1,
      shareRequest: 50,
      kernel: every(ms),
      active: (now: number) => now % (48 * ms) < 40 * ms,
    },
    { id: 2, shareRequest: 50, kernel: every(500 * ms) },
  ];
  const device = new SimulatedDevice(deviceTime(), loads);
  device.runUntil(60 * second);
  const had = device.received(1, 10 * second, 60 * second);
  const both = had + device.received(2, 10 * second, 60 * second);
  t.ok(had > 25, `${had.toFixed(1)} %`);
  t.ok(both > 90, `${both.toFixed(1)} % of the device were used`);
});

t.test('a session alone is never held', async (t) => {
  for (const kernel of [0.01 * ms, 1 * ms, 30 * ms]) {
    const one = { id: 1, shareRequest: 100, kernel: every(kernel) };
    const idle = { id: 2, shareRequest: 0, kernel: every(1), active: () => false };
    const device = new SimulatedDevice(deviceTime(), [one, idle]);
    device.runUntil(second);
    t.equal(device.held(1), 0);
    t.equal(device.received(1, 0, second), 100);
  }
});

t.test('an idle share goes to others up to their limits, and comes back', async (t) => {
  const away = (now: number) => now < 300 * ms || now >= 600 * ms;
  const loads = [
    { id: 1, shareRequest: 60, kernel: every(0.2 * ms), active: away },
    { id: 2, shareRequest: 20, kernel: every(0.2 * ms) },
    { id: 3, shareRequest: 20, shareLimit: 30, kernel: every(0.2 * ms) },
  ];
  const device = new SimulatedDevice(deviceTime(), loads);
  device.runUntil(900 * ms);
  const about = (id: number, from: number, to: number, share: number) =>
    t.ok(Math.abs(device.received(id, from * ms, to * ms) - share) < 4, `${id}: ${share} %`);
  about(1, 100, 300, 60);
  about(2, 100, 300, 20);
  about(3, 100, 300, 20);
  about(2, 310, 600, 70);
  about(3, 310, 600, 30);
  // One period to notice; then what is owed, in every window.
  for (const start of [605, 645, 685]) {
    t.ok(device.received(1, start * ms, (start + 40) * ms) > 52);
  }
  about(2, 620, 900, 20);
});

t.test('a change of share shows within one window', async (t) => {
  const loads = [1, 2].map((id) => ({ id, shareRequest: 50, kernel: every(0.2 * ms) }));
  const device = new SimulatedDevice(deviceTime(), loads);
  device.runUntil(500 * ms);
  device.setShare(1, 20, 100);
  device.setShare(2, 80, 100);
  device.runUntil(1000 * ms);
  t.ok(Math.abs(device.received(1, 300 * ms, 500 * ms) - 50) < 3);
  for (let start = 540; start <= 960; start += 40) {
    const share = device.received(2, start * ms, (start + 40) * ms);
    t.ok(Math.abs(share - 80) < 8, `at ${start} ms: ${share}`);
  }
  t.ok(Math.abs(device.received(2, 540 * ms, 980 * ms) - 80) < 2);
  device.setShare(1, 10, 30);
  device.setShare(2, 10, 30);
  device.runUntil(1500 * ms);
  for (const id of [1, 2]) t.ok(device.received(id, 1040 * ms, 1500 * ms) < 31);
});

t.test('a limit holds over any time but for one window and one kernel', async (t) => {
  const length = fc.double({ min: 0, max: 1, noNaN: true });
  const window = fc.constantFrom(10, 40, 250, 1000);
  const percent = fc.integer({ min: 1, max: 99 });
  const run = fc.property(window, percent, length, length, (windowMs, limit, one, other) => {
    const kernel = Math.round(0.01 * ms * 2000 ** one);
    const loads = [
      { id: 1, shareRequest: 0, shareLimit: limit, kernel: every(kernel) },
      { id: 2, shareRequest: 0, kernel: every(Math.round(0.01 * ms * 2000 ** other)) },
    ];
    const policy = deviceTime({ windowMs });
    const device = new SimulatedDevice(policy, loads.slice(0, one < 0.5 ? 1 : 2));
    device.runUntil(second);
    // What is used beyond the limit's line is bounded from its lowest point on.
    let lowest = 0;
    for (const { now, served } of device.samples) {
      const beyond = (served.get(1) ?? 0) - (limit / 100) * now;
      lowest = Math.min(lowest, beyond);
      const most = (limit / 100) * windowMs * ms + 2 * ms + 2 * kernel;
      if (beyond - lowest > most)
        throw new Error(`${limit} % of ${windowMs} ms: ${beyond - lowest} over`);
    }
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 60, seed: 4 }));
});

t.test(
  'in a long window a part of the time may be used in one go, in a short one not',
  async (t) => {
    // 60 ms of work after a rest of 340: 15 % of the time.
    const bursts = (windowMs: number) => {
      const active = (now: number) => now % (400 * ms) >= 340 * ms;
      const loads = [{ id: 1, shareRequest: 0, shareLimit: 30, kernel: every(ms / 2), active }];
      const device = new SimulatedDevice(deviceTime({ windowMs }), loads);
      device.runUntil(2 * second);
      return device.received(1, 1140 * ms, 1200 * ms);
    };
    t.ok(bursts(400) > 95, `${bursts(400)} percent of a burst in a window of 400 ms`);
    // What it had saved in 40 ms, and then its part.
    t.ok(bursts(40) < 60, `${bursts(40)} percent in one of 40`);
    t.ok(bursts(10) < 40, `${bursts(10)} percent in one of 10`);
  },
);

t.test('whatever is charged, everyone goes on', async (t) => {
  const of = fc.record({
    request: fc.integer({ min: 0, max: 100 }),
    more: fc.integer({ min: 0, max: 100 }),
    used: fc.integer({ min: -1e9, max: 1e9 }),
    wants: fc.boolean(),
    strict: fc.boolean(),
  });
  const steps = fc.array(fc.array(of, { minLength: 1, maxLength: 8 }), { maxLength: 60 });
  const run = fc.property(steps, fc.constantFrom(deviceTime(), priority()), (steps, policy) => {
    let memory = policy.start();
    const charged = Array<bigint>(8).fill(10n ** 12n);
    const wanted = new Map<number, number>();
    for (const [step, all] of steps.entries()) {
      const sessions = all.map(({ request, more, used, wants, strict }, id) => {
        charged[id] = (charged[id] ?? 0n) + BigInt(used);
        return {
          id,
          class: strict ? ('latency-strict' as const) : ('best-effort' as const),
          shareRequest: request,
          shareLimit: Math.max(1, Math.min(100, request + more)),
          charged: charged[id] ?? 0n,
          wants,
        };
      });
      const output = policy.step({ now: BigInt(step) * 5_000_000n, sessions, memory });
      memory = output.memory;
      const wanting = sessions.filter(({ wants }) => wants);
      const free = wanting.filter(({ id, charged }) => {
        const limit = output.limits.get(id);
        return limit === null || (limit !== undefined && limit > charged);
      });
      // Only their own limits of wall time may hold all of them, or one that paused less than 40 ms ago.
      const own = wanting.some(({ shareLimit }) => shareLimit < 100);
      for (const { id } of wanting) wanted.set(id, step);
      const paused = [...wanted.values()].some((last) => last < step && step - last <= 8);
      if (!own && !paused && wanting.length > 0 && free.length === 0) {
        throw new Error('all are held');
      }
    }
  });
  t.doesNotThrow(() => fc.assert(run, { numRuns: 300 }));
});

t.test('gaps between launches do not change shares', async (t) => {
  const loads = [
    { id: 1, shareRequest: 80, kernel: every(0.01 * ms) },
    { id: 2, shareRequest: 20, kernel: every(0.01 * ms) },
  ];
  const device = new SimulatedDevice(deviceTime(), loads, 0.005 * ms);
  device.runUntil(2 * second);
  const [one, two] = [1, 2].map((id) => device.received(id, second, 2 * second)) as [
    number,
    number,
  ];
  t.ok(Math.abs(one + two - 66.7) < 1);
  t.ok(Math.abs(one / two - 4) < 0.1);
});

t.test('who waits for its own results does not make the device wait', async (t) => {
  for (const gap of [0.1, 1, 5, 10]) {
    const loads = [
      { id: 1, shareRequest: 50, kernel: every(ms), gap: gap * ms },
      { id: 2, shareRequest: 50, kernel: every(0.5 * ms) },
    ];
    const device = new SimulatedDevice(deviceTime(), loads);
    device.runUntil(2 * second);
    const both = device.received(1, second, 2 * second) + device.received(2, second, 2 * second);
    t.ok(both > 97, `${both} %`);
  }
});

t.test('priority: strict first, promises kept, the rest filled', async (t) => {
  const strict = (more: object = {}): Load => {
    return { id: 1, class: 'latency-strict', shareRequest: 0, kernel: every(0.2 * ms), ...more };
  };
  const best = (shareRequest: number): Load => {
    return { id: 2, class: 'best-effort', shareRequest, kernel: every(0.2 * ms) };
  };
  const after = (loads: Load[]) => {
    const device = new SimulatedDevice(priority(), loads);
    device.runUntil(2 * second);
    const off = worst(device, owed(loads, strictFirst), second, 2 * second);
    return { device, off, best: device.received(2, second, 2 * second) };
  };
  t.ok(after([strict(), best(0)]).off < 2, 'all to the strict one');
  t.ok(after([strict(), best(30)]).off < 2, 'but what was promised');
  t.ok(after([strict({ shareLimit: 40 }), best(0)]).off < 2, 'and what it may not use');
  t.ok(after([strict({ active: () => false }), best(0)]).best === 100);
  const slow = after([strict({ gap: 2 * ms }), best(0)]);
  t.ok(slow.best > 75, `fills up: ${slow.best} %`);
});

t.test('none: whoever launches more gets more', async (t) => {
  const device = new SimulatedDevice(none, [
    { id: 1, shareRequest: 90, kernel: every(ms) },
    { id: 2, shareRequest: 10, kernel: every(9 * ms) },
  ]);
  device.runUntil(2 * second);
  t.equal(device.held(1) + device.held(2), 0);
  t.ok(Math.abs(device.received(2, 0, 2 * second) - 90) < 1);
});

t.test(
  'a step changes nothing it was given, and the same step gives the same answer',
  async (t) => {
    for (const policy of [deviceTime(), priority()] as QuotaPolicy<unknown>[]) {
      let memory = policy.start();
      for (let step = 0; step < 20; step++) {
        const sessions = [1, 2, 3].map((id) => {
          const of = id === 2 ? ('best-effort' as const) : ('latency-strict' as const);
          const charged = BigInt(step * id * 2_000_000);
          const wants = (step + id) % 3 > 0;
          return { id, class: of, shareRequest: 20, shareLimit: 40 * id, charged, wants };
        });
        const input = { now: BigInt(step) * 5_000_000n, sessions, memory };
        const before = structuredClone(input);
        const output = policy.step(input);
        t.same(input, before);
        t.same(policy.step(input), output);
        memory = output.memory;
      }
    }
  },
);
