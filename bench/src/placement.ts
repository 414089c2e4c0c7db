// Which processors the two sides get, by taskset: a wake-up of a sleeping processor costs several
// times what a round trip on one processor does, so figures whose sides wander between the two
// cannot be compared.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Placement } from './figures.js';

/** Of this process, as lists for taskset. Empty: wherever the system likes. */
export interface Processors {
  guest: string;
  server: string;
}

export function processors(placement: Placement, allowed = allowedProcessors()): Processors {
  const last = allowed.at(-1);
  if (last === undefined) return { guest: '', server: '' };
  if (placement === 'one-core') return { guest: String(last), server: String(last) };
  const half = Math.floor(allowed.length / 2);
  if (half === 0) return { guest: '', server: '' };
  return { guest: allowed.slice(0, half).join(), server: allowed.slice(half).join() };
}

/** A command that runs on those processors only. */
export function placed(list: string, argv: [string, ...string[]]): [string, ...string[]] {
  return list === '' ? argv : ['taskset', '-c', list, ...argv];
}

/** None where the system does not tell, or there is no taskset. */
function allowedProcessors(): number[] {
  if (spawnSync('taskset', ['--version']).status !== 0) return [];
  try {
    const status = readFileSync('/proc/self/status', 'utf8');
    return expand(/^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? '');
  } catch {
    return [];
  }
}

/** "0-2,5" is 0, 1, 2, 5. */
export function expand(list: string): number[] {
  return list
    .split(',')
    .filter((part) => part.trim() !== '')
    .flatMap((part) => {
      const [first = 0, last = first] = part.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, i) => first + i);
    });
}
