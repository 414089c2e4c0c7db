// Whole devices for each instance, which is what Kubernetes gives: Dilu's baseline Exclusive.
import type { ClusterPolicy } from '../policy.js';
import { whole } from '../resources.js';
import { decideBy, gamma, type Rules } from './authors.js';

export const exclusive: ClusterPolicy<null, 'gamma'> = {
  name: 'exclusive',
  kind: 'placement',
  summary: 'each instance has its devices for itself',
  source: { paper: 'Dilu', section: "Fig. 17, Exclusive; the authors' code" },
  parameters: { gamma },
  start: () => null,
  decide: ({ state, events, parameters: { gamma } }) => {
    const bounds = { sm: whole, smLimit: Math.floor(gamma * whole) };
    const rules: Rules = {
      bounds,
      counted: (resources) => resources,
      ...{ alpha: 1, beta: 0, splits: false, exclusive: true },
    };
    return decideBy(rules, state, events);
  },
};
