// Gives visitors their turns: finds places for those that come and for those in the queue, and lets their
// sessions begin there (running.ts). Where a place is kept for a visitor, it gets that.

import type { ServerState, SessionRequest } from '../../policies/state.js';
import { waitsForProcess, withinTenant } from '../queue/admission.js';
import {
  hasPassed,
  inTheWay,
  passedMost,
  takeTurns,
  type Waiter,
  type WaitsFor,
} from '../queue/overtaking.js';
import type { Placer } from '../queue/placer.js';
import type { Reservation } from '../queue/reservations.js';
import type { Visitor } from '../queue/visitor.js';
import type { Waiting } from '../queue/waiting.js';
import type { Pool } from '../slots/pool.js';
import type { Running } from './running.js';

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

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /** The waiter behind whom a new one has to wait, even if it fits now; undefined: there is none. */
  inTheWay({ tenant }: SessionRequest): Waiter | undefined {
    return inTheWay(this.#options.waiting.queue, tenant, this.#options.skip);
  }

  /**
   * Serves a visitor that has just come and is not in the queue. `before` is what `inTheWay` has returned for
   * it. False: it has to wait, behind that one or because there is no place now. True: its session is on its
   * way, or its guest has gone.
   */
  comes(visitor: Visitor, before: Waiter | undefined): boolean {
    if (before) {
      visitor.waitsFor = before.waitsFor;
      return false;
    }
    const served = this.#offer(visitor);
    if (served) hasPassed(this.#options.waiting.queue, visitor.request.tenant);
    return served;
  }

  /** Serves those in the queue for whom there is a place. To be called when something has become free. */
  serve() {
    const { waiting, skip } = this.#options;
    // Where a tenant's limit leaves too little for one, it does for others that ask for the same.
    const full = new Set<string>();
    takeTurns([...waiting.queue], skip, (visitor) => {
      const { tenant, gpus, memory, tenantMemory, tenantSessions } = visitor.request;
      const wish = [tenant, gpus, memory, tenantMemory, tenantSessions].join();
      if (full.has(wish)) visitor.waitsFor = 'own limit';
      else if (this.#offer(visitor)) return waiting.leave(visitor);
      else if (visitor.waitsFor === 'own limit') full.add(wish);
      else this.renewFor(visitor);
      return false;
    });
  }

  /** Places a visitor and begins its session. Returns false when there is no place for it now. */
  #offer(visitor: Visitor): boolean {
    const { waiting, running, newId } = this.#options;
    const request = this.within(visitor.request);
    const placements = request && this.#options.placer.place(request);
    const [first, ...others] = placements ?? [];
    if (!placements || !first) {
      visitor.waitsFor = this.#waitsFor(visitor, request);
      return false;
    }
    const offered = visitor.client.offer();
    if (!offered) {
      waiting.abandon(visitor);
      return true;
    }
    const group = { id: visitor.id, gpus: placements.map(({ gpu }) => gpu) };
    const tickets = waiting.reservations.keep(group, visitor.request, others, newId);
    running.offer(visitor, { group, ordinal: 0 }, first, offered, tickets);
    return true;
  }

  /**
   * Begins the session for which a place is kept, if its guest has come and the process there is free. To be
   * called when either has become so.
   */
  fill(reservation: Reservation) {
    const { waiting, running, pool } = this.#options;
    const { visitor, seat, placement } = reservation;
    if (!visitor || pool.slot(placement).state !== 'free') return;
    const offered = visitor.client.offer();
    if (offered) {
      waiting.reservations.take(reservation);
      running.offer(visitor, seat, placement, offered);
    } else {
      waiting.reservations.drop(reservation);
      waiting.abandon(visitor);
      this.serve();
    }
  }

  /** The request within its tenant's limits (withinTenant); null: it waits for its own tenant. */
  within(request: SessionRequest): SessionRequest | null {
    if (this.#waitsForProcess(request)) return null;
    return withinTenant(request, this.#options.state(), this.#options.pool.halves);
  }

  #waitsForProcess(request: SessionRequest): boolean {
    const { state, pool } = this.#options;
    const coming = pool.comingFor(request.tenant);
    return coming > 0 && waitsForProcess(request, state(), coming);
  }

  /** `request`: what `within` has returned. */
  #waitsFor(visitor: Visitor, request: SessionRequest | null): WaitsFor {
    if (!request) return this.#waitsForProcess(visitor.request) ? 'own process' : 'own limit';
    // As long as others may pass it anyway, it makes no difference.
    if (this.#options.skip && visitor.passed < passedMost) return 'others';
    return this.#options.placer.waitsFor(request);
  }

  /** Makes processes new if it waits for nothing else; returns whether that is so. */
  renewFor(visitor: Visitor): boolean {
    if (this.#waitsForProcess(visitor.request)) return true;
    const request = this.within(visitor.request);
    return request !== null && this.#options.placer.renewFor(request);
  }
}
