// PROTEAN's scaling: as many containers as the requests of a window make batches, given back ten minutes later.
import { copyByName } from '../by-name.js';
import type { ClusterPolicy } from '../policy.js';
import { type Effect, isMeasured } from '../state.js';

type Names = 'delay';

interface Known {
  /** Containers that there should be, as far as was said. */
  count: number;
  /** What was needed, [milliseconds, containers]: the largest of the last minutes counts. */
  needed: readonly (readonly [at: number, count: number])[];
}

export type ProteanScalingMemory = Readonly<Record<string, Known>>;

export const protean: ClusterPolicy<ProteanScalingMemory, Names> = {
  name: 'protean',
  kind: 'scaling',
  summary: 'a container for each batch of a window, given back after ten minutes without need',
  source: { paper: 'PROTEAN', section: '4.2, reactive scale-up and delayed termination' },
  parameters: {
    delay: {
      ...{ default: 600, least: 0, most: 86_400 },
      summary: 'seconds for which containers are kept that are not needed',
      source: { paper: 'PROTEAN', section: '4.2, about 10 minutes' },
    },
  },
  start: () => ({}),
  decide: ({ state: { now, functions }, events, memory, parameters: { delay } }) => {
    const after = copyByName(memory);
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.kind !== 'rate' || !isMeasured(event)) continue;
      const about = functions.get(event.name);
      if (!about) continue;
      const requests = event.requests > 0 ? event.requests : 0;
      const count = Math.ceil(requests / Math.max(1, about.batch));
      const known = after[event.name] ?? { count: 0, needed: [] };
      // A clock that went back leaves what is in its future out.
      const young = known.needed.filter(([at]) => now - at < 1000 * delay && at <= now);
      // Of those before it, only larger ones can still be the largest.
      const larger = young.filter(([, before]) => before > count);
      const needed = [...larger, [now, count] as const];
      const wanted = needed.reduce((most, [, one]) => Math.max(most, one), 0);
      after[event.name] = { count: wanted, needed };
      const by = wanted - known.count;
      if (by === 0) continue;
      const text =
        by > 0 ? 'the requests of the window make more batches' : 'not needed for so long';
      effects.push({ kind: 'scale', name: event.name, by, reason: { text, figures: { wanted } } });
    }
    return { effects, memory: after };
  },
};
