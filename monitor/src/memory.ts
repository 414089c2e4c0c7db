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

function wholeGranules(bytes: bigint): bigint {
  return bytes <= 0n ? 0n : (bytes / wire.granule) * wire.granule;
}
