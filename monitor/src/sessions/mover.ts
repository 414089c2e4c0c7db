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
import type { Tenants } from '../tenants/tenants.js';
import { Move } from './move.js';
import { type MoveWish, targetOf } from './move-target.js';
import type { Session } from './session.js';

export interface MoverOptions {
  pool: Pool;
  gpus: () => readonly GpuState[];
  /** Null: there are none. */
  tenants: Tenants | null;
  observer: Observer;
  /** The session is in that process from now on. */
  onArrived(session: Session, slot: Slot, placement: Placement): void;
  /** Both processes are gone, and the session with them. */
  onLost(session: Session, how: string): void;
}

/** How long a move may take until its session is known to be somewhere: 64 GiB and a thousand modules take a part. */
const moveSeconds = 600;
/** And then until both processes have done what is left for them. */
const settledSeconds = 30;

export class Mover {
  readonly #options: MoverOptions;
  /** Until neither process, nor what is reserved for one, is to be seen to. There are few at a time. */
  readonly #moves = new Set<Move>();

  constructor(options: MoverOptions) {
    this.#options = options;
  }

  /** Resolves when the session is elsewhere. Throws OB_MOVE where it stays, and OB_NO_GPU. */
  async move(session: Session, wish: MoveWish): Promise<MoveView> {
    const refuse = (why: string) => new OutboardError('OB_MOVE', session.id, why);
    await session.slot.look();
    const { length } = this.#options.gpus();
    if (wish.gpu !== undefined && wish.gpu >= length)
      throw new OutboardError('OB_NO_GPU', wish.gpu, length - 1);
    const why = this.#whyNot(session);
    if (why !== null) throw refuse(why);
    const target = this.#target(session, wish);
    if (typeof target === 'string') throw refuse(target);
    const fresh = this.#options.pool.freshFor(session.slot, target, session.placement.memory);
    if (!fresh) throw refuse(`GPU ${target} has no free slot`);
    return await new Promise((done, failed) => {
      const move = new Move(session, fresh.placement, done, failed);
      this.#moves.add(move);
      session.move = move;
      session.log.info({ to: target }, 'is to move');
      fresh.warm
        .then((slot) => this.#warm(move, slot))
        .catch((error) => {
          move.starting = false;
          this.#stays(move, (error as Error).message);
        });
      this.#watch(move);
    });
  }

  /** Why no other GPU can have the session now, the end of a sentence; null: one can, as far as is known. */
  whyStays(session: Session): string | null {
    const why = this.#whyNot(session);
    if (why !== null) return why;
    const target = this.#target(session, {});
    return typeof target === 'string' ? target : null;
  }

  #target({ id, share, placement, visitor }: Session, wish: MoveWish): number | string {
    const { gpu, memory } = placement;
    const { allowed } = visitor.request;
    const moved = { id, gpu, memory, shareRequest: share.request, allowed };
    return targetOf(this.#options.gpus(), moved, wish);
  }

  /** The end of a sentence; null: nothing that is known hinders. */
  #whyNot(session: Session): string | null {
    if (session.moving !== null) return 'it is being moved already';
    if (!session.begun) return 'it has not begun yet';
    if (session.ending !== null || session.closingSince !== null) return 'it ends';
    if (this.#forbids(session)) return `its tenant ${session.visitor.request.tenant} forbids moves`;
    const names: readonly string[] = this.hindrances(session);
    const about = hindrances.filter(({ name }) => names.includes(name));
    if (about.length > 0) return `it has ${about.map((one) => one.about).join('; and it has ')}`;
    return null;
  }

  /** What keeps it from being moved, by the names of docs/moving.md. */
  hindrances(session: Session): string[] {
    const names = hindrancesOf(session.slot.counters?.hindrances ?? 0n);
    return this.#forbids(session) ? ['tenant', ...names] : names;
  }

  #forbids({ visitor: { request } }: Session): boolean {
    return this.#options.tenants?.named(request.tenant)?.moves === false;
  }

  /** The target's process is warm, or there is none: it is offered the session. */
  #warm(move: Move, slot: Slot | null) {
    const { session, source } = move;
    move.starting = false;
    if (move.outcome !== null) return this.#giveBack(move);
    if (!slot) return this.#stays(move, 'no process could be started for it there');
    if (!session.offer) return this.#stays(move, 'it ends');
    const link = this.#link();
    if (typeof link === 'string') return this.#stays(move, link);
    move.target = slot;
    move.link = link.here;
    const { base, size } = source.window;
    const offer = {
      ...session.offer,
      arrives: true,
      expected: [],
      learnt: new Uint8Array(),
      leftover: new Uint8Array(),
      tls: null,
      windowBases: [base],
      windowSize: size,
      tickets: [],
      trace: null,
    };
    slot.offer(offer, { fd: link.there });
    closeSync(link.there);
  }

  /** From the source to the target; or why there is none. */
  #link(): { here: number; there: number } | string {
    try {
      return this.#options.pool.native.socketPair('bytes');
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** True: it was for a session that moves. */
  prepared(slot: Slot): boolean {
    const move = this.#to(slot);
    if (!move) return false;
    slot.begin();
    const open = move.outcome === null;
    const told = move.tellSource();
    if (!open) slot.end('the session is over');
    else if (!told) this.#stays(move, 'its process cannot be told');
    return true;
  }

  /** True: it was for a session that moves. */
  declined(slot: Slot, why: string): boolean {
    const move = this.#to(slot);
    if (!move) return false;
    const open = move.outcome === null;
    move.targetSays = 'gone';
    if (open) this.#stays(move, why);
    else this.#giveBack(move);
    return true;
  }

  arrived(slot: Slot) {
    const move = this.#to(slot);
    if (!move || move.outcome !== null) return;
    move.targetSays = 'arrived';
    this.#settle(move);
  }

  moved(slot: Slot, stoppedMs: number) {
    const move = this.#from(slot);
    if (!move || move.outcome === 'here' || move.outcome === 'lost') return;
    move.stoppedMs = stoppedMs;
    move.sourceSays = 'moved';
    if (move.outcome === 'there') this.#finish(move);
    else this.#settle(move);
  }

  stays(slot: Slot, why: string) {
    const move = this.#from(slot);
    if (move?.outcome === null) this.#stays(move, why);
  }

  /**
   * The session of a process is over there, because it has moved or has ended; or the process has gone. True: no
   * session ends with that.
   */
  over(slot: Slot, how: string, what: 'moved' | 'ended' | 'exit'): boolean {
    const coming = this.#to(slot);
    if (coming) {
      const { phase } = coming;
      coming.targetSays = 'gone';
      const why = `the process that it was to move to ended (${how})`;
      // The source may have it, may not, or may not even know of the move.
      if (phase === null) this.#giveBack(coming);
      else if (phase !== 'transferring') this.#stays(coming, why);
      else {
        coming.why ||= why;
        this.#settle(coming);
      }
      return true;
    }
    const move = this.#from(slot);
    if (!move) return false;
    if (move.outcome === 'there' || move.outcome === 'lost') {
      this.#release(move);
      this.#finish(move);
      return true;
    }
    if (move.outcome !== null) return false;
    if (what === 'ended' || (what === 'exit' && move.phase !== 'transferring')) {
      this.#stays(move, 'it has ended');
      return false;
    }
    // Only the target's word counts now. Until it has come nobody else gets the source's place.
    move.sourceSays = what === 'moved' ? 'moved' : 'gone';
    move.sourceIsOver = true;
    move.why ||= how;
    this.#settle(move);
    return true;
  }

  /** The move to that process, unless its session is there. */
  #to(target: Slot): Move | undefined {
    for (const move of this.#moves)
      if (move.target === target && move.outcome !== 'there') return move;
    return undefined;
  }

  /** The move from that process. Where others of the same session have failed before it, the last one. */
  #from(source: Slot): Move | undefined {
    let last: Move | undefined;
    for (const move of this.#moves) if (move.source === source) last = move;
    return last;
  }

  #stays(move: Move, why: string) {
    move.sourceSays = 'stays';
    move.why ||= why;
    this.#settle(move);
  }

  /** Something was said: where the session is known to be somewhere now, that is told. */
  #settle(move: Move) {
    const { session, sourceSays, targetSays, target, to, outcome } = move;
    if (outcome === null) return;
    move.closeLink();
    this.#watch(move);
    if (outcome === 'there') {
      if (target) this.#options.onArrived(session, target, to);
      if (move.sourceIsOver) this.#release(move);
      if (sourceSays !== null) this.#finish(move);
    } else if (outcome === 'here') {
      session.log.warn({ to: to.gpu }, `stays where it is: ${move.why}`);
      this.#options.observer.moved('stayed', move.seconds);
      this.#refuse(move, move.why);
      // Who wanted to end it meanwhile may not have been heard.
      if (session.ending !== null) session.slot.end(session.ending);
      if (target && targetSays === null) target.end('the session stays where it was');
      else this.#giveBack(move);
    } else {
      if (move.sourceIsOver) this.#release(move);
      this.#giveBack(move);
      this.#options.observer.moved('lost', move.seconds);
      this.#refuse(move, `both processes ended (${move.why})`);
      this.#options.onLost(session, move.why);
    }
  }

  /** Has those who do not speak, though they have to, speak by their end. */
  #watch(move: Move) {
    clearTimeout(move.timer);
    if (move.over) return;
    const seconds = move.outcome === null ? moveSeconds : settledSeconds;
    move.timer = setTimeout(() => this.#late(move), seconds * 1000).unref();
  }

  #late(move: Move) {
    const { outcome, phase, target, targetSays, source } = move;
    move.why ||= `it took more than ${moveSeconds} seconds`;
    move.session.log.warn({ to: move.to.gpu, outcome }, 'a process of a move says nothing');
    if (phase === 'starting') this.#stays(move, move.why);
    // The target's end first: the source goes on with the session then, where it has it.
    else if (outcome !== 'there' && target && targetSays === null) target.kill();
    else if (outcome === null ? move.sourceSays === null : outcome !== 'here' && move.from !== null)
      source.kill();
    if (!move.over && move.outcome === outcome) {
      clearTimeout(move.timer);
      move.timer = setTimeout(() => this.#late(move), settledSeconds * 1000).unref();
    }
  }

  #refuse(move: Move, why: string) {
    move.answered = true;
    move.failed(new OutboardError('OB_MOVE', move.session.id, why));
    this.#forget(move);
  }

  /** It is there, and its old process has said for how long it stood still, or will not. */
  #finish(move: Move) {
    const { session, source, target, to, seconds, stoppedMs } = move;
    if (!move.answered && target) {
      move.answered = true;
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
    this.#forget(move);
  }

  #forget(move: Move) {
    if (!move.over) return;
    clearTimeout(move.timer);
    this.#moves.delete(move);
  }

  /** What was reserved where the session has been. */
  #release(move: Move) {
    if (move.from) this.#options.pool.release(move.from);
    move.from = null;
  }

  /** What was reserved where it is not going to be; once its process has started. */
  #giveBack(move: Move) {
    if (move.starting) return;
    this.#options.pool.giveBack(move.to);
    this.#forget(move);
  }
}
