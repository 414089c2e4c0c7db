// Who comes when, and on what: one experiment, for the real server and the simulated one.
import { Random } from '../server/random.js';
import { type Workload, workloads } from './workloads.js';

export interface Arrival {
  /** Seconds, of the paper's time. */
  at: number;
  workload: Workload;
}

export interface Setting {
  load: 'heavy' | 'low' | 'four';
  gpus: number;
  /** API servers per GPU: 1 is without sharing. */
  servers: number;
  policy: 'best-fit' | 'worst-fit';
}

/** Mean seconds between two arrivals: the paper's heavy load, and the low one of the authors' code. */
const gaps = { heavy: 2, low: 3 } as const;

/** Ten of each in random order, with exponential gaps. The numbers are our own (day/random.ts). */
export function arrivals(load: Setting['load'], seed: number): Arrival[] {
  if (load === 'four') {
    return ['nlp', 'nlp', 'resnet', 'resnet'].map((name) => ({ at: 0, workload: named(name) }));
  }
  const random = new Random(seed);
  const order = random.shuffle(workloads.flatMap((one) => Array.from({ length: 10 }, () => one)));
  let at = 0;
  return order.map((workload, index) => {
    if (index > 0) at += random.exponential(gaps[load]);
    return { at, workload };
  });
}

/** Without sharing there is nothing to fit together: one policy stands for both. */
export function settings(): Setting[] {
  const all: Setting[] = [];
  for (const load of ['heavy', 'low'] as const) {
    for (const gpus of [2, 4]) {
      all.push({ load, gpus, servers: 1, policy: 'worst-fit' });
      all.push({ load, gpus, servers: 2, policy: 'best-fit' });
      all.push({ load, gpus, servers: 2, policy: 'worst-fit' });
    }
  }
  return all;
}

export const fourSettings: readonly Setting[] = [
  { load: 'four', gpus: 2, servers: 1, policy: 'worst-fit' },
  { load: 'four', gpus: 2, servers: 2, policy: 'worst-fit' },
  { load: 'four', gpus: 2, servers: 2, policy: 'best-fit' },
];

function named(name: string): Workload {
  const found = workloads.find((one) => one.name === name);
  if (!found) throw new Error(`no workload ${name}`);
  return found;
}

/** What became of one function, in seconds of the paper's time. */
export interface Done {
  workload: string;
  gpu: number;
  arrived: number;
  /** From its arrival until it had an API server. */
  waited: number;
  ended: number;
}

export interface Result {
  /** Until all are done, from the first arrival. */
  done: number;
  /** Mean wait for an API server. */
  queue: number;
  /** Of it, what is left when preparation is over: that is what a function stands still for. */
  blocked: number;
  /** Mean time from arrival to end. */
  whole: number;
  /** The same of ResNet, of which the paper tells. */
  resnet: { queue: number; blocked: number; whole: number };
}

export function resultOf(all: readonly Done[]): Result {
  const of = (some: readonly Done[]) => ({
    queue: mean(some.map(({ waited }) => waited)),
    blocked: mean(
      some.map(({ waited, workload }) => Math.max(0, waited - named(workload).prepare)),
    ),
    whole: mean(some.map(({ arrived, ended }) => ended - arrived)),
  });
  const done = Math.max(...all.map(({ ended }) => ended));
  return { done, ...of(all), resnet: of(all.filter(({ workload }) => workload === 'resnet')) };
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, one) => sum + one, 0) / Math.max(1, values.length);
}
