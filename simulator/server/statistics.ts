// What a simulation came to, in the figures that policies are compared by.
import type { SessionClass } from '../../monitor/policies/state.js';
import type { Outcome, Simulation } from './simulation.js';

export interface Summary {
  policy: string;
  queue: string;
  skip: boolean;
  arrived: number;
  done: number;
  /** Their API server process or GPU went away under them. */
  lost: number;
  /** Of their own accord, after waiting. */
  left: number;
  refused: Record<string, number>;
  /** Seconds, of all that got a place. */
  wait: { mean: number; p50: number; p90: number; p99: number; max: number };
  /** Seconds that those of a class waited that got a place, on average; null: there were none. */
  waitOf: Record<SessionClass, number | null>;
  longestQueue: number;
  /** Parts of what there is, while there is anybody: bytes reserved, slots taken, GPUs that work. */
  memory: number;
  slots: number;
  busy: number;
  /** Seconds until the last one was done. */
  end: number;
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, one) => sum + one, 0) / values.length;
}

export function summary(simulation: Simulation): Summary {
  const { outcomes, options, gpus, arrived, longestQueue } = simulation;
  const placed = outcomes.filter(({ gpu }) => gpu !== null);
  const waits = placed.map(({ waited }) => waited);
  const ofClass = (its: SessionClass) => {
    const some = placed.filter(({ job }) => job.request.class === its);
    return some.length === 0 ? null : mean(some.map(({ waited }) => waited));
  };
  const count = (how: Outcome['how']) => outcomes.filter((one) => one.how === how).length;
  const refused: Record<string, number> = {};
  for (const { how } of outcomes) {
    if (how === 'done' || how === 'lost' || how === 'left') continue;
    refused[how] = (refused[how] ?? 0) + 1;
  }
  const end = placed.reduce((last, { at }) => Math.max(last, at), 0);
  const all = (one: (gpu: (typeof gpus)[number]) => number) =>
    gpus.reduce((sum, gpu) => sum + one(gpu), 0);
  const part = (used: number, there: number) => (end === 0 ? 0 : used / (there * end));
  return {
    policy: options.policy.name,
    queue: options.queuePolicy.name,
    skip: options.queueSkip,
    arrived,
    done: count('done'),
    lost: count('lost'),
    left: count('left'),
    refused,
    waitOf: {
      'latency-strict': ofClass('latency-strict'),
      'best-effort': ofClass('best-effort'),
    },
    wait: {
      mean: mean(waits),
      p50: quantile(waits, 0.5),
      p90: quantile(waits, 0.9),
      p99: quantile(waits, 0.99),
      max: quantile(waits, 1),
    },
    longestQueue,
    memory: part(
      all(({ spent }) => spent.memory),
      all(({ memory }) => Number(memory)),
    ),
    slots: part(
      all(({ spent }) => spent.slots),
      all(({ free }) => free.length),
    ),
    busy: part(
      all(({ spent }) => spent.busy),
      gpus.length,
    ),
    end,
  };
}
