// SMORE's Algorithm 1: a function goes where nobody, itself included, is predicted to become slower than it bears.
import { type Degradations, learned, nothingKnown, Predictor, withPair } from '../degradation.js';
import type { ClusterPolicy, Parameters } from '../policy.js';
import { type Resources, whole } from '../resources.js';
import type { ClusterState, Effect, FunctionState } from '../state.js';

type Names = 'bound' | 'sampled' | 'fast' | 'unknown' | 'safety' | 'rate';

export interface SmoreMemory {
  model: Degradations;
  /** Decisions so far: which devices are looked at follows from it. */
  turns: number;
}

export const smore: ClusterPolicy<SmoreMemory, Names> = {
  name: 'smore',
  kind: 'placement',
  summary: 'where nobody on the device is predicted to become slower than it bears',
  source: { paper: 'SMORE', section: 'Algorithm 1; pair-wise and multi-way model' },
  parameters: {
    bound: {
      ...{ default: 0.1, least: 0, most: 10 },
      summary: 'the most by which a training job may become slower, as a part',
      source: {
        paper: 'SMORE',
        section: '5, P99 <= 10 %; ours: for jobs alone, functions have their SLO',
      },
    },
    sampled: {
      ...{ default: 0, least: 0, most: 1e6 },
      summary: 'how many devices are looked at; 0: all',
      source: { paper: 'SMORE', section: 'Algorithm 1, d; the number is not published' },
    },
    fast: {
      ...{ default: 0, least: 0, most: 1 },
      summary: '1: the first device that will do, 0: the best',
      source: { paper: 'SMORE', section: 'Algorithm 1, fast mode' },
    },
    unknown: {
      ...{ default: 0.1, least: 0, most: 10 },
      summary: 'what is assumed of a pair that was never measured, as a part',
      source: { paper: 'ours', section: 'the paper profiles no two functions beside each other' },
    },
    safety: {
      ...{ default: 2, least: 1, most: 20 },
      summary: 'weights at first, where more than two share a device',
      source: {
        paper: 'ours',
        section: '1 in the paper, with which sums are far too low in its own Fig. 3',
      },
    },
    rate: {
      ...{ default: 0.1, least: 0, most: 1 },
      summary: 'what part of an error the weights learn at once',
      source: { paper: 'ours', section: 'not published' },
    },
  },
  start: () => ({ model: nothingKnown, turns: 0 }),
  decide: ({ state, events, memory, parameters }) => {
    let { model, turns } = memory;
    const effects: Effect[] = [];
    let predictor: Predictor | null = null;
    for (const event of events) {
      if (event.kind === 'profiled') {
        model = withPair(model, event.name, event.beside, event.degradation);
        predictor = null;
      } else if (event.kind === 'measured') {
        model = learned(model, event.name, event.beside, event.degradation, parameters);
        predictor = null;
      } else if (event.kind === 'instance wanted') {
        predictor ??= new Predictor(model, parameters);
        effects.push(decide(state, event, predictor, parameters, turns++));
      }
    }
    return { effects, memory: { model, turns } };
  },
};

interface Wanted {
  instance: number;
  name: string;
  parts: readonly Resources[];
}

function decide(
  state: ClusterState,
  { instance, name, parts }: Wanted,
  predictor: Predictor,
  parameters: Parameters<Names>,
  turn: number,
): Effect {
  const [resources] = parts;
  const about = state.functions.get(name);
  const wait = (text: string): Effect => ({ kind: 'wait', instance, name, reason: { text } });
  if (!resources || parts.length !== 1) return wait('SMORE places functions of one device');
  if (!about) return wait('nothing is known of its function');
  const { devices } = state.ledger;
  const count =
    parameters.sampled > 0 ? Math.min(parameters.sampled, devices.length) : devices.length;
  let best: (Cost & { device: number }) | null = null;
  let room = false;
  for (const device of sample(devices.length, count, turn)) {
    if (!state.ledger.fits(device, resources, { sm: whole, smLimit: Number.POSITIVE_INFINITY })) {
      continue;
    }
    room = true;
    const cost = costOf(state, device, about, predictor, parameters);
    if (cost === null) continue;
    if (best === null || isBetter({ device, ...cost }, best)) best = { device, ...cost };
    if (parameters.fast >= 1) break;
  }
  if (!best) {
    return wait(room ? 'somebody would become slower than it bears' : 'no device has room');
  }
  const { device, most, sum, job } = best;
  return {
    ...{ kind: 'place', instance, name, parts: [{ device, resources }] },
    reason: {
      text: 'where the worst of predicted degradations is least',
      figures: { ofBound: most, sum, job },
    },
  };
}

interface Cost {
  /** The worst degradation as part of what that function bears. */
  most: number;
  sum: number;
  /** The worst degradation of a training job. */
  job: number;
}

function isBetter(one: Cost & { device: number }, other: Cost & { device: number }): boolean {
  if (one.most !== other.most) return one.most < other.most;
  return one.sum !== other.sum ? one.sum < other.sum : one.device < other.device;
}

/** Null: somebody would become slower than it bears. */
function costOf(
  { ledger, functions }: ClusterState,
  device: number,
  newcomer: FunctionState,
  predictor: Predictor,
  { bound }: Parameters<Names>,
): Cost | null {
  const all = [predictor.indexOf(newcomer.name)];
  const bounds = [bearable(newcomer, bound)];
  for (const instance of ledger.on(device)) {
    const { name } = ledger.entry(instance) as { name: string };
    all.push(predictor.indexOf(name));
    bounds.push(bearable(functions.get(name), bound));
  }
  let most = 0;
  let sum = 0;
  let job = 0;
  for (let self = 0; self < all.length && all.length > 1; self++) {
    const degradation = predictor.degradation(all, self);
    const bearing = bounds[self] as number;
    if (degradation > bearing) return null;
    most = Math.max(most, bearing > 0 ? degradation / bearing : 0);
    sum += degradation;
    if (bearing === bound) job = Math.max(job, degradation);
  }
  return { most, sum, job };
}

/** As a part: what a function bears. One that was never profiled is held to the bound, as a job is. */
function bearable(about: FunctionState | undefined, bound: number): number {
  if (!about || about.kind === 'training' || about.solo === null || about.solo <= 0) return bound;
  if (about.slo === null) return Number.POSITIVE_INFINITY;
  return Math.max(0, about.slo / about.solo - 1);
}

/** So many different devices of `length`, which look random and follow from the turn. */
export function sample(length: number, count: number, turn: number): Iterable<number> {
  if (count >= length) return Array(length).keys();
  return some(length, count, turn);
}

function* some(length: number, count: number, turn: number): Iterable<number> {
  const seen = new Set<number>();
  let state = (turn * 0x9e3779b9) >>> 0;
  while (seen.size < count) {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0;
    let device = (state >>> 3) % length;
    while (seen.has(device)) device = (device + 1) % length;
    seen.add(device);
    yield device;
  }
}
