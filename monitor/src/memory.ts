// How much of a GPU's memory sessions may have. Pure functions.
import { wire } from '../../api-server/src/control.js';

/** What a session may have beside the memory that it maps, in bytes of the GPU's. */
export interface Beside {
  /** Under pinned memory of the host that kernels reach; what is more counts as mapped. */
  pinned: bigint;
  /** Code and variables of modules. */
  modules: bigint;
}

/** As `outboard serve` was told; null: what suits the GPU. */
export type BesideWanted = { [Kind in keyof Beside]: bigint | null };

const mebi = 1n << 20n;

/** Kept back for each slot, so that a session can have all of it, whatever the others do. */
export function besideOf(total: bigint, wanted: BesideWanted): Beside {
  return {
    pinned: wholeGranules(wanted.pinned ?? smaller(256n * mebi, total / 32n)),
    modules: wanted.modules ?? smaller(512n * mebi, total / 64n),
  };
}

/**
 * `free` is measured when all contexts of the GPU are there and no session is: what
 * cuMemCreate can really give, in whole granules.
 */
export function sessionMemory(free: bigint, beside: Beside, slots: number) {
  const memory = wholeGranules(free - BigInt(slots) * (beside.pinned + beside.modules));
  return { memory, usual: wholeGranules(memory / BigInt(slots)) };
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** The least part of a GPU that is given to a session that does not say how much it wants. */
const parts = 32n;

/**
 * Where slots are made as they are wanted, nobody knows how many will share the GPU: each session that
 * does not say gets half of what nobody has, so that the first finds much and the next ones something.
 */
export function usualNow(memory: bigint, reserved: bigint): bigint {
  const half = wholeGranules((memory - reserved) / 2n);
  const least = wholeGranules(memory / parts);
  return half > least ? half : least;
}

/** Whether one more slot would find work: `cost` is what its context and its session take beside. */
export function roomForSlot(memory: bigint, reserved: bigint, cost: bigint): boolean {
  return memory - reserved - cost >= usualNow(memory, memory);
}

function wholeGranules(bytes: bigint): bigint {
  return bytes <= 0n ? 0n : (bytes / wire.granule) * wire.granule;
}
