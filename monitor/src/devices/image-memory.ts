// How much of the machine's memory images of modules may take in a process.
import os from 'node:os';

const mebi = 1n << 20n;
const least = 512n * mebi;
const most = 1024n * mebi;

/**
 * Those that its session has loaded; as much for those loaded ahead of it that nobody has taken; and
 * as much for those kept for later sessions: three eighths of the machine for all processes there
 * can be, unless that is too little for one large image.
 */
export function imageMemory(machine: bigint, processes: number): bigint {
  const share = machine / 8n / BigInt(Math.max(processes, 1));
  if (share < least) return least;
  return share < most ? share : most;
}

/** Of this machine, or as much of it as this process and its children may have. */
export function machineMemory(): bigint {
  const there = os.totalmem();
  const allowed = process.constrainedMemory();
  return BigInt(allowed > 0 ? Math.min(there, allowed) : there);
}
