// What the threads of a process did in some time, as /proc tells.
import { readdirSync, readFileSync } from 'node:fs';

export interface Counts {
  name: string;
  /** Of processor time. */
  nanoseconds: number;
  /** How often it has gone to sleep, each time to be woken again. */
  sleeps: number;
}

/** By thread; those that end while they are looked at are left out. */
export function threadsOf(pid: number): Map<number, Counts> {
  const threads = new Map<number, Counts>();
  for (const id of readdirSync(`/proc/${pid}/task`).map(Number)) {
    const read = (file: string) => readFileSync(`/proc/${pid}/task/${id}/${file}`, 'utf8');
    try {
      const nanoseconds = Number(read('schedstat').split(' ')[0]);
      const sleeps = Number(/^voluntary_ctxt_switches:\s*(\d+)$/m.exec(read('status'))?.[1]);
      threads.set(id, { name: read('comm').trim(), nanoseconds, sleeps });
    } catch (error) {
      if (!gone(error)) throw error;
    }
  }
  return threads;
}

function gone(error: unknown): boolean {
  return error instanceof Error && /ENOENT|ESRCH/.test(error.message);
}

/** The threads of one name, together. */
export interface Activity {
  thread: string;
  count: number;
  /** Percent of a core. */
  cpu: number;
  /** Per second. */
  wakeUps: number;
}

export function activity(
  before: Map<number, Counts>,
  after: Map<number, Counts>,
  seconds: number,
): Activity[] {
  const byName = new Map<string, Activity>();
  for (const [id, { name, nanoseconds, sleeps }] of after) {
    const was = before.get(id) ?? { nanoseconds: 0, sleeps: 0 };
    const mine = byName.get(name) ?? { thread: name, count: 0, cpu: 0, wakeUps: 0 };
    byName.set(name, {
      thread: name,
      count: mine.count + 1,
      cpu: mine.cpu + (nanoseconds - was.nanoseconds) / 1e7 / seconds,
      wakeUps: mine.wakeUps + (sleeps - was.sleeps) / seconds,
    });
  }
  return [...byName.values()].sort((one, other) => other.wakeUps - one.wakeUps);
}
