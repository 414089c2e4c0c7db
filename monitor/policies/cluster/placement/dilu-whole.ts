// Dilu as its authors' simulator decides, without the splitting of large models.
import type { ClusterPolicy } from '../policy.js';
import { whole } from '../resources.js';
import { decideBy, gamma, type Rules } from './authors.js';

export const diluWhole: ClusterPolicy<null, 'gamma'> = {
  name: 'dilu-whole',
  kind: 'placement',
  summary: 'the same, but large language models are placed as any other inference',
  source: { paper: 'Dilu', section: "Fig. 17; the authors' code" },
  parameters: { gamma },
  start: () => null,
  decide: ({ state, events, parameters: { gamma } }) => {
    const bounds = { sm: whole, smLimit: Math.floor(gamma * whole) };
    const rules: Rules = {
      bounds,
      counted: (resources) => resources,
      ...{ alpha: 0.6, beta: 0.4, splits: false },
    };
    return decideBy(rules, state, events);
  },
};
