// Sessions that lie, or wait for what never comes, beside one that works: what it keeps of its share.
import t from 'tap';
import { deviceTime } from '../../policies/quota/device-time.js';
import { MemoryPage, noCounts } from '../../src/quota/page-view.js';
import { QuotaLoop } from '../../src/quota/runner-loop.js';
import { SimulatedDevice } from '../support/simulated-device.js';

const period = 5_000_000n;
const second = 200;
const shares: [hostile: number, victim: number][] = [
  [0, 50],
  [0, 0],
  [50, 50],
];

type Hostile = (page: MemoryPage, step: number, victimWants: boolean) => bigint;

interface Scene {
  policy?: string;
  /** What the victim can use in a period. */
  most?: bigint;
  wants?: (step: number) => boolean;
  steps: number;
}

const room = ({ limit, counts }: MemoryPage) =>
  limit > counts.charged ? limit - counts.charged : 0n;
const least = (...values: bigint[]) => values.reduce((one, two) => (one < two ? one : two));

/** The part of its own wanted periods' time that the victim had. */
function victimHas(hostile: Hostile, [request, promised]: [number, number], scene: Scene): number {
  const { policy = 'device-time', most = period, wants = () => true, steps } = scene;
  const loop = new QuotaLoop(policy, () => {});
  const [one, two] = [new MemoryPage(), new MemoryPage()];
  let now = 1_000_000_000n;
  for (const [page, session, shareRequest] of [
    [one, 1, request],
    [two, 2, promised],
  ] as const) {
    loop.addPage(`slot ${session}`, page);
    const of = { class: 'latency-strict' as const, shareRequest, shareLimit: 100, tenant: '' };
    loop.place(now, { session, gpu: 0, page: `slot ${session}`, measured: true, ...of });
    page.counts = { ...noCounts, session: BigInt(session), counted: BigInt(session) };
  }
  one.counts.held = 1n;
  let [had, wanted] = [0n, 0n];
  for (let step = 0; step < steps; step++) {
    now += period;
    const wanting = wants(step);
    const taken = hostile(one, step, wanting);
    const used = wanting ? least(room(two), most, period - taken) : 0n;
    two.counts.charged += used;
    two.counts.held = wanting ? 1n : 0n;
    had += used;
    if (wanting) wanted += most;
    loop.tick(now);
  }
  return Number(had) / Number(wanted);
}

const policies = ['device-time', 'priority'];

/** Its first kernels run; then one waits for a value that nobody writes. */
const stuck: Hostile = ({ counts }) => {
  counts.inflightNs = 200_000n;
  return 0n;
};

const trickle: Hostile = (page, step) => {
  page.counts.inflightNs = 200_000n;
  if (step % 7 > 0 || room(page) === 0n) return 0n;
  page.counts.charged += 10_000n;
  return 10_000n;
};

for (const [name, hostile] of Object.entries({ stuck, trickle })) {
  t.test(`a session that wants and does not work holds up nobody: ${name}`, async (t) => {
    for (const policy of policies) {
      for (const share of shares) {
        const part = victimHas(hostile, share, { policy, steps: 20 * second });
        t.ok(part > 0.95, `${policy}, ${share}: ${part}`);
      }
    }
  });
}

t.test('nor one that leaves gaps itself', async (t) => {
  for (const share of shares) {
    const part = victimHas(stuck, share, { most: period / 2n, steps: 20 * second });
    t.ok(part > 0.9, `${share}: ${part}`);
  }
});

t.test('a prediction that was far too high, and is corrected, is no credit', async (t) => {
  const wants = (step: number) => step % 40 >= 4;
  const fair: Hostile = (page, _, victim) => {
    const used = least(room(page), victim ? period / 2n : period);
    page.counts.charged += used;
    return used;
  };
  const lies = (predicted: bigint): Hostile => {
    let open = false;
    return (page, step, victim) => {
      if (open) {
        open = false;
        page.counts.charged -= predicted - period;
        page.counts.inflightNs = 0n;
        return period;
      }
      if (step < 20 || step % 40 !== 3 || room(page) === 0n) return fair(page, step, victim);
      open = true;
      page.counts.charged += predicted;
      page.counts.inflightNs = predicted;
      return 0n;
    };
  };
  for (const share of shares) {
    const usual = victimHas(fair, share, { wants, steps: 30 * second });
    for (const predicted of [1_000_000_000n, 3_600_000_000_000n]) {
      const part = victimHas(lies(predicted), share, { wants, steps: 30 * second });
      t.ok(part > usual - 0.05, `${share}, ${predicted} ns: ${part} of ${usual}`);
    }
  }
});

t.test('a count that jumps, or falls and falls, takes nothing from others', async (t) => {
  const jumps: Hostile = ({ counts }, step) => {
    if (step === 100) counts.charged = 1n << 60n;
    if (step === 101) counts.charged = 0n;
    return 0n;
  };
  const falls: Hostile = ({ counts }, step) => {
    if (step === 0) counts.charged = 1n << 62n;
    counts.charged -= 100_000_000_000n;
    return 0n;
  };
  for (const share of shares) {
    for (const hostile of [jumps, falls]) {
      const part = victimHas(hostile, share, { steps: 20 * second });
      t.ok(part > 0.95, `${share}: ${part}`);
    }
  }
});

t.test('many that leave gaps are not taken for one that does not work', async (t) => {
  const ms = 1e6;
  for (const [gap, ...requests] of [
    [0.005, 10, 10, 10, 10, 10, 10, 10, 30],
    [0.05, 60, 10, 10, 10, 10],
    [0.02, 80, 20],
  ] as [number, ...number[]][]) {
    const kernel = () => (gap === 0.05 ? 0.05 : 0.01) * ms;
    const loads = requests.map((shareRequest, id) => ({ id, shareRequest, kernel }));
    const device = new SimulatedDevice(deviceTime(), loads, gap * ms);
    device.runUntil(4000 * ms);
    const had = requests.map((_, id) => device.received(id, 2000 * ms, 4000 * ms));
    const all = had.reduce((sum, one) => sum + one, 0);
    const asked = requests.reduce((sum, one) => sum + one, 0);
    requests.forEach((request, id) => {
      const off = Math.abs((100 * (had[id] ?? 0)) / all - (100 * request) / asked);
      t.ok(off < 2, `${requests}: ${id} is ${off} off`);
    });
  }
});

/** What one of several sessions does in a period: it uses so much of what is left of the device. */
interface Part {
  request: number;
  limit?: number;
  tenant?: string;
  wants: (step: number) => boolean;
  /** Beside its work, for who lies: changes what is charged. */
  lie?: (page: MemoryPage, step: number) => void;
}

/** By session: the part of the device it had from a step on, and the longest it waited, in steps. */
function together(parts: readonly Part[], from: number, steps: number) {
  const loop = new QuotaLoop('device-time', () => {});
  let now = 1_000_000_000n;
  const sessions = parts.map((part, index) => {
    const page = new MemoryPage();
    loop.addPage(`${index}`, page);
    const { request: shareRequest, limit: shareLimit = 100, tenant = `tenant ${index}` } = part;
    const of = { class: 'latency-strict' as const, shareRequest, shareLimit, tenant };
    loop.place(now, { session: index + 1, gpu: 0, page: `${index}`, measured: true, ...of });
    page.counts = { ...noCounts, session: BigInt(index + 1), counted: BigInt(index + 1) };
    return { part, page, had: 0n, waits: 0, longest: 0 };
  });
  const slice = period / 10n;
  for (let step = 0; step < steps; step++) {
    now += period;
    const working = sessions.filter(({ part }) => part.wants(step));
    const before = sessions.map(({ had }) => had);
    for (let left = period, turn = step; left > 0n; left -= slice, turn++) {
      const may = working.filter(({ page }) => room(page) > 0n);
      const one = may[turn % Math.max(1, may.length)];
      if (!one) break;
      one.page.counts.charged += slice;
      one.had += slice;
    }
    for (const [index, one] of sessions.entries()) {
      one.page.counts.held = working.includes(one) ? 1n : 0n;
      one.waits = working.includes(one) && one.had === before[index] ? one.waits + 1 : 0;
      if (step >= from) one.longest = Math.max(one.longest, one.waits);
      if (step < from) one.had = 0n;
      one.part.lie?.(one.page, step);
    }
    loop.tick(now);
  }
  return sessions.map(({ had, longest }) => ({
    part: Number(had) / Number(period * BigInt(steps - from)),
    longest,
  }));
}

t.test('what one owes the next is no debt of a third', async (t) => {
  const at = 2 * second;
  for (const hour of [10_000_000_000n, 1n << 60n]) {
    for (const refunded of [true, false]) {
      for (const [requests, limit] of [
        [[0, 0, 30], 100],
        [[0, 0, 50], 100],
        [[33, 33, 33], 100],
        [[0, 0, 30], 40],
      ] as [number[], number][]) {
        for (let phase = 0; phase < 8; phase += 3) {
          const wants = (step: number) => (step + phase) % 8 < 4;
          const lie = ({ counts }: MemoryPage, step: number) => {
            if (step === at) counts.charged += hour;
            counts.inflightNs = step === at || step === at + 1 ? 1n : 0n;
            if (step === at + 2 && refunded) counts.charged -= hour;
          };
          const [liar = 0, friend = 0, victim = 0] = requests;
          const scene = (honest: boolean): Part[] => [
            { request: liar, wants: () => false, ...(honest ? {} : { lie }) },
            { request: friend, wants: () => true },
            { request: victim, limit, wants },
          ];
          const usual = together(scene(true), at + 10, 6 * second)[2];
          const had = together(scene(false), at + 10, 6 * second)[2];
          const what = `${hour} ns, ${refunded}, ${requests}, ${limit}, ${phase}`;
          t.ok((had?.part ?? 0) > (usual?.part ?? 1) * 0.9, `${what}: ${had?.part} ${usual?.part}`);
          t.ok((had?.longest ?? 99) <= 8, `${what}: waited ${had?.longest} steps`);
        }
      }
    }
  }
});

t.test('a new session for each long kernel has no more time than one session', async (t) => {
  const long = period * 100n;
  for (const reconnects of [false, true]) {
    const loop = new QuotaLoop('device-time', () => {});
    const [one, two] = [new MemoryPage(), new MemoryPage()];
    let now = 1_000_000_000n;
    let id = 1;
    const begin = (page: MemoryPage, name: string, session: number, shareRequest: number) => {
      const of = { class: 'latency-strict' as const, shareRequest, shareLimit: 100 };
      page.counts = { ...noCounts, session: BigInt(session), counted: BigInt(session) };
      loop.place(now, { session, gpu: 0, page: name, tenant: name, measured: true, ...of });
      page.counts.held = 1n;
    };
    loop.addPage('one', one);
    loop.addPage('two', two);
    begin(one, 'one', id, 0);
    begin(two, 'two', 1_000_000, 80);
    let [hers, his] = [0n, 0n];
    for (let left = 0n, step = 0; step < 60 * second; step++) {
      now += period;
      if (left > 0n) {
        left -= period;
        his += period;
      } else if (room(one) > 0n) {
        // Its kernel takes the device until it is done; the session may end at once.
        if (reconnects && one.counts.charged > 0n) {
          loop.end(id);
          begin(one, 'one', ++id, 0);
        }
        if (room(one) > 0n) {
          one.counts.charged += long;
          left = long;
        }
      } else if (reconnects && one.counts.charged > 0n) {
        loop.end(id);
        begin(one, 'one', ++id, 0);
      }
      if (left === 0n) {
        const used = least(room(two), period);
        two.counts.charged += used;
        hers += used;
      }
      loop.tick(now);
    }
    const part = Number(his) / Number(his + hers);
    t.ok(part < 0.3, `${reconnects ? 'reconnects' : 'stays'}: ${part}`);
    t.ok(hers > 0n, 'the other works');
  }
});
