// How much of a GPU's memory sessions may have. Pure functions.
import { wire } from '../../api-server/src/control.js';

/**
 * What a session takes beside the memory it maps: module images, local memory of kernels, printf
 * buffers. 128 MiB, or less where the device is small.
 */
export function overhead(total: bigint): bigint {
  const usual = 128n << 20n;
  return total / 64n < usual ? total / 64n : usual;
}

/**
 * `free` is measured when all contexts of the GPU are there and no session is: what
 * cuMemCreate can really give, in whole granules.
 */
export function sessionMemory(free: bigint, total: bigint, slots: number) {
  const memory = wholeGranules(free - BigInt(slots) * overhead(total));
  return { memory, usual: wholeGranules(memory / BigInt(slots)) };
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

/** Whether one more slot would find work: `cost` is what its context and its session's modules take. */
export function roomForSlot(memory: bigint, reserved: bigint, cost: bigint): boolean {
  return memory - reserved - cost >= usualNow(memory, memory);
}

function wholeGranules(bytes: bigint): bigint {
  return bytes <= 0n ? 0n : (bytes / wire.granule) * wire.granule;
}
