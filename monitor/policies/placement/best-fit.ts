// DGSF's best fit: what is left over stays in large pieces.
import type { PlacementPolicy } from '../placement.js';
import { candidates, choose, lessAvailable } from './candidates.js';

export const bestFit: PlacementPolicy = {
  name: 'best-fit',
  summary: 'the GPU with the least unreserved memory that fits (DGSF)',
  about:
    'What is left over stays in large pieces, for sessions of all sizes with a few large ones ' +
    'among them. Sessions share GPUs while others are empty.',
  place: (state, request, parameters) =>
    choose(candidates(state, request, parameters), lessAvailable),
  because: () => 'it has the least unreserved memory of those with enough',
};
