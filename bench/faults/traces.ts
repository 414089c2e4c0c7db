// What processes leave behind, or hold: read from /proc.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isAlive } from '../../monitor/test/support/serving.js';

export { isAlive };

/** Children that run; those that have ended and wait to be collected are none. */
export function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
    return text.split(' ').filter(Boolean).map(Number).filter(isAlive);
  } catch {
    return [];
  }
}

/** How many descriptors a process has of each kind: socket, pipe, anon_inode:[eventpoll], a file. */
export function descriptors(pid: number): Record<string, number> {
  const kinds: Record<string, number> = {};
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    try {
      const kind = readlinkSync(`/proc/${pid}/fd/${name}`).replace(/:\[\d+\]$/, '');
      kinds[kind] = (kinds[kind] ?? 0) + 1;
    } catch {
      // Closed since it was listed.
    }
  }
  return kinds;
}

/** Descriptors that are more than before, by kind. */
export function moreThan(before: Record<string, number>, now: Record<string, number>): string[] {
  return Object.entries(now)
    .filter(([kind, count]) => count > (before[kind] ?? 0))
    .map(([kind, count]) => `${count - (before[kind] ?? 0)} more ${kind}`);
}

/** Waits for something that happens by itself; whoever calls has a limit of its own. */
export async function until(condition: () => boolean) {
  while (!condition()) await new Promise((again) => setTimeout(again, 20));
}
