// A process of a test whose file descriptors run out.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

export class DescriptorLimit {
  readonly pid: number;
  readonly #usual: number;

  constructor(pid: number | undefined) {
    this.pid = pid ?? 0;
    const limits = readFileSync(`/proc/${this.pid}/limits`, 'latin1');
    this.#usual = Number(/^Max open files +(\d+)/m.exec(limits)?.[1]);
  }

  /** Those that are open. */
  get open(): number[] {
    return readdirSync(`/proc/${this.pid}/fd`).map(Number);
  }

  /** From now on it can open so many, and no more. */
  leave(some: number) {
    const open = this.open;
    const taken = new Set(open);
    let limit = 3;
    for (let left = some; left > 0; limit++) if (!taken.has(limit)) left--;
    this.#set(limit);
  }

  reset() {
    this.#set(this.#usual);
  }

  #set(most: number) {
    execFileSync('prlimit', ['--pid', String(this.pid), `--nofile=${most}:`]);
  }
}
