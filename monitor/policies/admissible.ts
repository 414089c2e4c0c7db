// Whether a request can ever be satisfied here, all else being gone: a pure function. One that
// cannot is refused at once rather than kept waiting. GPUs that are not healthy count, because they
// may be healthy again.

import { allows, compare, milli, promisable } from './placement/candidates.js';
import { type PlacementParameters, usualParameters } from './placement.js';
import type { ServerState, SessionRequest } from './state.js';

/** What would fit, of the GPUs that the request may use. */
export interface Largest {
  gpus: number;
  /** Bytes, on each of as many GPUs as are wanted. */
  memory: bigint;
  /** Percent of a GPU's time that can be promised. */
  share: number;
}

export interface Inadmissible {
  /** allowed: its tenant may use none of the GPUs here. share-order: its limit is below its request. */
  reason: 'gpus' | 'allowed' | 'memory' | 'share' | 'share-order';
  largest: Largest;
}

/** Null: a policy will place it, if only enough others end. */
export function admissible(
  { gpus }: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters = usualParameters,
): Inadmissible | null {
  const usable = gpus.filter((gpu) => gpu.free.length > 0 && allows(request, gpu));
  const { gpus: wanted, shareRequest, shareLimit } = request;
  const no = (reason: Inadmissible['reason']) => {
    const memories = usable.map(({ memory }) => memory).sort((a, b) => compare(b, a));
    const memory = memories[Math.min(wanted, memories.length) - 1] ?? 0n;
    return {
      reason,
      largest: { gpus: usable.length, memory, share: promisable(parameters) / 1000 },
    };
  };
  if (usable.length === 0) return no('allowed');
  if (wanted < 1 || wanted > usable.length) return no('gpus');
  const fitting = usable.filter(({ memory, usual }) => (request.memory ?? usual) <= memory);
  if (fitting.length < wanted) return no('memory');
  if (shareLimit > 100 || milli(shareRequest) > promisable(parameters)) return no('share');
  if (shareLimit < shareRequest) return no('share-order');
  return null;
}
