// Who has said Hello and has no process yet: in the queue, or where a place is kept for it.

import { OutboardError } from '../base/errors.js';
import type { Observer } from '../base/view.js';
import type { Client } from '../guests/client.js';
import type { Pool } from '../slots/pool.js';
import type { Tenant } from '../tenants/tenants.js';
import { Queue } from './queue.js';
import { type Reservation, Reservations } from './reservations.js';
import type { Visitor } from './visitor.js';

/** How often those who wait hear of a new place at most: many leave at once. */
const tellMilliseconds = 100;

export interface QueueMost {
  queueMax: number;
  queueMaxOfTenant: number;
}

export class Waiting {
  readonly queue = new Queue<Visitor>(({ client }, position) => client.queued(position));
  readonly reservations: Reservations;
  readonly #observer: Observer;
  readonly #visitors = new Map<Client, Visitor>();
  #telling: NodeJS.Timeout | undefined;

  /** `claimSeconds`: for how long a place is kept; `onExpired` is told when that is over. */
  constructor(
    pool: Pool,
    claimSeconds: number,
    observer: Observer,
    onExpired: (reservation: Reservation) => void,
  ) {
    this.#observer = observer;
    this.reservations = new Reservations(pool, claimSeconds, onExpired);
  }

  /** From here on, if the guest goes, `left` knows whose client it was. */
  enter(visitor: Visitor) {
    this.#visitors.set(visitor.client, visitor);
  }

  /** The client is gone; undefined: it did not wait. */
  left(client: Client): Visitor | undefined {
    const visitor = this.#visitors.get(client);
    this.#visitors.delete(client);
    return visitor && this.leave(visitor) ? visitor : undefined;
  }

  /** False when it did not wait. */
  leave(visitor: Visitor): boolean {
    const reservation = this.reservations.of(visitor);
    if (reservation) {
      this.reservations.drop(reservation);
      return true;
    }
    const waited = this.queue.remove(visitor);
    if (waited) this.#tell();
    return waited;
  }

  /** Throws the refusal of one more who would have to wait. */
  checkRoom(tenant: Tenant | null, { queueMax, queueMaxOfTenant }: QueueMost) {
    if (this.queue.length >= queueMax) throw new OutboardError('OB_QUEUE_FULL', queueMax);
    if (!tenant) return;
    const { name } = tenant;
    const own = [...this.queue].filter(({ request }) => request.tenant === name).length;
    if (own >= queueMaxOfTenant) throw new OutboardError('OB_TENANT_QUEUE', own, name);
  }

  /** For one whose process was lost: to where it was. */
  putBack(visitor: Visitor) {
    this.queue.putBack(visitor, (other) => other.id > visitor.id);
    this.#tell();
  }

  /** By the number that its session will have. */
  numbered(id: number): Visitor | undefined {
    return [...this.queue, ...this.reservations.waiting].find((visitor) => visitor.id === id);
  }

  /** Tells the guest why not. `tenant` null: not known. */
  refuse(client: Client, error: OutboardError, tenant: string | null) {
    this.#visitors.delete(client);
    client.refuse(error);
    this.#observer.refused(error.code, tenant);
  }

  /** Its process has the connection for itself. */
  release({ client }: Visitor) {
    this.#visitors.delete(client);
    client.release();
  }

  /** Not connected any more, or it has not taken what was sent to it: nobody to serve. */
  abandon({ client }: Visitor) {
    this.#visitors.delete(client);
    client.destroy();
  }

  /** Tells those who have waited so long; whether there were any. */
  dismissLate(seconds: number): boolean {
    const oldest = performance.now() - seconds * 1000;
    const late = [...this.queue].filter((visitor) => visitor.arrived < oldest);
    for (const visitor of late) {
      this.leave(visitor);
      const error = new OutboardError('OB_QUEUE_TIMEOUT', seconds);
      this.refuse(visitor.client, error, visitor.request.tenant);
    }
    return late.length > 0;
  }

  dismissQueue(error: OutboardError) {
    for (const { client, request } of this.queue.takeAll()) {
      this.refuse(client, error, request.tenant);
    }
  }

  /** Gives back what is kept, too. */
  dismissAll(error: OutboardError) {
    this.dismissQueue(error);
    for (const reservation of this.reservations) {
      this.reservations.drop(reservation);
      const { visitor } = reservation;
      if (visitor) this.refuse(visitor.client, error, visitor.request.tenant);
    }
  }

  #tell() {
    this.#telling ??= setTimeout(() => {
      this.#telling = undefined;
      this.queue.tellAll();
    }, tellMilliseconds);
  }
}
