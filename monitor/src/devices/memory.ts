// How much of a GPU's memory sessions may have. Pure functions.
import { wire } from '../../../api-server/src/control.js';

/** What a session may have beside the memory that it maps, in bytes of the GPU's. */
export interface Beside {
  /** For pinned memory of the host that kernels reach; more than that counts as mapped. */
  pinned: bigint;
  /** For code and variables of modules. */
  modules: bigint;
  /** For stacks of kernels, beyond those that the context has; more than that counts as mapped. */
  stacks: bigint;
}

/** What `outboard serve` was told; null: what suits the GPU. */
export type BesideWanted = { [Kind in 'pinned' | 'modules']: bigint | null };

/** A driver takes stacks for all threads that a GPU can hold: so much is kept back for each. */
const stackBytes = 4096n;

const mebi = 1n << 20n;

/**
 * What is kept back for each slot, so that its session can use all of it whatever others do. `threads`: how many the
 * GPU holds at once.
 */
export function besideOf(total: bigint, threads: bigint, wanted: BesideWanted): Beside {
  return {
    stacks: smaller(threads * stackBytes, total / 32n),
    pinned: wholeGranules(wanted.pinned ?? smaller(256n * mebi, total / 32n)),
    modules: wanted.modules ?? smaller(512n * mebi, total / 64n),
  };
}

/**
 * What all sessions together may have, in whole granules: what cuMemCreate can really give. `free` is measured
 * when all contexts of the GPU are there and no session is.
 */
export function sessionMemory(free: bigint, beside: Beside, slots: number): bigint {
  return wholeGranules(free - BigInt(slots) * besideBytes(beside));
}

export function besideBytes({ pinned, modules, stacks }: Beside): bigint {
  return pinned + modules + stacks;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

export function wholeGranules(bytes: bigint): bigint {
  return bytes <= 0n ? 0n : (bytes / wire.granule) * wire.granule;
}
