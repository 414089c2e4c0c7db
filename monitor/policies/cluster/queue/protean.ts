// PROTEAN's queue: strict requests before best-effort ones, each class in order of arrival, in batches of one function.
import type { ClusterPolicy } from '../policy.js';
import type { Effect, FunctionState, RequestState } from '../state.js';

type Names = 'patience' | 'guard';

export const protean: ClusterPolicy<null, Names> = {
  name: 'protean',
  kind: 'queue',
  summary: 'strict requests before best-effort ones, in batches of one function',
  source: { paper: 'PROTEAN', section: '4.1, reordering and batching' },
  parameters: {
    patience: {
      ...{ default: 50, least: 0, most: 60_000 },
      summary: 'milliseconds that a batch waits to be full, or less where a deadline is near',
      source: { paper: 'ours', section: 'not in the paper' },
    },
    guard: {
      ...{ default: 0, least: 0, most: 3_600_000 },
      summary: 'milliseconds after which a best-effort request counts as strict; 0: never',
      source: { paper: 'ours', section: 'the paper lets best-effort requests starve' },
    },
  },
  start: () => null,
  decide: ({ state: { now, waiting, functions }, parameters: { patience, guard } }) => {
    const isStrict = (one: RequestState) =>
      one.class === 'strict' || (guard > 0 && now - one.arrived >= guard);
    const strict = waiting.filter(isStrict);
    const rest = waiting.filter((one) => !isStrict(one));
    const effects: Effect[] = [];
    for (const [batchClass, some] of [
      ['strict', strict],
      ['best-effort', rest],
    ] as const) {
      for (const [name, requests] of byFunction(some)) {
        const about = functions.get(name);
        const size = Math.max(1, about?.batch ?? 1);
        for (let from = 0; from < requests.length; from += size) {
          const part = requests.slice(from, from + size);
          const full = part.length === size;
          if (!full && !isDue(part, about, now, patience)) continue;
          const text = full ? 'the batch is full' : 'its first request cannot wait any longer';
          const ids = part.map(({ id }) => id);
          effects.push({ kind: 'batch', name, class: batchClass, requests: ids, reason: { text } });
        }
      }
    }
    return { effects, memory: null };
  },
};

/** In the order in which the first of each came. */
function byFunction(requests: readonly RequestState[]): Map<string, RequestState[]> {
  const groups = new Map<string, RequestState[]>();
  for (const request of requests) {
    const group = groups.get(request.name);
    if (group) group.push(request);
    else groups.set(request.name, [request]);
  }
  return groups;
}

function isDue(
  requests: readonly RequestState[],
  about: FunctionState | undefined,
  now: number,
  patience: number,
): boolean {
  return requests.some(({ arrived, deadline }) => {
    const latest = deadline === null ? Number.POSITIVE_INFINITY : deadline - (about?.solo ?? 0);
    return now >= Math.min(arrived + patience, latest);
  });
}
