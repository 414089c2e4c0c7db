// What a placement policy is: a pure function that says which slot a request gets now, or null when
// it has to wait. It never waits, draws or looks at a clock; equal choices go to the lowest index.
import type { Placement, ServerState, SessionRequest } from '../src/state.js';

export interface PlacementParameters {
  /** The most that requests for GPU time may add up to on one GPU; 1 is the whole GPU. */
  omega: number;
  /** The most that limits of GPU time may add up to on one GPU. */
  gamma: number;
}

export const usualParameters: PlacementParameters = { omega: 1, gamma: 1.5 };

export interface PlacementPolicy {
  /** As the configuration names it. */
  name: string;
  /** One line, for `outboard policies`. */
  summary: string;
  place(
    state: ServerState,
    request: SessionRequest,
    parameters: PlacementParameters,
  ): Placement | null;
}
