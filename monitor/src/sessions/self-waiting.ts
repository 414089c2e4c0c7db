// Programs that may wait for themselves: a parent has a session and waits for its children, which wait for
// a GPU. Nobody can know that for sure. But where all sessions are of the same program as the one that
// waits, nobody else will ever make room. A pure function.

import type { Visitor } from '../queue/visitor.js';
import type { Session } from './session.js';

/** Nothing is said to one who has waited for less. */
export const suspectSeconds = 5;

/** What to say to the one who waits; null: nothing. */
export function selfWaiting(waiting: Visitor, sessions: readonly Session[]): string | null {
  const { request, hello, waitsFor } = waiting;
  if (waitsFor === 'usable gpu' || waitsFor === 'own process') return null;
  const there = sessions.filter(({ placement, visitor }) =>
    waitsFor === 'others'
      ? (request.allowed?.includes(placement.gpu) ?? true)
      : visitor.request.tenant === request.tenant,
  );
  const same = ({ visitor }: Session) =>
    visitor.request.tenant === request.tenant &&
    visitor.request.name === request.name &&
    visitor.hello.host === hello.host;
  if (there.length === 0 || !there.every(same)) return null;
  const less =
    request.shareRequest > 0
      ? 'OUTBOARD_SHARE (`outboard run --share`) or OUTBOARD_MEMORY (`--memory`)'
      : 'OUTBOARD_MEMORY (`outboard run --memory`)';
  return (
    `all sessions (${there.length}) that this one waits for are of ${request.name} on this machine, too: if they wait ` +
    `for it, as a parent does for its workers, none goes on. Let each ask for less with ${less}, or serve more at ` +
    'a time with `outboard serve --servers-per-gpu`'
  );
}
