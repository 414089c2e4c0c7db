// Answers why a session waits, or is where it is: what was decided about it, and what holds at this moment.
import { OutboardError } from '../base/errors.js';
import type { WhyView } from '../base/view.js';
import type { Decisions } from '../queue/decisions.js';
import { passedMost } from '../queue/overtaking.js';
import type { Placer } from '../queue/placer.js';
import { whyItWaits } from '../queue/reasons.js';
import type { Visitor } from '../queue/visitor.js';
import type { Waiting } from '../queue/waiting.js';
import type { Session } from '../sessions/session.js';

/** What of the live server an answer is made from. */
export interface AskedServer {
  readonly sessions: ReadonlyMap<unknown, Session>;
  readonly quota: { readonly policy: string };
}

/** Throws OB_NO_DECISIONS. */
export function whyOf(server: AskedServer, waiting: Waiting, placer: Placer, id: number): WhyView {
  const visitor = waiting.numbered(id);
  if (visitor) return answer(visitor, 'waiting', whyWaitingNow(visitor, waiting, placer));
  const session = [...server.sessions.values()].find((one) => one.id === id);
  if (session) return answer(session.visitor, 'running', whyRunningNow(session, server));
  const gone = waiting.gone.of(id);
  if (gone) return answer(gone, 'ended', []);
  throw new OutboardError('OB_NO_DECISIONS', id);
}

interface Whose {
  readonly id: number;
  readonly request: { readonly tenant: string; readonly name: string };
  readonly decisions: Decisions;
}

function answer({ id, request, decisions }: Whose, state: WhyView['state'], now: string[]) {
  const { tenant, name } = request;
  return { session: id, tenant, name, state, now, ...decisions.view() };
}

function whyWaitingNow(visitor: Visitor, waiting: Waiting, placer: Placer): string[] {
  const reservation = waiting.reservations.of(visitor);
  if (reservation) {
    const { gpu } = reservation.placement;
    return [`it waits for a process of GPU ${gpu}, where its place is kept`];
  }
  const before = [...waiting.queue].indexOf(visitor);
  const reason = whyItWaits(visitor.waitsFor, visitor.request.tenant);
  const lines = [`position ${before + 1} of ${waiting.queue.length}: ${reason}`];
  if (visitor.passed > 0) {
    const most = `after ${passedMost} nobody may pass it any more`;
    lines.push(`${visitor.passed} of others were served before it since it came; ${most}`);
  }
  if (visitor.overtaken > 0)
    lines.push(`${visitor.overtaken} that came after it were served before it`);
  const lacks = placer.whatGpusLack(visitor.request);
  return [...lines, ...lacks];
}

function whyRunningNow({ placement, share, sample }: Session, { quota }: AskedServer): string[] {
  const lines = [`it is on GPU ${placement.gpu}, with a share of ${share.request}:${share.limit}`];
  const { received, owed, gateWaits, gateSeconds, held } = sample;
  if (received === null || owed === null) return [...lines, 'what it uses is not measured'];
  const had = `in the last second it had ${received.toFixed(1)} percent of the GPU's time`;
  lines.push(`${had}, and by ${quota.policy} a right to ${owed.toFixed(1)}`);
  if (gateWaits > 0) {
    const now = held ? ', and is now' : '';
    lines.push(
      `its work was held back ${gateWaits} times, for ${gateSeconds.toFixed(3)} s altogether${now}`,
    );
  }
  return lines;
}
