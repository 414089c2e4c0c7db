// A program with several GPUs has a session on each, with a connection of its own. All are placed together.
// The first one's Welcome has a ticket for each of the others, whose places are kept until a connection
// comes with the ticket.
import { randomBytes } from 'node:crypto';
import type { Placement, SessionRequest, SessionState } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { Pool } from '../slots/pool.js';
import type { Visitor } from './visitor.js';

/** The sessions of one program. */
export interface Group {
  /** The number of the first session. */
  readonly id: number;
  /** The GPU of each session, in order. */
  readonly gpus: readonly number[];
}

/** Which session of a group. */
export interface Seat {
  readonly group: Group;
  /** By the order of the program's GPUs; 0: the first. */
  readonly ordinal: number;
}

/** A place that is kept for a session to come. */
export interface Reservation {
  /** The number that the session will have. */
  readonly id: number;
  readonly seat: Seat;
  readonly request: SessionRequest;
  readonly placement: Placement;
  /** What a connection has to bring for the place; null: one has brought it. */
  ticket: string | null;
  /** Who has come with the ticket and waits, because the process is being replaced; null: nobody. */
  visitor: Visitor | null;
  timer: NodeJS.Timeout | undefined;
}

/** 192 random bits, which nobody guesses. */
const ticketBytes = 24;

export class Reservations {
  readonly #pool: Pool;
  readonly #seconds: number;
  readonly #onExpired: (reservation: Reservation) => void;
  readonly #all = new Set<Reservation>();
  readonly #byTicket = new Map<string, Reservation>();

  /** `seconds`: for how long a place is kept; `onExpired` is called after it was given back. */
  constructor(pool: Pool, seconds: number, onExpired: (reservation: Reservation) => void) {
    this.#pool = pool;
    this.#seconds = seconds;
    this.#onExpired = onExpired;
  }

  /**
   * Keeps the places of a group's sessions other than the first, and returns a ticket for each. `newId` gives
   * each session its number. The time for which they are kept begins with `open`.
   */
  keep(
    group: Group,
    request: SessionRequest,
    others: readonly Placement[],
    newId: () => number,
  ): string[] {
    return others.map((placement, index) => {
      const ticket = randomBytes(ticketBytes).toString('hex');
      const seat = { group, ordinal: index + 1 };
      const reservation = this.#add(newId(), seat, request, placement);
      reservation.ticket = ticket;
      this.#byTicket.set(ticket, reservation);
      return ticket;
    });
  }

  /** The tickets of the group are sent now: the time for its places begins. */
  open({ id }: Group) {
    for (const reservation of this.#all) {
      if (reservation.seat.group.id === id) this.#limit(reservation);
    }
  }

  /**
   * The place that the ticket is for. A ticket can be used once. Throws OB_TICKET; also where another tenant
   * brings it, which so does not learn that it exists.
   */
  claim(ticket: string, tenant: string): Reservation {
    const reservation = this.#byTicket.get(ticket);
    if (reservation?.request.tenant !== tenant) {
      throw new OutboardError('OB_TICKET', this.#seconds);
    }
    this.#byTicket.delete(ticket);
    reservation.ticket = null;
    return reservation;
  }

  /** Keeps its place for a guest whose process was lost before it had begun, until there is another. */
  again(visitor: Visitor, seat: Seat, placement: Placement) {
    const reservation = this.#add(visitor.id, seat, visitor.request, placement);
    reservation.visitor = visitor;
    this.#limit(reservation);
  }

  /** A session takes the place: it is not kept any more. */
  take(reservation: Reservation) {
    this.#forget(reservation);
  }

  /** Gives the place back. */
  drop(reservation: Reservation) {
    this.#forget(reservation);
    this.#pool.release(reservation.placement);
  }

  /** Gives back the places of a group for which nobody has come. */
  dropUnclaimed({ id }: Group) {
    for (const reservation of this.#all) {
      const { seat, ticket } = reservation;
      if (seat.group.id === id && ticket !== null) this.drop(reservation);
    }
  }

  /** Returns the reservation of that slot of that GPU; undefined: there is none. */
  at(gpu: number, slot: number): Reservation | undefined {
    return this.#find(({ placement }) => placement.gpu === gpu && placement.slot === slot);
  }

  /** The visitors that wait for the process of the place that is kept for them. */
  get waiting(): Visitor[] {
    return [...this.#all].flatMap(({ visitor }) => visitor ?? []);
  }

  /** Returns the reservation for whose process a visitor waits. */
  of(visitor: Visitor): Reservation | undefined {
    return this.#find((reservation) => reservation.visitor === visitor);
  }

  /** Returns the kept places of a GPU as sessions, since placement and limits count them like these. */
  statesOn(gpu: number, now: number): SessionState[] {
    return [...this].filter(({ placement }) => placement.gpu === gpu).map((one) => state(one, now));
  }

  [Symbol.iterator](): Iterator<Reservation> {
    return [...this.#all][Symbol.iterator]();
  }

  #find(fits: (reservation: Reservation) => boolean): Reservation | undefined {
    for (const reservation of this.#all) if (fits(reservation)) return reservation;
    return undefined;
  }

  #add(id: number, seat: Seat, request: SessionRequest, placement: Placement): Reservation {
    this.#pool.reserve(placement);
    const nobody = { ticket: null, visitor: null, timer: undefined };
    const reservation: Reservation = { id, seat, request, placement, ...nobody };
    this.#all.add(reservation);
    return reservation;
  }

  #limit(reservation: Reservation) {
    reservation.timer = setTimeout(() => {
      this.drop(reservation);
      this.#onExpired(reservation);
    }, this.#seconds * 1000);
  }

  #forget(reservation: Reservation) {
    clearTimeout(reservation.timer);
    this.#all.delete(reservation);
    if (reservation.ticket !== null) this.#byTicket.delete(reservation.ticket);
  }
}

function state({ id, seat, request, placement }: Reservation, now: number): SessionState {
  const { tenant, name, class: kind, shareRequest, shareLimit } = request;
  const { slot, memory } = placement;
  const promised = { memory, used: 0n, shareRequest, shareLimit };
  return { id, group: seat.group.id, tenant, name, class: kind, slot, ...promised, started: now };
}
