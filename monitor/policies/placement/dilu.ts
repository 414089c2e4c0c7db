// Dilu's placement (its Algorithm 1): sums of requests and of limits are bounded, the fullest GPU that fits wins. First
// come GPUs with a partner: a function that already shares a GPU with another instance of this one. Instances of one
// function have like loads, so beside the same partner none of them lags behind the others. Then a GPU that runs
// anything, then an empty one.

import type { PlacementPolicy } from '../placement.js';
import type { GpuState, SessionRequest, SessionState } from '../state.js';
import { type Candidate, candidates, choose, milli, oversubscribable } from './candidates.js';

/** Of the score, in tenths: what counts of time left over, and of memory left over. */
const alpha = 6n;
const beta = 4n;

export const dilu: PlacementPolicy = {
  name: 'dilu',
  summary:
    'the fullest GPU within sums of requests and limits, beside the partners of its function (Dilu)',
  boundsLimits: true,
  place(state, request, parameters) {
    const room = oversubscribable(parameters) - milli(request.shareLimit);
    const fitting = candidates(state, request, parameters).filter(({ limited }) => limited <= room);
    const partners = partnersOf(request, state.gpus);
    const affine = fitting.filter(({ gpu }) => isAffine(gpu, request, partners));
    const active = fitting.filter(({ gpu }) => gpu.sessions.length > 0);
    const nearest = [affine, active].find((some) => some.length > 0) ?? fitting;
    return choose(nearest, (one, other) => compareFullness(other, one, request));
  },
  because({ gpus }, request, _, index) {
    const gpu = gpus.find((one) => one.index === index);
    if (gpu && isAffine(gpu, request, partnersOf(request, gpus))) {
      return 'a partner of its function runs there, and it is the fullest of those';
    }
    const inUse = (gpu?.sessions.length ?? 0) > 0;
    return inUse ? 'it is the fullest in use' : 'no GPU in use has room for it';
  },
};

type Named = Pick<SessionRequest, 'tenant' | 'name'>;

const key = ({ tenant, name }: Named) => JSON.stringify([tenant, name]);

function isOf({ tenant, name }: Named, session: SessionState): boolean {
  return session.tenant === tenant && session.name === name;
}

/** The functions that share a GPU with an instance of this one, whatever the state of that GPU. */
function partnersOf(wanted: Named, gpus: readonly GpuState[]): ReadonlySet<string> {
  const partners = new Set<string>();
  for (const { sessions } of gpus) {
    if (!sessions.some((session) => isOf(wanted, session))) continue;
    for (const session of sessions) if (!isOf(wanted, session)) partners.add(key(session));
  }
  return partners;
}

/** An instance of a partner runs there, and none of the function itself: its instances have a neighbour each. */
function isAffine({ sessions }: GpuState, wanted: Named, partners: ReadonlySet<string>): boolean {
  if (partners.size === 0 || sessions.some((session) => isOf(wanted, session))) return false;
  return sessions.some((session) => partners.has(key(session)));
}

/**
 * The paper takes the least alpha*(1 - requests) + beta*(1 - memory), both as parts of the GPU and
 * with the newcomer: the most alpha*requests + beta*memory. As a fraction, compared crosswise,
 * nothing is rounded.
 */
function compareFullness(one: Candidate, other: Candidate, request: SessionRequest): number {
  const [a, aMemory] = fullness(one, request);
  const [b, bMemory] = fullness(other, request);
  const difference = a * bMemory - b * aMemory;
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

function fullness({ gpu, requested, available, memory }: Candidate, request: SessionRequest) {
  const time = BigInt(requested + milli(request.shareRequest));
  // A GPU without memory is as full as can be.
  const total = gpu.memory > 0n ? gpu.memory : 1n;
  const used = gpu.memory > 0n ? gpu.memory - available + memory : 1n;
  return [alpha * time * total + beta * used * 100_000n, total] as const;
}
