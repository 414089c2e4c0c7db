// Dilu's baseline that reserves limits: what INFless does, as the authors of Dilu have written it.
import type { ClusterPolicy } from '../policy.js';
import { whole } from '../resources.js';
import { decideBy, gamma, type Rules } from './authors.js';

export const inflessL: ClusterPolicy<null, 'gamma'> = {
  name: 'infless-l',
  kind: 'placement',
  summary:
    'limits are reserved as if they were requests; best fit by SMs alone (INFless, as Dilu compares it)',
  source: { paper: 'Dilu', section: "Fig. 17, INFless-l; the authors' code" },
  parameters: { gamma },
  start: () => null,
  decide: ({ state, events, parameters: { gamma } }) => {
    const bounds = { sm: whole, smLimit: Math.floor(gamma * whole) };
    const rules: Rules = {
      bounds,
      counted: (resources) => ({ ...resources, sm: resources.smLimit }),
      ...{ alpha: 1, beta: 0, splits: false },
    };
    return decideBy(rules, state, events);
  },
};
