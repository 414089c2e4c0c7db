// Gives visitors their turns: finds places for those that come and for those in the queue, and lets their
// sessions begin there (running.ts). Where a place is kept for a visitor, it gets that.

import type { Placement, ServerState, SessionRequest } from '../../policies/state.js';
import { overLimitWithComing, withinTenant } from '../queue/admission.js';
import {
  countOvertaken,
  countPassed,
  type Gpus,
  keptBy,
  passedMost,
  takeTurns,
  type WaitsFor,
} from '../queue/overtaking.js';
import type { Placer } from '../queue/placer.js';
import type { Reservation } from '../queue/reservations.js';
import type { Visitor } from '../queue/visitor.js';
import type { Waiting } from '../queue/waiting.js';
import type { Pool } from '../slots/pool.js';
import type { Running } from './running.js';

/** So long, a visitor waits for what a session that is ending gives back: since it came, and since that began. */
const closingMilliseconds = 500;

export interface TurnsOptions {
  /** Whether one that fits may pass others. */
  skip: boolean;
  pool: Pool;
  placer: Placer;
  waiting: Waiting;
  running: Running;
  state(): ServerState;
  newId(): number;
}

export class Turns {
  readonly #options: TurnsOptions;
  /** Until the first of those who wait for such sessions has waited long enough. */
  #patience: { timer: NodeJS.Timeout; until: number } | undefined;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** The GPUs where a new one may be served now, or what it has to wait for behind others, even if it fits. */
  leftFor(request: SessionRequest): { gpus: Gpus } | WaitsFor {
    const { waiting, pool, skip } = this.#options;
    return keptBy(waiting.before(request), pool.count, skip).leaves(request);
  }

  /** What its place in the queue would be if it came now and had to wait, from 1. */
  positionOf(request: SessionRequest): number {
    return this.#options.waiting.before(request).length + 1;
  }

  /**
   * Serves a visitor that has just come and is not in the queue. `left` is what `leftFor` has returned for it, and
   * `mayWait` says whether the queue has room for it. False: it has to wait, behind others or because there is no place
   * now. True: its session is on its way, or its guest has gone.
   */
  serveArrival(visitor: Visitor, left: { gpus: Gpus } | WaitsFor, mayWait: () => boolean): boolean {
    if (typeof left === 'string') {
      visitor.waitsFor = left;
      return false;
    }
    const served = this.#place(visitor, left.gpus, mayWait);
    const { queue } = this.#options.waiting;
    if (served) countPassed(queue, visitor.request.tenant, served);
    if (served) countOvertaken(queue.arrived, visitor, served);
    return served !== null;
  }

  /** Serves those in the queue for whom there is a place. To be called when something has become free. */
  serveQueue() {
    const { waiting, pool, skip } = this.#options;
    // Where a tenant's limit leaves too little for one, it does for others that ask for the same.
    const full = new Set<string>();
    waiting.arrange();
    takeTurns([...waiting.queue], pool.count, skip, (visitor, allowed) => {
      const { tenant, gpus, memory, tenantMemory, tenantSessions } = visitor.request;
      const wish = [tenant, gpus, memory, tenantMemory, tenantSessions].join();
      if (full.has(wish)) {
        visitor.waitsFor = 'own limit';
        return null;
      }
      const served = this.#place(visitor, allowed, () => true);
      if (served) {
        waiting.leave(visitor);
        countOvertaken(waiting.queue.arrived, visitor, served);
      } else if (visitor.waitsFor === 'own limit') full.add(wish);
      else this.orderProcesses(visitor, allowed);
      return served;
    });
  }

  /**
   * Places a visitor on some of these GPUs and begins its session. Returns which, or none where its guest has gone; null
   * when there is no place for it now, or a better one in a moment and it may wait.
   */
  #place(visitor: Visitor, allowed: Gpus, mayWait: () => boolean): readonly number[] | null {
    const { waiting, running, newId } = this.#options;
    const request = this.allowedNow({ ...visitor.request, allowed });
    const { placer } = this.#options;
    const placements = request && placer.place(request);
    const [first, ...others] = placements ?? [];
    if (request) for (const what of placer.failures) visitor.decisions.add('policy', what);
    if (!placements || !first) {
      // Also for what is on GPUs that others keep.
      visitor.waitsFor = this.#whyItWaits(visitor, this.allowedNow(visitor.request));
      return null;
    }
    if (this.#growsSoon(visitor, placements) && mayWait()) {
      visitor.waitsFor = 'closing session';
      this.#serveAgain(visitor.arrived + closingMilliseconds);
      return null;
    }
    const detached = visitor.client.detach();
    if (!detached) {
      waiting.abandon(visitor);
      return [];
    }
    visitor.decisions.add('placement', placer.whyPlaced(request, placements));
    const group = { id: visitor.id, gpus: placements.map(({ gpu }) => gpu) };
    const tickets = waiting.reservations.keep(group, visitor.request, others, newId);
    running.handOver(visitor, { group, ordinal: 0 }, first, detached, tickets);
    return group.gpus;
  }

  /**
   * Whether the visitor would get as much memory there as is left, and a session is giving some back: a program that
   * begins when another has ended has what that had.
   */
  #growsSoon({ request, arrived }: Visitor, placements: readonly Placement[]): boolean {
    const { pool, running } = this.#options;
    if (request.memory !== null || !pool.halves) return false;
    const now = performance.now();
    if (now >= arrived + closingMilliseconds) return false;
    return [...running.sessions.values()].some(
      ({ closingSince, placement }) =>
        closingSince !== null &&
        now < closingSince + closingMilliseconds &&
        placements.some(({ gpu }) => gpu === placement.gpu),
    );
  }

  /** Serves the queue then, on performance's clock, or before. */
  #serveAgain(until: number) {
    if (this.#patience && this.#patience.until <= until) return;
    clearTimeout(this.#patience?.timer);
    const timer = setTimeout(
      () => {
        this.#patience = undefined;
        this.serveQueue();
      },
      // Timers know whole milliseconds, and may be one early.
      Math.ceil(until - performance.now()) + 1,
    ).unref();
    this.#patience = { timer, until };
  }

  /**
   * Begins the session for which a place is kept, if its guest has come and the process there is free. To be
   * called when either has become so.
   */
  fillReservation(reservation: Reservation) {
    const { waiting, running, pool } = this.#options;
    const { visitor, seat, placement } = reservation;
    if (!visitor || pool.slot(placement).state !== 'free') return;
    const detached = visitor.client.detach();
    if (detached) {
      waiting.reservations.take(reservation);
      running.handOver(visitor, seat, placement, detached);
    } else {
      waiting.reservations.drop(reservation);
      waiting.abandon(visitor);
      this.serveQueue();
    }
  }

  /** The request within its tenant's limits (withinTenant); null: it waits for its own tenant. */
  allowedNow(request: SessionRequest): SessionRequest | null {
    if (this.#waitsForProcess(request)) return null;
    return withinTenant(request, this.#options.state(), this.#options.pool.halves);
  }

  #waitsForProcess(request: SessionRequest): boolean {
    const { state, pool } = this.#options;
    const coming = pool.comingFor(request.tenant);
    return coming > 0 && overLimitWithComing(request, state(), coming);
  }

  /** `request`: what `allowedNow` has returned. */
  #whyItWaits(visitor: Visitor, request: SessionRequest | null): WaitsFor {
    if (!request) return this.#waitsForProcess(visitor.request) ? 'own process' : 'own limit';
    // As long as others may pass it anyway, it makes no difference.
    if (this.#options.skip && visitor.passed < passedMost) return 'others';
    return this.#options.placer.whyNotPlaced(request);
  }

  /** Has processes made new on these GPUs if it waits for nothing else; returns whether that is so. */
  orderProcesses(visitor: Visitor, allowed: Gpus): boolean {
    if (visitor.waitsFor === 'closing session') return false;
    if (this.#waitsForProcess(visitor.request)) return true;
    const request = this.allowedNow({ ...visitor.request, allowed });
    return request !== null && this.#options.placer.renewFor(request);
  }
}
