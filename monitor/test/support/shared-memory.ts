// Shared memory with a name, below /dev/shm: what some processes have of it, whatever else the machine's others do there.
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** The files that these processes have mapped or open; those of a process that has gone are none. */
function filesOf(pids: Iterable<number>): string[] {
  const names: string[] = [];
  for (const pid of pids) {
    try {
      names.push(...readFileSync(`/proc/${pid}/maps`, 'latin1').split('\n'));
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        try {
          names.push(readlinkSync(`/proc/${pid}/fd/${fd}`));
        } catch {
          // Closed since it was listed.
        }
      }
    } catch {
      // It has ended.
    }
  }
  return names.flatMap((name) => /\/dev\/shm\/.*$/.exec(name)?.[0] ?? []);
}

/** Remembers what processes have while they run, and tells what of it is there when they have ended. */
export class SharedMemory {
  readonly #seen = new Set<string>();

  look(pids: Iterable<number>) {
    for (const file of filesOf(pids)) this.#seen.add(file);
  }

  get left(): string[] {
    return [...this.#seen].filter((file) => existsSync(file)).sort();
  }
}
