// Moves sessions from one API server process to another (docs/moving.md). A move is what its two processes have
// said: the session is where the target says that it has arrived; it stays where the source says that; and where one of
// them has gone, the other one's word is waited for. Whoever has nothing more to say is given back.
import { closeSync } from 'node:fs';
import { hindrances } from '../../../api-server/generated/hindrances.js';
import { hindrancesOf } from '../../../api-server/src/native.js';
import type { GpuState, Placement } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { MoveView, Observer } from '../base/view.js';
import type { Pool } from '../slots/pool.js';
import type { Slot } from '../slots/slot.js';
import { type MoveWish, targetOf } from './move-target.js';
import type { Session } from './session.js';

export interface MoverOptions {
  pool: Pool;
  gpus: () => readonly GpuState[];
  observer: Observer;
  /** The session is in that process from now on. */
  onArrived(session: Session, slot: Slot, placement: Placement): void;
  /** Both processes are gone, and the session with them. */
  onLost(session: Session, how: string): void;
}

interface Move {
  session: Session;
  source: Slot;
  /** Reserved for it; null: that was given back. */
  from: Placement | null;
  to: Placement;
  began: number;
  /** Whether a process is being started for it. */
  starting: boolean;
  /** That process. */
  target: Slot | null;
  /** What was said of the session by either process, or that it has gone; null: nothing yet. */
  sourceSays: 'moved' | 'stays' | 'gone' | null;
  targetSays: 'arrived' | 'gone' | null;
  why: string;
  /** For how long its commands were not carried out, as its old process says. */
  stoppedMs: number;
  /** The end of the link for the source, until it has it. */
  link: number | null;
  done(result: MoveView): void;
  failed(error: OutboardError): void;
}

export class Mover {
  readonly #options: MoverOptions;
  /** Those of which it is not known yet where the session is. */
  readonly #open = new Map<Session, Move>();
  /** From when a target has the offer until nothing of the session is there, or all of it. */
  readonly #byTarget = new Map<Slot, Move>();
  /** Of sessions that have arrived elsewhere: until their old processes have nothing of them any more. */
  readonly #left = new Map<Slot, Move>();

  constructor(options: MoverOptions) {
    this.#options = options;
  }

  /** Resolves when the session is elsewhere. Throws OB_MOVE where it stays. */
  async move(session: Session, wish: MoveWish): Promise<MoveView> {
    const refuse = (why: string) => new OutboardError('OB_MOVE', session.id, why);
    await session.slot.look();
    const why = this.#whyNot(session);
    if (why !== null) throw refuse(why);
    const { gpu, memory } = session.placement;
    const { allowed } = session.visitor.request;
    const { id, share } = session;
    const moved = { id, gpu, memory, shareRequest: share.request, allowed };
    const target = targetOf(this.#options.gpus(), moved, wish);
    if (typeof target === 'string') throw refuse(target);
    const fresh = this.#options.pool.freshFor(session.slot, target, memory);
    if (!fresh) throw refuse(`GPU ${target} has no free slot`);
    return await new Promise((done, failed) => {
      const move: Move = {
        session,
        source: session.slot,
        from: session.placement,
        to: fresh.placement,
        began: performance.now(),
        starting: true,
        target: null,
        sourceSays: null,
        targetSays: null,
        why: '',
        stoppedMs: 0,
        link: null,
        done,
        failed,
      };
      this.#open.set(session, move);
      session.moving = 'starting';
      session.log.info({ to: target }, 'is to move');
      void fresh.warm.then((slot) => this.#warm(move, slot));
    });
  }

  /** The end of a sentence; null: nothing that is known hinders. */
  #whyNot(session: Session): string | null {
    if (this.#open.has(session)) return 'it is being moved already';
    if (!session.begun) return 'it has not begun yet';
    if (session.ending !== null || session.closingSince !== null) return 'it ends';
    const names: readonly string[] = hindrancesOf(session.slot.counters?.hindrances ?? 0n);
    const about = hindrances.filter(({ name }) => names.includes(name));
    if (about.length > 0) return `it has ${about.map((one) => one.about).join('; and it has ')}`;
    return null;
  }

  /** The target's process is warm, or there is none: it is offered the session. */
  #warm(move: Move, slot: Slot | null) {
    const { session, source } = move;
    move.starting = false;
    if (this.#open.get(session) !== move) return this.#giveBack(move);
    if (!slot) return this.#stays(move, 'no process could be started for it there');
    if (!session.offer) return this.#stays(move, 'it ends');
    move.target = slot;
    this.#byTarget.set(slot, move);
    session.moving = 'preparing';
    const { here, there } = this.#options.pool.native.socketPair('bytes');
    move.link = here;
    const { base, size } = source.window;
    const offer = {
      ...session.offer,
      arrives: true,
      expected: [],
      leftover: new Uint8Array(),
      windowBases: [base],
      windowSize: size,
      tickets: [],
      trace: null,
    };
    slot.offer(offer, { fd: there });
    closeSync(there);
  }

  /** True: it was for a session that moves. */
  prepared(slot: Slot): boolean {
    const move = this.#byTarget.get(slot);
    if (!move) return false;
    slot.begin();
    const { session, link, source } = move;
    const told = link !== null && source.move(link);
    this.#closeLink(move);
    if (this.#open.get(session) !== move) slot.end('the session is over');
    else if (told) session.moving = 'transferring';
    else this.#stays(move, 'its process cannot be told');
    return true;
  }

  /** True: it was for a session that moves. */
  declined(slot: Slot, why: string): boolean {
    const move = this.#byTarget.get(slot);
    if (!move) return false;
    move.targetSays = 'gone';
    if (this.#open.get(move.session) === move) this.#stays(move, why);
    else this.#giveBack(move);
    return true;
  }

  arrived(slot: Slot) {
    const move = this.#byTarget.get(slot);
    if (!move || this.#open.get(move.session) !== move) return;
    move.targetSays = 'arrived';
    this.#settle(move);
  }

  moved(slot: Slot, stoppedMs: number) {
    const left = this.#left.get(slot);
    const move = left ?? this.#of(slot);
    if (!move) return;
    move.stoppedMs = stoppedMs;
    move.sourceSays = 'moved';
    if (left) this.#finish(left);
    else this.#settle(move);
  }

  stays(slot: Slot, why: string) {
    const move = this.#of(slot);
    if (move) this.#stays(move, why);
  }

  /**
   * The session of a process is over there, because it has moved or has ended; or the process has gone. True: no
   * session ends with that.
   */
  over(slot: Slot, how: string, what: 'moved' | 'ended' | 'exit'): boolean {
    const left = this.#left.get(slot);
    if (left) {
      this.#finish(left);
      this.#left.delete(slot);
      this.#release(left);
      return true;
    }
    const coming = this.#byTarget.get(slot);
    if (coming) {
      coming.targetSays = 'gone';
      const open = this.#open.get(coming.session) === coming;
      const why = `the process that it was to move to ended (${how})`;
      // The source may have it, may not, or may not even know of the move.
      if (open && coming.session.moving !== 'transferring') this.#stays(coming, why);
      else if (open) {
        coming.why ||= why;
        this.#settle(coming);
      } else this.#giveBack(coming);
      return true;
    }
    const move = this.#of(slot);
    if (!move) return false;
    if (what === 'ended' || (what === 'exit' && move.session.moving !== 'transferring')) {
      this.#stays(move, 'it has ended');
      return false;
    }
    // Only the target's word counts now.
    move.sourceSays = what === 'moved' ? 'moved' : 'gone';
    move.why ||= how;
    this.#release(move);
    this.#settle(move);
    return true;
  }

  #of(source: Slot): Move | undefined {
    for (const move of this.#open.values()) if (move.source === source) return move;
    return undefined;
  }

  #stays(move: Move, why: string) {
    move.sourceSays = 'stays';
    move.why ||= why;
    this.#settle(move);
  }

  #settle(move: Move) {
    const { session, sourceSays, targetSays, target, to } = move;
    if (targetSays === 'arrived' && target) {
      this.#close(move);
      this.#byTarget.delete(target);
      this.#options.onArrived(session, target, to);
      if (sourceSays !== null) this.#finish(move);
      if (move.from) this.#left.set(move.source, move);
    } else if (sourceSays === 'stays') {
      this.#close(move);
      session.log.warn({ to: to.gpu }, `stays where it is: ${move.why}`);
      this.#options.observer.moved('stayed', secondsSince(move.began));
      move.failed(new OutboardError('OB_MOVE', session.id, move.why));
      // Who wanted to end it meanwhile may not have been heard.
      if (session.ending !== null) session.slot.end(session.ending);
      if (target && targetSays === null) target.end('the session stays where it was');
      else this.#giveBack(move);
    } else if (targetSays === 'gone' && sourceSays !== null) {
      this.#close(move);
      this.#giveBack(move);
      this.#options.observer.moved('lost', secondsSince(move.began));
      move.failed(new OutboardError('OB_MOVE', session.id, `both processes ended (${move.why})`));
      this.#options.onLost(session, move.why);
    }
  }

  /** It is there, and its old process has said for how long it stood still, or will not. */
  #finish(move: Move) {
    const { session, source, target, to, began, stoppedMs } = move;
    // It has been said.
    if (!target) return;
    move.target = null;
    const seconds = secondsSince(began);
    const stopped = { stoppedSeconds: stoppedMs / 1000 };
    session.log.info({ from: source.gpu, to: to.gpu, seconds, ...stopped }, 'has moved');
    this.#options.observer.moved('moved', seconds);
    move.done({
      session: session.id,
      from: { gpu: source.gpu, slot: source.index },
      to: { gpu: target.gpu, slot: target.index },
      seconds,
      ...stopped,
    });
  }

  #close(move: Move) {
    this.#closeLink(move);
    this.#open.delete(move.session);
    move.session.moving = null;
  }

  #closeLink(move: Move) {
    if (move.link !== null) closeSync(move.link);
    move.link = null;
  }

  /** What was reserved where the session has been. */
  #release(move: Move) {
    if (move.from) this.#options.pool.release(move.from);
    move.from = null;
  }

  /** What was reserved where it is not going to be; once its process has started. */
  #giveBack(move: Move) {
    if (move.starting) return;
    if (move.target) this.#byTarget.delete(move.target);
    this.#options.pool.giveBack(move.to);
  }
}

function secondsSince(began: number): number {
  return (performance.now() - began) / 1000;
}
