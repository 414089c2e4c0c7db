// A day of six tenants at one server: who comes when, wants what, and what breaks meanwhile. Made
// of a seed, so that two policies get the same day.
import type { SessionClass } from '../../monitor/policies/state.js';
import { allowedGpus, type Tenant } from '../../monitor/src/tenants/tenants.js';
import { Random } from '../../simulator/server/random.js';
import type { Fault, Job, SimulationOptions } from '../../simulator/server/simulation.js';

const hour = 3600;
const GiB = 1n << 30n;
const MiB = 1n << 20n;

interface Kind {
  name: string;
  weight: number;
  /** MiB; null: does not say. */
  memory: number | null;
  share: { request: number; limit: number };
  /** Seconds: half of the sessions are shorter. */
  median: number;
  spread: number;
}

interface Customer {
  name: string;
  class: SessionClass;
  /** Sessions per hour on average, and the hour of the day at which there are most. */
  perHour: number;
  peak: number;
  /** Of the average: by how much the peak is above, and the trough below it. */
  swing: number;
  /** Minutes of each hour at which this many come at once. */
  burst?: { minute: number; count: number };
  patience: number | null;
  kinds: Kind[];
  limits?: Partial<Tenant['limits']>;
}

const kind = (
  name: string,
  weight: number,
  memory: number | null,
  [request, limit]: [number, number],
  [median, spread]: [number, number],
): Kind => ({ name, weight, memory, share: { request, limit }, median, spread });

const customers: Customer[] = [
  {
    ...{ name: 'shop', class: 'latency-strict', perHour: 900, peak: 14, swing: 0.9, patience: 60 },
    kinds: [
      kind('classify', 6, 1500, [10, 30], [3, 0.6]),
      kind('rank', 3, 4000, [20, 50], [6, 0.5]),
      kind('embed', 1, null, [0, 100], [12, 0.5]),
    ],
  },
  {
    ...{ name: 'bank', class: 'latency-strict', perHour: 300, peak: 10, swing: 0.8, patience: 120 },
    kinds: [
      kind('fraud', 4, 3000, [30, 60], [8, 0.4]),
      kind('scan', 1, 9000, [25, 100], [20, 0.6]),
    ],
    limits: { share: 300 },
  },
  {
    ...{ name: 'lab', class: 'best-effort', perHour: 60, peak: 22, swing: 0.6, patience: null },
    kinds: [
      kind('train', 3, 11_000, [0, 100], [140, 0.9]),
      kind('sweep', 2, 6000, [10, 100], [70, 0.8]),
      // As large as a GPU, now and then more than that.
      kind('whole', 1, 14_000, [50, 100], [60, 0.5]),
      kind('too-large', 0.1, 40_000, [0, 100], [60, 0.5]),
    ],
    limits: { sessions: 12 },
  },
  {
    ...{ name: 'news', class: 'latency-strict', perHour: 120, peak: 7, swing: 0.5, patience: 300 },
    burst: { minute: 0, count: 40 },
    kinds: [kind('caption', 1, 2500, [15, 40], [5, 0.7])],
  },
  {
    ...{ name: 'art', class: 'best-effort', perHour: 240, peak: 20, swing: 0.9, patience: 90 },
    kinds: [
      kind('paint', 3, 7000, [0, 60], [15, 0.5]),
      kind('enlarge', 1, 5000, [20, 80], [9, 0.4]),
    ],
    limits: { memory: 48n * GiB },
  },
  {
    ...{ name: 'clinic', class: 'latency-strict', perHour: 80, peak: 11, swing: 1, patience: null },
    kinds: [kind('segment', 1, 10_000, [40, 100], [25, 0.4])],
    // Its data must not be on the other machines' GPUs.
    limits: { gpus: [0, 1] },
  },
];

export interface Day {
  options: Pick<SimulationOptions, 'gpus' | 'tenants'>;
  jobs: Job[];
  faults: Fault[];
}

export interface DayOptions {
  hours: number;
  gpus: number;
  slots: number;
  seed: number;
}

export function makeDay({ hours, gpus: count, slots, seed }: DayOptions): Day {
  const random = new Random(seed);
  const gpus = Array.from({ length: count }, () => ({ memory: 15n * GiB, slots }));
  const tenants = new Map(customers.map((one) => [one.name, tenantOf(one)]));
  const known = gpus.map((_, index) => ({ index, uuid: `GPU-${index}` }));
  const jobs = customers.flatMap((customer) => {
    const tenant = tenantOf(customer);
    const allowed = allowedGpus(tenant, known);
    return arrivals(customer, hours * hour, random).map((at) => job(customer, allowed, at, random));
  });
  jobs.sort((one, other) => one.arrives - other.arrives);
  return { options: { gpus, tenants }, jobs, faults: faults(hours, count, slots, random) };
}

function tenantOf({ name, class: kind, limits }: Customer): Tenant {
  const times = { kernelSeconds: null, idleSeconds: null, graceDisconnectedSeconds: null };
  const none = { sessions: null, memory: null, share: null, ...times, gpus: null };
  const nothing = { accessTokens: [], certificates: [], expires: null };
  const may = { uploadCache: false, moves: true };
  return { name, class: kind, ...nothing, ...may, limits: { ...none, ...limits } };
}

/** A Poisson process whose rate is a wave over the day: of those of the highest rate, a part is kept. */
function arrivals({ perHour, peak, swing, burst }: Customer, end: number, random: Random) {
  const most = (perHour * (1 + swing)) / hour;
  const times: number[] = [];
  for (let at = random.exponential(1 / most); at < end; at += random.exponential(1 / most)) {
    const phase = (2 * Math.PI * (at / hour - peak)) / 24;
    const part = (1 + swing * Math.cos(phase)) / (1 + swing);
    if (random.uniform() < part) times.push(at);
  }
  for (let at = (burst?.minute ?? 0) * 60; burst && at < end; at += hour) {
    for (let i = 0; i < burst.count; i++) times.push(at + random.uniform());
  }
  return times;
}

function job(
  { name: tenant, class: kind, patience, kinds }: Customer,
  allowed: readonly number[] | null,
  arrives: number,
  random: Random,
): Job {
  const { name, memory, share, median, spread } = random.choose(kinds);
  return {
    arrives,
    request: {
      ...{ tenant, name, class: kind, gpus: 1, allowed },
      memory: memory === null ? null : BigInt(memory) * MiB,
      shareRequest: share.request,
      shareLimit: share.limit,
    },
    prepare: 0,
    work: random.logNormal(median, spread),
    patience,
  };
}

/** A process dies every ten minutes, one of ten while it is given a session; GPUs fail twice a day. */
function faults(hours: number, gpus: number, slots: number, random: Random): Fault[] {
  const end = hours * hour;
  const all: Fault[] = [];
  for (let at = random.exponential(600); at < end; at += random.exponential(600)) {
    const gpu = random.below(gpus);
    if (random.uniform() < 0.1) all.push({ at, kind: 'hand-over' });
    else all.push({ at, kind: 'slot', gpu, slot: random.below(slots) });
  }
  for (let at = random.exponential(12 * hour); at < end; at += random.exponential(12 * hour)) {
    all.push({ at, kind: 'gpu', gpu: random.below(gpus), seconds: random.between(60, 1800) });
  }
  return all;
}
