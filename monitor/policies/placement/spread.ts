// Evens out promised GPU time; where nobody was promised any, memory.
import type { PlacementPolicy } from '../placement.js';
import { candidates, choose, moreAvailable } from './candidates.js';

export const spread: PlacementPolicy = {
  name: 'spread',
  summary: 'the GPU of whose time the least is promised; of equals the one with most memory left',
  about:
    'For sessions with promised shares (--share), whose GPUs are to be evenly loaded. Where ' +
    'nothing is promised it goes by memory alone, as worst-fit does.',
  place: (state, request, parameters) =>
    choose(
      candidates(state, request, parameters),
      (one, other) => one.requested - other.requested || moreAvailable(one, other),
    ),
  because: () => 'the least of its time is promised, and of those it has the most memory left',
};
