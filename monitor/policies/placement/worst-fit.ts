// DGSF's worst fit: sessions spread, and each has few neighbours.
import type { PlacementPolicy } from '../placement.js';
import { candidates, choose, moreAvailable } from './candidates.js';

export const worstFit: PlacementPolicy = {
  name: 'worst-fit',
  summary: 'the GPU with the most unreserved memory (DGSF)',
  about:
    'The default. Sessions spread over the GPUs, and each has few neighbours. What is left ' +
    'over is in small pieces, so that a session that wants much memory may have to wait for ' +
    'several to end.',
  place: (state, request, parameters) =>
    choose(candidates(state, request, parameters), moreAvailable),
  because: () => 'it has the most unreserved memory',
};
