// Dilu's lazy scaling out and in: only where many of the last seconds had more, or less, than the instances serve.
import { copyByName } from '../by-name.js';
import type { ClusterPolicy } from '../policy.js';
import { type Effect, isMeasured } from '../state.js';

type Names = 'window' | 'out' | 'in';

/** By function: requests a second of the last seconds, newest last. */
export type DiluScalingMemory = Readonly<Record<string, readonly number[]>>;

export const dilu: ClusterPolicy<DiluScalingMemory, Names> = {
  name: 'dilu',
  kind: 'scaling',
  summary:
    'one instance more or fewer where many of the last seconds had more or less than they serve',
  source: { paper: 'Dilu', section: '4.4, 2-D co-scaling' },
  parameters: {
    window: {
      ...{ default: 40, least: 1, most: 3600 },
      summary: 'periods that are looked at, of a second each',
      source: { paper: 'Dilu', section: '5.1' },
    },
    out: {
      ...{ default: 20, least: 1, most: 3600 },
      summary: 'so many of them above what all serve, and there is one more',
      source: { paper: 'Dilu', section: '5.1, phi_out' },
    },
    in: {
      ...{ default: 30, least: 1, most: 3600 },
      summary: 'so many of them below what all but one serve, and there is one fewer',
      source: { paper: 'Dilu', section: '5.1, phi_in' },
    },
  },
  start: () => ({}),
  decide: ({ state: { ledger, functions }, events, memory, parameters }) => {
    const after = copyByName(memory);
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.kind !== 'rate' || !isMeasured(event)) continue;
      const { name } = event;
      const about = functions.get(name);
      // Of one that was never profiled nobody knows what it serves.
      if (!about?.solo) continue;
      const serves = (1000 * about.batch) / about.solo;
      const requests = event.requests > 0 ? event.requests : 0;
      const rates = [...(after[name] ?? []), (1000 * requests) / event.period].slice(
        -parameters.window,
      );
      const count = ledger.of(name).size;
      const above = rates.filter((rate) => rate > count * serves).length;
      const below = rates.filter((rate) => rate < (count - 1) * serves).length;
      const by = above >= parameters.out ? 1 : count > 1 && below >= parameters.in ? -1 : 0;
      // After a step all begins anew: what was seen was seen of other instances.
      after[name] = by === 0 ? rates : [];
      if (by === 0) continue;
      const text = by > 0 ? 'more than all serve, for long' : 'all but one would do, for long';
      const figures = { above, below, count };
      effects.push({ kind: 'scale', name, by, reason: { text, figures } });
    }
    return { effects, memory: after };
  },
};
