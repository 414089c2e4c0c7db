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

export function summary(simulation: Simulation): Summary {
  const { tally, options, gpus, arrived, longestQueue } = simulation;
  const { waits, end } = tally;
  const count = (how: Outcome['how']) => tally.how.get(how) ?? 0;
  const refused: Record<string, number> = {};
  for (const [how, many] of tally.how) {
    if (how !== 'done' && how !== 'lost' && how !== 'left') refused[how] = many;
  }
  const [p50 = 0, p90 = 0, p99 = 0] = waits.quantiles([0.5, 0.9, 0.99]);
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
      'latency-strict': tally.waitOf('latency-strict'),
      'best-effort': tally.waitOf('best-effort'),
    },
    wait: { mean: waits.mean, p50, p90, p99, max: waits.longest },
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
