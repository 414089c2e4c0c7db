// Dilu's placement (its Algorithm 1): sums of requests and of limits are bounded, the fullest GPU that fits wins. First
// come GPUs with a partner: a function that already shares a GPU with another instance of this one. Instances of one
// function have like loads, so beside the same partner none of them lags behind the others. Then a GPU that runs
// anything, then an empty one.

import type { PlacementPolicy } from '../placement.js';
import type { GpuState, SessionRequest, SessionState } from '../state.js';
import { type Candidate, candidates, milli, oversubscribable } from './candidates.js';

/** Of the score, in tenths: what counts of time left over, and of memory left over. */
const alpha = 6n;
const beta = 4n;

export const dilu: PlacementPolicy = {
  name: 'dilu',
  summary:
    'the fullest GPU within sums of requests and limits, beside the partners of its function (Dilu)',
  about:
    'For sessions with requests and limits, as inference beside training: limits on one GPU ' +
    'may add up to gamma, 150 percent unless said otherwise. Instances of one function ' +
    '(tenant and name) get like neighbours, so that none lags behind the others. A session ' +
    'without a limit counts as 100 percent: give limits.',
  boundsLimits: true,
  seesFull: true,
  place(state, request, parameters) {
    const room = oversubscribable(parameters) - milli(request.shareLimit);
    const fitting = candidates(state, request, parameters, room);
    // Where there is no choice nobody need be asked about.
    const partners = fitting.length > 1 ? partnersOf(request, state.gpus) : noPartners;
    let best: Candidate | null = null;
    let [rank, part] = [-1, 0];
    for (const one of fitting) {
      const its = rankOf(one.gpu, request, partners);
      if (its < rank) continue;
      const full = roughly(one, request);
      // What is surely less full need not be compared exactly, which is what takes time.
      if (best && its === rank) {
        if (full < part - rough || compareFullness(one, best, request) <= 0) continue;
      }
      [best, rank, part] = [one, its, full];
    }
    return best && { gpu: best.gpu.index, slot: best.slot, memory: best.memory };
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

/** Names by tenant: nothing is made of them, as this is asked of each session of thousands of GPUs. */
type Partners = ReadonlyMap<string, ReadonlySet<string>>;

function isOf({ tenant, name }: Named, session: SessionState): boolean {
  return session.tenant === tenant && session.name === name;
}

const noPartners: Partners = new Map();

/** The functions that share a GPU with an instance of this one, whatever the state of that GPU. */
function partnersOf(wanted: Named, gpus: readonly GpuState[]): Partners {
  const partners = new Map<string, Set<string>>();
  for (const { sessions } of gpus) {
    if (!runs(sessions, wanted)) continue;
    for (const session of sessions) {
      if (isOf(wanted, session)) continue;
      const { tenant, name } = session;
      const names = partners.get(tenant);
      if (names) names.add(name);
      else partners.set(tenant, new Set([name]));
    }
  }
  return partners;
}

function runs(sessions: readonly SessionState[], wanted: Named): boolean {
  for (const session of sessions) if (isOf(wanted, session)) return true;
  return false;
}

/** An instance of a partner runs there, and none of the function itself: its instances have a neighbour each. */
function isAffine({ sessions }: GpuState, wanted: Named, partners: Partners): boolean {
  if (partners.size === 0 || runs(sessions, wanted)) return false;
  for (const { tenant, name } of sessions) if (partners.get(tenant)?.has(name)) return true;
  return false;
}

/** 2: affine; 1: in use; 0: empty. */
function rankOf(gpu: GpuState, wanted: Named, partners: Partners): number {
  if (isAffine(gpu, wanted, partners)) return 2;
  return gpu.sessions.length > 0 ? 1 : 0;
}

/** By more than this, of 1, no rounding of `roughly` can be wrong. */
const rough = 1e-9;

/** The fullness in floating point, from 0 to 1. */
function roughly({ gpu, requested, available, memory }: Candidate, request: SessionRequest) {
  const time = (requested + milli(request.shareRequest)) / 100_000;
  const total = Number(gpu.memory);
  const used = total > 0 ? (total - Number(available) + Number(memory)) / total : 1;
  return (Number(alpha) * time + Number(beta) * used) / 10;
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
