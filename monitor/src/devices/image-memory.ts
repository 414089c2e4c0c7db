// How much of the machine's memory a process may use for images of modules.
import os from 'node:os';

const mebi = 1n << 20n;
const least = 512n * mebi;
const most = 1024n * mebi;

/**
 * Bytes for the images that a session has loaded. A process uses as much again for images that were loaded
 * ahead and not asked for yet, and for those kept for later sessions. Together all processes that there can
 * be use three eighths of the machine's memory, unless that is too little for one large image.
 */
export function imageMemory(machine: bigint, processes: number): bigint {
  const share = machine / 8n / BigInt(Math.max(processes, 1));
  if (share < least) return least;
  return share < most ? share : most;
}

/** The machine's memory in bytes, or as much of it as this process and its children may use. */
export function machineMemory(): bigint {
  const there = os.totalmem();
  const allowed = process.constrainedMemory();
  return BigInt(allowed > 0 ? Math.min(there, allowed) : there);
}
