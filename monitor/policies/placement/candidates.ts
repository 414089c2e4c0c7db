// What every placement policy holds to: a GPU is a candidate only if it is healthy and allowed, has
// a warm slot, has the memory, and can keep the promise of GPU time. Policies only choose among
// candidates, so none of them can promise what is not there.

import type { PlacementParameters, PlacementPolicy } from '../placement.js';
import type { GpuState, Placement, ServerState, SessionRequest, ShareSums } from '../state.js';

/** One GPU on which the request fits now. Shares are in whole milli-percent: sums of them are exact. */
export interface Candidate {
  gpu: GpuState;
  /** The free slot with the lowest index. */
  slot: number;
  /** Bytes the session would reserve. */
  memory: bigint;
  /** Bytes not reserved yet, this session not counted. */
  available: bigint;
  /** Sum of the requests of its sessions, this one not counted. */
  requested: number;
  /** Sum of their limits. */
  limited: number;
}

const whole = 100_000;

export function milli(percent: number): number {
  return Math.round(percent * 1000);
}

/** What may be promised of one GPU. More than all of it cannot be promised, whatever omega says. */
export function promisable({ omega }: PlacementParameters): number {
  return Math.floor(Math.min(1, omega) * whole);
}

/** What limits may add up to. At least a whole GPU, or a session with no limit fits nowhere, ever. */
export function oversubscribable({ gamma }: PlacementParameters): number {
  return Math.floor(Math.max(1, gamma) * whole);
}

export function allows({ allowed }: SessionRequest, gpu: GpuState): boolean {
  return allowed === null || allowed.includes(gpu.index);
}

function usualOn({ usual }: GpuState, { usualMost = usual }: SessionRequest): bigint {
  return usualMost < usual ? usualMost : usual;
}

/** What keeps a request from a GPU. limits: only where a policy holds sums of limits to gamma. */
export type Obstacle =
  | 'unhealthy'
  | 'not allowed'
  | 'no slot'
  | 'memory'
  | 'share'
  | 'admission'
  | 'limits';

/** How a request of one GPU would fit on this one now, or what keeps it from there first. */
export function fit(
  gpu: GpuState,
  request: SessionRequest,
  parameters: PlacementParameters,
): Candidate | Exclude<Obstacle, 'limits'> {
  if (!gpu.healthy) return 'unhealthy';
  if (!allows(request, gpu)) return 'not allowed';
  const slot = gpu.free.indexOf(true);
  if (slot < 0) return 'no slot';
  const memory = request.memory ?? usualOn(gpu, request);
  const available = gpu.memory - gpu.reserved;
  if (memory > available) return 'memory';
  const { requests: requested, limits: limited } = gpu.promised ?? sumsOf(gpu);
  if (requested + milli(request.shareRequest) > promisable(parameters)) return 'share';
  const { admission } = parameters;
  if (admission && admission.against(request, gpu.sessions) !== null) return 'admission';
  return { gpu, slot, memory, available, requested, limited };
}

function sumsOf({ sessions }: GpuState): ShareSums {
  let [requests, limits] = [0, 0];
  for (const { shareRequest, shareLimit } of sessions) {
    requests += milli(shareRequest);
    limits += milli(shareLimit);
  }
  return { requests, limits };
}

/** What keeps a request from a GPU under a policy; null: nothing. */
export function obstacle(
  policy: Pick<PlacementPolicy, 'boundsLimits'>,
  gpu: GpuState,
  request: SessionRequest,
  parameters: PlacementParameters,
): Obstacle | null {
  const found = fit(gpu, { ...request, gpus: 1 }, parameters);
  if (typeof found === 'string') return found;
  const limits = found.limited + milli(request.shareLimit);
  return policy.boundsLimits && limits > oversubscribable(parameters) ? 'limits' : null;
}

/** By index, whatever order the state has them in. `limits`: what the limits of those there may add up to. */
export function candidates(
  { gpus }: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters,
  limits = Number.POSITIVE_INFINITY,
): Candidate[] {
  // A placement names one GPU: one who wants more of them asks for each (placeAll).
  if (request.gpus !== 1) return [];
  const found: Candidate[] = [];
  const requests = promisable(parameters) - milli(request.shareRequest);
  let sorted = true;
  for (const gpu of gpus) {
    const { promised } = gpu;
    // Of thousands of GPUs most are full in this way: nothing else of them is looked at.
    if (promised && (promised.requests > requests || promised.limits > limits)) continue;
    const its = fit(gpu, request, parameters);
    if (typeof its === 'string' || its.limited > limits) continue;
    sorted &&= (found.at(-1)?.gpu.index ?? -1) < gpu.index;
    found.push(its);
  }
  return sorted ? found : found.sort((one, other) => one.gpu.index - other.gpu.index);
}

/** Negative when `one` is better; 0 when there is nothing to choose. */
export type Preference = (one: Candidate, other: Candidate) => number;

/** The best; of equals the one with the lowest index. */
export function choose(sorted: readonly Candidate[], prefer: Preference): Placement | null {
  let best = sorted[0];
  if (!best) return null;
  for (const one of sorted) if (one !== best && prefer(one, best) < 0) best = one;
  const { gpu, slot, memory } = best;
  return { gpu: gpu.index, slot, memory };
}

export const lessAvailable: Preference = (one, other) => compare(one.available, other.available);
export const moreAvailable: Preference = (one, other) => compare(other.available, one.available);

export function compare(one: bigint, other: bigint): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
