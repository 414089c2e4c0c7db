// DGSF's worst fit: sessions spread, and each has few neighbours.
import type { PlacementPolicy } from '../placement.js';
import { candidates, choose, moreAvailable } from './candidates.js';

export const worstFit: PlacementPolicy = {
  name: 'worst-fit',
  summary: 'the GPU with the most unreserved memory (DGSF)',
  place: (state, request, parameters) =>
    choose(candidates(state, request, parameters), moreAvailable),
  because: () => 'it has the most unreserved memory',
};
