// HAS-GPU's hybrid scaling (its Algorithm 1): an instance's share of time first, then instances beside others of as many
// SMs on GPUs in use, then a GPU that nobody uses.
import { copyByName } from '../by-name.js';
import { type Kalman, kalmanStep, unmeasured } from '../kalman.js';
import type { ClusterPolicy, Parameters } from '../policy.js';
import { type ClusterState, type Effect, isMeasured } from '../state.js';
import { type Timings, withTiming } from '../timings.js';
import { Plan } from './has-gpu-plan.js';

export type Names =
  | 'alpha'
  | 'beta'
  | 'step'
  | 'cooldown'
  | 'occupied'
  | 'rows'
  | 'overhead'
  | 'lift'
  | 'buffer'
  | 'authors';

export interface HasGpuMemory {
  timings: Timings;
  /** By function. */
  filters: Readonly<Record<string, Kalman>>;
  /** When a function was last given less, in milliseconds. */
  reduced: Readonly<Record<string, number>>;
  /** Number of the next instance that it starts. */
  next: number;
}

const code = "not in the paper; the authors' code";

export const hasGpu: ClusterPolicy<HasGpuMemory, Names> = {
  name: 'has-gpu',
  kind: 'scaling',
  summary: "an instance's share of time first, then instances on GPUs in use, then a new GPU",
  source: { paper: 'HAS-GPU', section: 'Algorithm 1' },
  parameters: {
    alpha: {
      ...{ default: 0.9, least: 0.01, most: 1 },
      summary: 'part of the capacity above which it grows',
      source: { paper: 'HAS-GPU', section: code },
    },
    beta: {
      ...{ default: 0.3, least: 0, most: 1 },
      summary: 'part of the capacity below which it shrinks',
      source: { paper: 'HAS-GPU', section: code },
    },
    step: {
      ...{ default: 100, least: 1, most: 1000 },
      summary: 'thousandths of time that are given or taken at once',
      source: { paper: 'HAS-GPU', section: `${code}: 10 %` },
    },
    cooldown: {
      ...{ default: 10, least: 0, most: 3600 },
      summary: 'seconds after it shrank before it shrinks again',
      source: { paper: 'HAS-GPU', section: `${code}, whose comment says 20` },
    },
    occupied: {
      ...{ default: 0.95, least: 0, most: 1 },
      summary: 'part of a GPU (SMs times time) above which nobody new comes',
      source: { paper: 'HAS-GPU', section: code },
    },
    rows: {
      ...{ default: 2, least: 1, most: 100 },
      summary: 'different parts of SMs that instances of a GPU may have',
      source: { paper: 'HAS-GPU', section: code },
    },
    overhead: {
      ...{ default: 0, least: 0, most: 10_000 },
      summary: 'milliseconds of a request that the GPU has no part in',
      source: { paper: 'HAS-GPU', section: `${code}: 70` },
    },
    lift: {
      ...{ default: 1, least: 0, most: 10 },
      summary: 'standard deviations by which the forecast is lifted',
      source: { paper: 'HAS-GPU', section: code },
    },
    buffer: {
      ...{ default: 5, least: 0, most: 1e6 },
      summary: 'requests a second by which it is above what was measured, at least',
      source: { paper: 'HAS-GPU', section: code },
    },
    authors: {
      ...{ default: 0, least: 0, most: 1 },
      summary: '1: as the authors decide, with their faults; to replay their logs',
      source: { paper: 'HAS-GPU', section: code },
    },
  },
  start: () => ({ timings: {}, filters: {}, reduced: {}, next: 1_000_000 }),
  decide: ({ state, events, memory, parameters }) => {
    let { timings, next } = memory;
    const filters = copyByName(memory.filters);
    const reduced = copyByName(memory.reduced);
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.kind === 'timed') timings = withTiming(timings, event);
      if (event.kind !== 'rate' || !isMeasured(event)) continue;
      const { name } = event;
      const { lift, buffer } = parameters;
      const options = { lift, buffer, feedback: parameters.authors >= 1 };
      const measured = (1000 * event.requests) / event.period;
      const step = kalmanStep(filters[name] ?? unmeasured, measured, options);
      filters[name] = step.filter;
      const plan = new Plan(state, name, timings, parameters, next);
      const some = scale(state, plan, step.forecast, parameters, reduced[name]);
      if (some.shrank) reduced[name] = state.now;
      next = plan.next;
      effects.push(...some.effects);
    }
    return { effects, memory: { timings, filters, reduced, next } };
  },
};

function scale(
  { now }: ClusterState,
  plan: Plan,
  forecast: number,
  { alpha, beta, cooldown, authors }: Parameters<Names>,
  last: number | undefined,
): { effects: readonly Effect[]; shrank: boolean } {
  // Nothing runs, or nothing is known of how fast that is: there is no plan to make.
  if (plan.count === 0) return { effects: [], shrank: false };
  const { capacity } = plan;
  if (capacity === null) return { effects: [], shrank: false };
  if (forecast > alpha * capacity) {
    plan.grow(forecast - alpha * capacity);
    return {
      effects: plan.effects(`${forecast.toFixed(1)} requests a second are expected`),
      shrank: false,
    };
  }
  // A clock that went back does not make it wait for ever.
  const cool = last === undefined || now < last || now - last >= 1000 * cooldown;
  if (forecast < beta * capacity && cool) {
    plan.shrink(alpha * capacity - forecast, authors >= 1);
    const effects = plan.effects(
      `no more than ${forecast.toFixed(1)} requests a second are expected`,
    );
    return { effects, shrank: effects.length > 0 };
  }
  return { effects: [], shrank: false };
}
