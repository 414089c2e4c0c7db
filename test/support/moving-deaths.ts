// Processes that die while a session moves between them.
import type { Operator } from './moving.js';

export const phases = ['starting', 'preparing', 'transferring'] as const;
export type Who = 'source' | 'target';

/** The session's phase is at least this one, or the move has been answered. */
export async function until(
  operator: Operator,
  id: number,
  phase: (typeof phases)[number],
  moving: Promise<unknown>,
) {
  let over = false;
  void moving.then(() => {
    over = true;
  });
  while (!over) {
    const session = (await operator.state()).sessions.find((one) => one.id === id);
    const now = session?.moving ?? null;
    if (now !== null && phases.indexOf(now) >= phases.indexOf(phase)) return;
  }
}

/** Ends the process of the session, or that which it is to move to: the first on the other GPU that is not at rest. */
export async function kill(operator: Operator, id: number, who: Who) {
  const { sessions, gpus } = await operator.state();
  const session = sessions.find((one) => one.id === id);
  const target = gpus
    .filter(({ index }) => index !== session?.gpu)
    .flatMap(({ slots }) => slots)
    .find(({ state }) => state !== 'free');
  const pid = who === 'source' ? session?.slotPid : target?.pid;
  // It may have ended by itself meanwhile.
  if (pid) ended(pid);
}

export function ended(pid: number) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {}
}
