// What a placement policy is: a pure function that says which slot a request gets now, or null when
// it has to wait. It never waits, draws or looks at a clock; equal choices go to the lowest index.
import type { Admission } from './admission.js';
import type { GpuState, Placement, ServerState, SessionRequest } from './state.js';

export interface PlacementParameters {
  /** The most that requests for GPU time may add up to on one GPU; 1 is the whole GPU. */
  omega: number;
  /** The most that limits of GPU time may add up to on one GPU. */
  gamma: number;
  /** Who may join whom, beside all that; absent or null: everybody may. */
  admission?: Admission | null;
}

export const usualParameters: PlacementParameters = { omega: 1, gamma: 1.5 };

export interface PlacementPolicy {
  /** As the configuration names it. */
  name: string;
  /** One line, for `outboard policies`. */
  summary: string;
  /** What it is good for and what it costs, in whole sentences, for `outboard policies NAME`. Those of index.ts have it. */
  about?: string;
  /** Whether it holds sums of limits to gamma; absent: only sums of requests are bounded. */
  boundsLimits?: true;
  /** Whether it goes by what runs on GPUs without a free slot, too; absent: it need not be shown them. */
  seesFull?: true;
  /** For a request of one GPU; `placeAll` makes one of several out of these. */
  place(
    state: ServerState,
    request: SessionRequest,
    parameters: PlacementParameters,
  ): Placement | null;
  /**
   * Why it chooses that GPU, of those where the request fits; in the words that follow "because". It is asked beside
   * `place`, of the same state. Absent: its summary has to do.
   */
  because?(
    state: ServerState,
    request: SessionRequest,
    parameters: PlacementParameters,
    gpu: number,
  ): string;
}

/**
 * Where a request goes, on as many different GPUs as it wants, in the order of their indices; null:
 * it has to wait, for all of them together. The policy chooses one after the other, and sees the
 * sessions that it has placed already. What fits on one GPU depends on that GPU alone, so this finds
 * a place whenever there is one.
 */
export function placeAll(
  policy: PlacementPolicy,
  state: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters,
): Placement[] | null {
  const one = { ...request, gpus: 1 };
  const placements: Placement[] = [];
  let { gpus } = state;
  while (placements.length < request.gpus) {
    const placement = policy.place({ ...state, gpus }, one, parameters);
    if (!placement) return null;
    placements.push(placement);
    if (placements.length === request.gpus) break;
    gpus = gpus.map((gpu) => (gpu.index === placement.gpu ? taken(gpu, request, placement) : gpu));
  }
  return placements.sort((a, b) => a.gpu - b.gpu);
}

/** A GPU with the session that was just placed there, which has no number yet. No slot is free: it gets one only. */
function taken(gpu: GpuState, request: SessionRequest, { slot, memory }: Placement): GpuState {
  const { tenant, name, class: kind, shareRequest, shareLimit } = request;
  const promised = { memory, used: 0n, shareRequest, shareLimit };
  const session = { id: 0, group: 0, tenant, name, class: kind, slot, ...promised, started: 0 };
  const { sessions, reserved } = gpu;
  // The sums that somebody may keep are of the others.
  const { promised: _, ...rest } = gpu;
  return { ...rest, free: [], reserved: reserved + memory, sessions: [...sessions, session] };
}
