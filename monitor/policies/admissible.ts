// Whether a request can ever be satisfied here, all else being gone: a pure function. One that
// cannot is refused at once rather than kept waiting. GPUs that are not healthy count, because they
// may be healthy again.
import type { ServerState, SessionRequest } from '../src/state.js';
import { allows, milli, promisable } from './placement/candidates.js';
import { type PlacementParameters, usualParameters } from './placement.js';

/** What would fit, of the GPUs that the request may use. */
export interface Largest {
  gpus: number;
  /** Bytes. */
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
  const largest = {
    gpus: usable.length > 0 ? 1 : 0,
    memory: usable.reduce((most, { memory }) => (memory > most ? memory : most), 0n),
    share: promisable(parameters) / 1000,
  };
  const { shareRequest, shareLimit } = request;
  const no = (reason: Inadmissible['reason']) => ({ reason, largest });
  if (request.gpus !== 1) return no('gpus');
  if (usable.length === 0) return no('allowed');
  if (!usable.some(({ memory, usual }) => (request.memory ?? usual) <= memory)) return no('memory');
  if (shareLimit > 100 || milli(shareRequest) > promisable(parameters)) return no('share');
  if (shareLimit < shareRequest) return no('share-order');
  return null;
}
