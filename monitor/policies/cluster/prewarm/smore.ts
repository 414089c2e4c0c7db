// SMORE's prewarmer: a long and a short forecast of the next period, mixed, with a histogram where the paper has an LSTM.
import { copyByName } from '../by-name.js';
import type { ClusterPolicy, Parameters } from '../policy.js';
import { type Effect, type FunctionState, isMeasured } from '../state.js';
import { type Forecast, type Histogram, histogram } from './forecast.js';

type Names = 'mix' | 'from' | 'to' | 'long' | 'short';

interface Known {
  long: Histogram;
  short: Histogram;
  /** Requests for which containers are kept, and how many have been served since. */
  expected: number;
  served: number;
}

export type PrewarmMemory = Readonly<Record<string, Known>>;

export const smore: ClusterPolicy<PrewarmMemory, Names> = {
  name: 'smore-histogram',
  kind: 'prewarm',
  summary: 'containers for the requests that a long and a short histogram of gaps expect',
  source: { paper: 'SMORE', section: "4.3, LS-LSTM; ours: a histogram in the LSTM's place" },
  parameters: {
    mix: {
      ...{ default: 0.5, least: 0, most: 1 },
      summary: 'what the long forecast counts; the short one counts the rest',
      source: { paper: 'SMORE', section: '4.3, a' },
    },
    from: {
      ...{ default: 0.05, least: 0, most: 1 },
      summary: 'the part of all gaps that are too short for a request to be expected yet',
      source: { paper: 'SMORE', section: 'HHP: 5th percentile' },
    },
    to: {
      ...{ default: 0.9, least: 0, most: 1 },
      summary: 'the part of all gaps after which it is not expected any more',
      source: { paper: 'Dilu', section: "not in the paper; 90 in its authors' LSTH, 99 in HHP" },
    },
    long: {
      ...{ default: 1440, least: 1, most: 100_000 },
      summary: 'gaps that the long forecast remembers',
      source: { paper: 'SMORE', section: '4.3, one day of minutes' },
    },
    short: {
      ...{ default: 60, least: 1, most: 100_000 },
      summary: 'gaps that the short forecast remembers',
      source: { paper: 'SMORE', section: '4.3, one hour of minutes' },
    },
  },
  start: () => ({}),
  decide: ({ state, events, memory, parameters }) => {
    const after = copyByName(memory);
    const effects: Effect[] = [];
    const forecasts = forecastsOf(parameters);
    for (const event of events) {
      if (event.kind === 'rate') {
        const about = state.functions.get(event.name);
        if (!about || !isMeasured(event)) continue;
        const known = observe(after[event.name], event.requests, forecasts, parameters);
        after[event.name] = known;
        effects.push(warm(about, known.expected, event.period, state.now));
      } else if (event.kind === 'request served') {
        const known = after[event.request.name];
        if (!known || known.expected === 0) continue;
        const served = known.served + 1;
        const over = served >= known.expected;
        after[event.request.name] = { ...known, served, expected: over ? 0 : known.expected };
        if (over && state.functions.has(event.request.name)) effects.push(cool(event.request.name));
      }
    }
    return { effects, memory: after };
  },
};

interface Forecasts {
  long: Forecast<Histogram>;
  short: Forecast<Histogram>;
}

function forecastsOf({ from, to, long, short }: Parameters<Names>): Forecasts {
  const of = (kept: number, averaged: number) => histogram({ kept, from, to, averaged });
  return { long: of(long, 10), short: of(short, 3) };
}

/** Expects whole requests, and none where the two forecasts together do not come to half a one. */
function observe(
  known: Known | undefined,
  requests: number,
  { long, short }: Forecasts,
  { mix }: Parameters<Names>,
): Known {
  const after = {
    long: long.observe(known?.long ?? long.start(), requests),
    short: short.observe(known?.short ?? short.start(), requests),
  };
  const expected = Math.round(mix * long.next(after.long) + (1 - mix) * short.next(after.short));
  return { ...after, expected, served: 0 };
}

function warm(
  { name, solo }: FunctionState,
  expected: number,
  period: number,
  now: number,
): Effect {
  // As many as are busy at once, if the requests are spread over the period.
  const busy = (expected * (solo ?? 0)) / Math.max(1, period);
  const containers = expected > 0 ? Math.max(1, Math.ceil(busy)) : 0;
  const text =
    expected > 0 ? 'requests are expected in the next period' : 'no requests are expected';
  const reason = { text, figures: { expected } };
  return { kind: 'prewarm', name, containers, until: now + period, reason };
}

function cool(name: string): Effect {
  const reason = { text: 'as many requests have been served as were expected' };
  return { kind: 'prewarm', name, containers: 0, until: 0, reason };
}
