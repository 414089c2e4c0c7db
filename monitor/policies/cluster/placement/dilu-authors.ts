// Dilu as its authors' simulator decides, which is not Algorithm 1 as printed: see authors.ts.
import type { ClusterPolicy } from '../policy.js';
import { whole } from '../resources.js';
import { decideBy, gamma, type Rules } from './authors.js';

export const diluAuthors: ClusterPolicy<null, 'gamma'> = {
  name: 'dilu-authors',
  kind: 'placement',
  summary:
    "as Dilu's simulator decides: training first fit by node, large models split, the rest best fit",
  source: { paper: 'Dilu', section: "Fig. 17; the authors' code" },
  parameters: { gamma },
  start: () => null,
  decide: ({ state, events, parameters: { gamma } }) => {
    const bounds = { sm: whole, smLimit: Math.floor(gamma * whole) };
    const rules: Rules = {
      bounds,
      counted: (resources) => resources,
      ...{ alpha: 0.6, beta: 0.4, splits: true },
    };
    return decideBy(rules, state, events);
  },
};
