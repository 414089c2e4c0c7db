// Who has said Hello and has no process yet: in the queue, or where a place is kept for it.

import { OutboardError } from '../base/errors.js';
import type { Observer } from '../base/view.js';
import type { Client } from '../guests/client.js';
import type { Pool } from '../slots/pool.js';
import type { Tenant } from '../tenants/tenants.js';
import { Queue } from './queue.js';
import { type Reservation, Reservations } from './reservations.js';
import type { Visitor } from './visitor.js';

/** At most so often are those who wait told their place, because many may leave at once. */
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

  /** From here on `left` knows the visitor by its client. */
  enter(visitor: Visitor) {
    this.#visitors.set(visitor.client, visitor);
  }

  /** The client is gone; undefined: it did not wait. */
  left(client: Client): Visitor | undefined {
    const visitor = this.#visitors.get(client);
    this.#visitors.delete(client);
    return visitor && this.leave(visitor) ? visitor : undefined;
  }

  /** Returns false when it did not wait. */
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

  /** Puts one back into the queue, where it was, whose process was lost. */
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

  /** Its process alone has the connection from now on. */
  release({ client }: Visitor) {
    this.#visitors.delete(client);
    client.release();
  }

  /** Its guest is gone, or has not read what was sent to it: it is dropped. */
  abandon({ client }: Visitor) {
    this.#visitors.delete(client);
    client.destroy();
  }

  /** Refuses those who have waited for so long; returns whether there were any. */
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
