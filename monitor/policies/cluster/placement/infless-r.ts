// Dilu's baseline that reserves requests and knows no limits.
import type { ClusterPolicy } from '../policy.js';
import { whole } from '../resources.js';
import { decideBy, gamma, type Rules } from './authors.js';

export const inflessR: ClusterPolicy<null, 'gamma'> = {
  name: 'infless-r',
  kind: 'placement',
  summary: 'requests are all that counts; best fit by SMs alone (INFless, as Dilu compares it)',
  source: { paper: 'Dilu', section: "Fig. 17, INFless-r; the authors' code" },
  parameters: { gamma },
  start: () => null,
  decide: ({ state, events, parameters: { gamma } }) => {
    const bounds = { sm: whole, smLimit: Math.floor(gamma * whole) };
    const rules: Rules = {
      bounds,
      counted: (resources) => ({ ...resources, smLimit: resources.sm }),
      ...{ alpha: 1, beta: 0, splits: false },
    };
    return decideBy(rules, state, events);
  },
};
