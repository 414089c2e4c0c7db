// SMORE's order of the queue: first those functions that use much of a GPU for little degradation (its Eq. 5).
import { type Degradations, nothingKnown, Predictor, withPair } from '../degradation.js';
import type { ClusterPolicy } from '../policy.js';
import { whole } from '../resources.js';
import type { Effect, RequestState } from '../state.js';

type Names = 'age' | 'floor' | 'unknown';

export const smore: ClusterPolicy<Degradations, Names> = {
  name: 'smore',
  kind: 'queue',
  summary: 'functions first that use much of a GPU and slow its training job down little',
  source: { paper: 'SMORE', section: 'Eq. 5' },
  parameters: {
    age: {
      ...{ default: 1, least: 0, most: 1e6 },
      summary: 'priority that a request gains in each second of waiting, so that none starves',
      source: { paper: 'ours', section: 'not in the paper' },
    },
    floor: {
      ...{ default: 0.01, least: 1e-6, most: 1 },
      summary: 'the least degradation that is divided by',
      source: { paper: 'ours', section: 'the paper divides by 0 where there is none' },
    },
    unknown: {
      ...{ default: 0.1, least: 0, most: 10 },
      summary: 'what is assumed of a pair that was never measured, as a part',
      source: { paper: 'ours', section: 'not in the paper' },
    },
  },
  needs: { placement: ['smore'] },
  start: () => nothingKnown,
  decide: ({ state, events, memory, parameters: { age, floor, unknown } }) => {
    let model = memory;
    for (const event of events) {
      if (event.kind !== 'profiled') continue;
      model = withPair(model, event.name, event.beside, event.degradation);
    }
    const { now, waiting, functions } = state;
    const hopeless = waiting.filter(({ name, deadline }) => {
      return deadline !== null && now + (functions.get(name)?.solo ?? 0) > deadline;
    });
    const effects: Effect[] = [];
    if (hopeless.length > 0) {
      const reason = { text: 'their deadlines have passed, or would before they end' };
      effects.push({ kind: 'drop', requests: hopeless.map(({ id }) => id), reason });
    }
    const left = waiting.filter((request) => !hopeless.includes(request));
    if (left.length === 0) return { effects, memory: model };
    const predictor = new Predictor(model, { unknown, safety: 1, rate: 0 });
    const jobs = [...functions.values()].filter(({ kind }) => kind === 'training');
    const worth = new Map<string, number>();
    const worthOf = (name: string) => {
      const known = worth.get(name);
      if (known !== undefined) return known;
      const self = predictor.indexOf(name);
      const harm = jobs.map((job) => predictor.pair(predictor.indexOf(job.name), self));
      const mean = harm.reduce((sum, one) => sum + one, 0) / Math.max(1, harm.length);
      const value = (functions.get(name)?.resources.sm ?? 0) / whole / Math.max(floor, mean);
      worth.set(name, value);
      return value;
    };
    const priority = ({ name, arrived }: RequestState) =>
      worthOf(name) + (age * Math.max(0, now - arrived)) / 1000;
    const ranked = left.map((request) => ({ request, rank: priority(request) }));
    ranked.sort((one, other) => other.rank - one.rank || one.request.id - other.request.id);
    const requests = ranked.map(({ request }) => request.id);
    const reason = { text: 'most use of a GPU for least degradation, and who has waited long' };
    return { effects: [...effects, { kind: 'order', requests, reason }], memory: model };
  },
};
