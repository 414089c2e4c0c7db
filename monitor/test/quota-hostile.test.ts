// Sessions that lie, or wait for what never comes, beside one that works: what it keeps of its share.
import t from 'tap';
import { deviceTime } from '../policies/quota/device-time.js';
import { QuotaLoop } from '../src/quota-runner-loop.js';
import { MemoryPage, noCounts } from '../src/token-view.js';
import { SimulatedDevice } from './support/simulated-device.js';

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
    const of = { class: 'latency-strict' as const, shareRequest, shareLimit: 100 };
    loop.place(now, { session, gpu: 0, page: `slot ${session}`, ...of });
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
    const device = new SimulatedDevice(deviceTime, loads, gap * ms);
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
