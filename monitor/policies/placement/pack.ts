// Fills GPUs with promised time one after the other, so that some stay empty.
import type { PlacementPolicy } from '../placement.js';
import { candidates, choose, lessAvailable } from './candidates.js';

export const pack: PlacementPolicy = {
  name: 'pack',
  summary: 'the GPU of whose time the most is promised; of equals the one with least memory left',
  about:
    'For sessions with promised shares (--share): it fills one GPU up to omega before it ' +
    'begins the next, so that some stay empty, for programs that want a whole one or to be ' +
    'switched off. Sessions share a GPU while others are empty. Where nothing is promised it ' +
    'goes by memory alone, as best-fit does.',
  place: (state, request, parameters) =>
    choose(
      candidates(state, request, parameters),
      (one, other) => other.requested - one.requested || lessAvailable(one, other),
    ),
  because: () => 'the most of its time is promised, and of those it has the least memory left',
};
