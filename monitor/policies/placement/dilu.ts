// Dilu's placement (its Algorithm 1, for one GPU): sums of requests and of limits are bounded, the
// fullest GPU that fits wins. A GPU that already runs the same function comes first, then one that
// runs anything, then an empty one.

import type { PlacementPolicy } from '../placement.js';
import type { SessionRequest } from '../state.js';
import { type Candidate, candidates, choose, milli, oversubscribable } from './candidates.js';

/** Of the score, in tenths: what counts of time left over, and of memory left over. */
const alpha = 6n;
const beta = 4n;

export const dilu: PlacementPolicy = {
  name: 'dilu',
  summary: 'the fullest GPU within sums of requests and limits, same functions together (Dilu)',
  place(state, request, parameters) {
    const room = oversubscribable(parameters) - milli(request.shareLimit);
    const fitting = candidates(state, request, parameters).filter(({ limited }) => limited <= room);
    const tier = (wanted: number) => fitting.filter((one) => nearness(one, request) === wanted);
    const nearest = [2, 1].map(tier).find((some) => some.length > 0);
    return choose(nearest ?? fitting, (one, other) => compareFullness(other, one, request));
  },
};

/** 2: runs the same function of the same tenant; 1: runs something; 0: empty. */
function nearness({ gpu: { sessions } }: Candidate, { tenant, name }: SessionRequest): number {
  const affine = sessions.some((session) => session.tenant === tenant && session.name === name);
  return affine ? 2 : sessions.length > 0 ? 1 : 0;
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
