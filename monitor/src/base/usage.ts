// What a process takes of this machine, as /proc tells.
import { readFileSync } from 'node:fs';

export interface Usage {
  /** Bytes resident. */
  memory: number;
  /** Seconds of processor time since it began. */
  cpu: number;
}

// USER_HZ and the size of a page are the same on every Linux that Node runs on for x86-64 and arm64.
const ticksPerSecond = 100;
const pageBytes = 4096;

/** Null when there is no such process. */
export function usageOf(pid: number): Usage | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the parenthesis may hold anything; utime and stime are fields 14 and 15.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const pages = Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]);
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { memory: pages * pageBytes, cpu: ticks / ticksPerSecond };
  } catch {
    return null;
  }
}
