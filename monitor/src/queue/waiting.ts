// The visitors that have no process yet: they wait in the queue, or for the process of a place that is kept for
// them. Also the one way in which guests are refused.

import { firstCome } from '../../policies/queue/first-come.js';
import type { QueuePolicy } from '../../policies/queue.js';
import type { SessionRequest } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { Observer } from '../base/view.js';
import type { Client } from '../guests/client.js';
import type { Pool } from '../slots/pool.js';
import type { Tenant } from '../tenants/tenants.js';
import { RecentlyGone } from './decisions.js';
import type { OnFailure } from './guard.js';
import { type Ordered, orderedBy } from './guarded-order.js';
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
  readonly queue: Queue<Visitor, Ordered>;
  readonly reservations: Reservations;
  /** Also the sessions that have ended. */
  readonly gone = new RecentlyGone();
  /** Which makes the order of turns. */
  readonly #policy: string;
  readonly #observer: Observer;
  readonly #visitors = new Map<Client, Visitor>();
  #telling: NodeJS.Timeout | undefined;
  /** Of the last order that was made. */
  readonly #failures: string[] = [];

  /**
   * `claimSeconds`: for how long a place is kept; `onExpired` is told when that is over. `policy` makes the order of the
   * queue; `failed` is told where it cannot, and they are in order of arrival.
   */
  constructor(
    pool: Pool,
    claimSeconds: number,
    observer: Observer,
    onExpired: (reservation: Reservation) => void,
    policy: QueuePolicy = firstCome,
    failed: OnFailure = () => {},
  ) {
    this.#observer = observer;
    const { name } = policy;
    this.#policy = name;
    const order = orderedBy(policy, (...failure) => {
      this.#failures.push(`queue ${name}: ${failure[2]}; in order of arrival instead`);
      failed(...failure);
    });
    this.queue = new Queue(({ client }, position) => client.queued(position), order);
    this.reservations = new Reservations(pool, claimSeconds, onExpired);
  }

  /** A visitor has come. From here on `left` knows it by its client, whether it waits or not. */
  enter(visitor: Visitor) {
    this.#visitors.set(visitor.client, visitor);
  }

  /** A client is gone. Returns its visitor if that has waited, which it does no longer. */
  left(client: Client): Visitor | undefined {
    const visitor = this.#visitors.get(client);
    this.#visitors.delete(client);
    if (!visitor || !this.leave(visitor)) return undefined;
    this.gone.add(visitor, 'its program has left the queue');
    return visitor;
  }

  /** Takes a visitor out, and gives a place back that is kept for it. Returns false when it did not wait. */
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

  /** Returns the refusal of one more who would have to wait; null: there is room. */
  refusalOfOneMore(
    tenant: Tenant | null,
    { queueMax, queueMaxOfTenant }: QueueMost,
  ): OutboardError | null {
    if (this.queue.length >= queueMax) return new OutboardError('OB_QUEUE_FULL', queueMax);
    if (!tenant) return null;
    const { name } = tenant;
    const own = [...this.queue].filter(({ request }) => request.tenant === name).length;
    return own >= queueMaxOfTenant ? new OutboardError('OB_TENANT_QUEUE', own, name) : null;
  }

  /** Puts one that has just come into the queue, and tells it its position. */
  append(visitor: Visitor) {
    this.#failures.length = 0;
    const after = this.queue.append(visitor);
    for (const what of this.#failures) visitor.decisions.add('policy', what);
    if (after === 0) return;
    visitor.decisions.add(
      'queue',
      `${this.#policy} gives it its turn before ${after} who wait already`,
    );
    this.#tell();
  }

  /** Those who would have their turns before one that comes now with this request. */
  before(request: SessionRequest): readonly Visitor[] {
    const arrived = performance.now() / 1000;
    const id = Number.POSITIVE_INFINITY;
    return this.queue.before({ state: { id, request, arrived, overtaken: 0 } });
  }

  /** Makes the order of turns anew, before somebody is served. */
  arrange() {
    if (this.queue.arrange()) this.#tell();
  }

  /** Puts one back into the queue, where it was, whose process was lost. */
  putBack(visitor: Visitor) {
    this.queue.putBack(visitor, (other) => other.id > visitor.id);
    this.#tell();
  }

  /** Returns the visitor that waits and whose session will have this number. */
  numbered(id: number): Visitor | undefined {
    return [...this.queue, ...this.reservations.waiting].find((visitor) => visitor.id === id);
  }

  /** Tells a guest why it is refused, and ends its connection. `tenant` is null where it is not known. */
  refuse(client: Client, error: OutboardError, tenant: string | null) {
    const visitor = this.#visitors.get(client);
    if (visitor) this.gone.add(visitor, `refused: ${error.message} (${error.code})`);
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
  abandon(visitor: Visitor) {
    const { client } = visitor;
    this.gone.add(visitor, 'its program has gone');
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

  /** Refuses all who wait in the queue. */
  dismissQueue(error: OutboardError) {
    for (const { client, request } of this.queue.takeAll()) {
      this.refuse(client, error, request.tenant);
    }
  }

  /** Refuses all who wait, and gives back all places that are kept. */
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
