// Who comes: a connection is a stranger's until its Hello was read. Then its guest is refused, is told what it
// has asked for, or comes for a session: as a visitor that is served at once or waits.
import type { Hello } from '../../../api-server/src/control.js';
import type { PlacementParameters } from '../../policies/placement.js';
import type { ServerState } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import { Client } from '../guests/client.js';
import type { LimitedLog } from '../network/limited-log.js';
import { addressOf, Strangers, type StrangersMost } from '../network/strangers.js';
import { admit } from '../queue/admission.js';
import { whyAdmitted } from '../queue/reasons.js';
import { Visitor } from '../queue/visitor.js';
import type { QueueMost, Waiting } from '../queue/waiting.js';
import type { Running } from '../sessions/running.js';
import type { Turns } from '../sessions/turns.js';
import type { Pool } from '../slots/pool.js';
import type { Tenant, Tenants } from '../tenants/tenants.js';
import type { FrontPeer, GuestSocket } from '../tls/front.js';
import type { DeviceQueries } from './device-queries.js';

export interface ArrivalsOptions extends QueueMost {
  tenants: Tenants | null;
  parameters: PlacementParameters;
  helloSeconds: number;
  strangers: StrangersMost;
  pool: Pool;
  waiting: Waiting;
  turns: Turns;
  queries: DeviceQueries;
  running: Running;
  /** Why nobody new is taken; null: everybody is. */
  closed: () => 'draining' | 'stopping' | null;
  state: () => ServerState;
  newId: () => number;
  /** Told when one that waited has gone. */
  onLeft: () => void;
  log: Log;
  limitedLog: LimitedLog;
}

export class Arrivals {
  readonly #options: ArrivalsOptions;
  readonly #strangers: Strangers;
  readonly #waiting: Waiting;
  readonly #turns: Turns;
  /** Those whose connection is the monitor's still. */
  readonly #clients = new Set<Client>();

  constructor(options: ArrivalsOptions) {
    this.#options = options;
    this.#strangers = new Strangers(options.strangers);
    this.#waiting = options.waiting;
    this.#turns = options.turns;
  }

  /**
   * Takes a connection. `from`: where it comes from, and what the TLS front knows of a guest that came
   * through it.
   */
  accept(socket: GuestSocket, from: FrontPeer) {
    const stranger = this.#strangers.enter(addressOf(from.peer));
    if (stranger === 'full') {
      socket.destroy();
      return;
    }
    const events = {
      onHello: (client: Client, hello: Hello) => {
        stranger.leave();
        this.#arrived(client, hello);
      },
      onGone: (client: Client) => this.#left(client),
    };
    const { helloSeconds, log, limitedLog } = this.#options;
    const client = new Client(socket, from, helloSeconds, log, limitedLog, events);
    this.#clients.add(client);
    socket.once('close', () => {
      stranger.leave();
      this.#clients.delete(client);
    });
    if (stranger.refusal) this.#waiting.refuse(client, stranger.refusal, null);
  }

  /** A Hello was read. Finds the tenant, and sees to what the guest wants: a session, its next GPU, a report. */
  #arrived(client: Client, hello: Hello) {
    let known: string | null = null;
    const refused = (error: unknown) => {
      if (!(error instanceof OutboardError)) throw error;
      this.#waiting.refuse(client, error, known);
    };
    try {
      const isNew = !hello.query && !hello.resume && hello.ticket === '';
      const closed = this.#options.closed();
      if (closed === 'stopping') throw new OutboardError('OB_SHUTDOWN');
      if (closed === 'draining' && isNew) throw new OutboardError('OB_DRAINING');
      const credentials = { accessToken: hello.token, certificate: client.certificate };
      const tenant = this.#options.tenants?.identify(credentials) ?? null;
      known = tenant?.name ?? null;
      if (isNew) this.#comesForSession(client, hello, tenant);
      else if (hello.resume) this.#options.running.comesBack(client, hello.resume, known ?? '');
      else if (hello.query) this.#queriesDevices(client, hello, tenant).catch(refused);
      else this.#claimsPlace(client, hello, tenant);
    } catch (error) {
      refused(error);
    }
  }

  /** A program has come for its first GPU: it is admitted, then served or queued. Throws the refusal. */
  #comesForSession(client: Client, hello: Hello, tenant: Tenant | null) {
    const { pool, parameters, state, newId } = this.#options;
    const request = admit(hello, state(), parameters, tenant);
    const { hopeless } = pool;
    if (hopeless !== null) throw new OutboardError('OB_NO_SLOT', hopeless);
    const visitor = new Visitor(newId(), client, hello, request);
    visitor.decisions.add('admission', whyAdmitted(request));
    this.#waiting.enter(visitor);
    const left = this.#turns.leftFor(request);
    const refusal = () => this.#waiting.refusalOfOneMore(tenant, this.#options);
    if (this.#turns.serveArrival(visitor, left, () => refusal() === null)) return;
    // Where it is alone and lacks only a new process, it waits for nobody, so it may wait even if the queue
    // has no room. Else there must be room for it before a warm process is made new for it.
    const { queue } = this.#waiting;
    const orders = () => typeof left !== 'string' && this.#turns.orderProcesses(visitor, left.gpus);
    const needsProcessOnly = queue.length === 0 && orders();
    const full = needsProcessOnly ? null : refusal();
    if (full) throw full;
    // Only now is the guest told its position.
    this.#waiting.append(visitor);
    if (!needsProcessOnly) orders();
  }

  /** For another GPU of a program that is here already. Throws the refusal. */
  #claimsPlace(client: Client, hello: Hello, tenant: Tenant | null) {
    const reservation = this.#waiting.reservations.claim(hello.ticket, tenant?.name ?? '');
    const visitor = new Visitor(reservation.id, client, hello, reservation.request);
    const { seat, placement } = reservation;
    const kept = `GPU ${placement.gpu} was kept for it since session ${seat.group.id} began`;
    visitor.decisions.add('placement', `${kept}, which is of the same program`);
    this.#waiting.enter(visitor);
    reservation.visitor = visitor;
    this.#turns.fillReservation(reservation);
  }

  /** Answers a guest that wants no session, which needs no slot and does not wait. */
  async #queriesDevices(client: Client, hello: Hello, tenant: Tenant | null) {
    client.report(await this.#options.queries.answer(tenant, hello));
  }

  #left(client: Client) {
    const visitor = this.#waiting.left(client);
    if (!visitor) return;
    const { peer } = client;
    const fields = { peer, program: visitor.hello.program };
    this.#options.limitedLog.write('info', addressOf(peer), fields, 'left the queue');
    this.#options.onLeft();
  }

  /** Refuses those whose Hello was not read yet. */
  dismissStrangers(error: OutboardError) {
    for (const client of this.#clients) if (client.stage === 'hello') client.refuse(error);
  }

  /** At once, without a word. */
  destroy() {
    for (const client of this.#clients) client.destroy();
  }
}
