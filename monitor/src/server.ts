// The monitor: one port, the queue, the slots. A connection's way: acceptor -> Client (Hello) ->
// admit -> queue -> place -> slot, which gets the connection itself.
import { createServer, type Server as NetServer } from 'node:net';
import { encodeAnswer, encodeHello, type Hello } from '../../api-server/src/control.js';
import type { Counters } from '../../api-server/src/ipc.js';
import type { SessionEnd } from '../../api-server/src/native.js';
import { admit } from './admission.js';
import { Client } from './client.js';
import type { Driver } from './devices.js';
import { OutboardError } from './errors.js';
import { HelloReader } from './hello.js';
import type { Log } from './log.js';
import { place } from './placement.js';
import { Pool } from './pool.js';
import { Queue } from './queue.js';
import type { Slot } from './slot.js';
import type { GpuState, Placement, SessionRequest } from './state.js';
import { type Address, formatAddress } from './values.js';

export interface ServerOptions {
  listen: Address;
  build: string;
  driver: Driver;
  serversPerGpu: number;
  helloSeconds: number;
  /** Programs that may wait. */
  queueMax: number;
  /** What sessions get to end in when the server stops. */
  stopSeconds: number;
}

/** A client from its Hello on. */
interface Visitor {
  client: Client;
  hello: Hello;
  request: SessionRequest;
  arrived: number;
  /** Processes that were lost while they took it over. */
  lost: number;
}

interface Running {
  session: bigint;
  visitor: Visitor;
  /** Whether the process has the connection for itself. */
  begun: boolean;
  started: number;
  log: Log;
}

/** One program that makes every process die should not get them all. */
const lostMax = 3;

export class Server {
  readonly #options: ServerOptions;
  readonly #log: Log;
  readonly #pool: Pool;
  readonly #net: NetServer;
  readonly #queue = new Queue<Visitor>(({ client }, position) => client.queued(position));
  readonly #clients = new Set<Client>();
  readonly #visitors = new Map<Client, Visitor>();
  readonly #running = new Map<Slot, Running>();
  #sessions = 0n;
  #stopped: Promise<void> | undefined;

  constructor(options: ServerOptions, log: Log) {
    this.#options = options;
    this.#log = log;
    const { build, driver, serversPerGpu } = options;
    this.#pool = new Pool(
      { build, driver, serversPerGpu },
      {
        onReady: () => this.#serveQueue(),
        onPrepared: (slot) => this.#prepared(slot),
        onDeclined: (slot, code, message) => this.#declined(slot, code, message),
        onEnded: (slot, end, counters) => this.#ended(slot, end, counters),
        onExit: (slot, how) => this.#lost(slot, how),
      },
      log,
    );
    this.#net = createServer({ noDelay: true, keepAlive: true }, (socket) => {
      const client = new Client(socket, options.helloSeconds, log, {
        onHello: (client, hello) => this.#arrived(client, hello),
        onGone: (client) => this.#left(client),
      });
      this.#clients.add(client);
      socket.once('close', () => this.#clients.delete(client));
    });
  }

  get stopping(): boolean {
    return this.#stopped !== undefined;
  }

  /** Opens the devices, then the port. Throws when that fails, or stop() comes before its end. */
  async start(): Promise<Address> {
    try {
      await this.#pool.start();
      rehearse(this.#pool.state);
      const address = await this.#listen();
      if (this.stopping) throw new OutboardError('OB_SHUTDOWN');
      this.#announce(address);
      return address;
    } catch (error) {
      await this.stop('the server cannot start');
      throw error;
    }
  }

  /** Accepts nobody any more, ends sessions and processes, and resolves when all are gone. */
  stop(why = 'the server is being shut down'): Promise<void> {
    this.#stopped ??= this.#stop(why);
    return this.#stopped;
  }

  async #stop(why: string) {
    const closed = new Promise<void>((resolve) => this.#net.close(() => resolve()));
    for (const { client } of this.#queue.takeAll()) client.refuse(new OutboardError('OB_SHUTDOWN'));
    for (const client of this.#clients) {
      if (client.stage === 'hello') client.refuse(new OutboardError('OB_SHUTDOWN'));
    }
    await this.#pool.stop(why, this.#options.stopSeconds);
    await closed;
    this.#log.info('stopped');
  }

  /** At once: sessions end without a word. */
  kill() {
    for (const client of this.#clients) client.destroy();
    this.#pool.kill();
  }

  #listen(): Promise<Address> {
    const { listen } = this.#options;
    return new Promise((resolve, reject) => {
      this.#net.once('error', (error) =>
        reject(new OutboardError('OB_LISTEN', formatAddress(listen), error.message)),
      );
      this.#net.listen(listen, () => {
        const address = this.#net.address();
        const port = typeof address === 'object' && address ? address.port : listen.port;
        resolve({ host: listen.host, port });
      });
    });
  }

  #announce(address: Address) {
    const { driver, serversPerGpu } = this.#options;
    for (const { index, name, memory, usual } of this.#pool.devices) {
      const bytes = { memory: Number(memory), usualMemory: Number(usual) };
      this.#log.info({ gpu: index, name, slots: serversPerGpu, ...bytes }, 'GPU');
    }
    const listen = formatAddress(address);
    const { kind, library, gpus } = driver;
    const slots = gpus * serversPerGpu;
    this.#log.info({ listen, device: kind, library, gpus, slots }, 'listening');
    if (!isLoopback(address.host)) {
      this.#log.warn('everyone who reaches this address can use the GPUs: there are no tokens yet');
    }
  }

  #arrived(client: Client, hello: Hello) {
    try {
      if (this.stopping) throw new OutboardError('OB_SHUTDOWN');
      const request = admit(hello, this.#pool.state);
      const { hopeless } = this.#pool;
      if (hopeless !== null) throw new OutboardError('OB_NO_SLOT', hopeless);
      const { queueMax } = this.#options;
      if (this.#queue.length >= queueMax) throw new OutboardError('OB_QUEUE_FULL', queueMax);
      const visitor = { client, hello, request, arrived: performance.now(), lost: 0 };
      this.#visitors.set(client, visitor);
      // Told its position only if it has to wait.
      if (this.#queue.length === 0 && this.#offer(visitor)) return;
      this.#queue.append(visitor);
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      client.refuse(error);
    }
  }

  #left(client: Client) {
    const visitor = this.#visitors.get(client);
    this.#visitors.delete(client);
    if (!visitor || !this.#queue.remove(visitor)) return;
    this.#log.info({ peer: client.peer, program: visitor.hello.program }, 'left the queue');
    this.#serveQueue();
  }

  #serveQueue() {
    while (!this.stopping && this.#queue.head && this.#offer(this.#queue.head)) {
      this.#queue.remove(this.#queue.head);
    }
  }

  /** False when there is no place for it now. */
  #offer(visitor: Visitor): boolean {
    const placement = place(this.#pool.state, visitor.request);
    if (!placement) return false;
    const offered = visitor.client.offer();
    if (!offered) {
      // Not connected any more, or it has not taken what was sent to it: nobody to serve.
      this.#visitors.delete(visitor.client);
      visitor.client.destroy();
      return true;
    }
    const slot = this.#pool.reserve(placement);
    const session = ++this.#sessions;
    const log = slot.log.child(describe(session, visitor, placement));
    this.#running.set(slot, { session, visitor, begun: false, started: performance.now(), log });
    const { windowBases, windowSize } = visitor.hello;
    slot.offer(
      {
        type: 'session',
        session,
        memoryLimit: placement.memory,
        windowBases,
        windowSize,
        leftover: offered.leftover,
      },
      offered.handle,
    );
    log.debug('offered');
    return true;
  }

  #prepared(slot: Slot) {
    const running = this.#running.get(slot);
    if (!running) return;
    const { visitor, log } = running;
    this.#visitors.delete(visitor.client);
    visitor.client.release();
    slot.begin();
    running.begun = true;
    const waited = seconds(running.started - visitor.arrived);
    const { peer } = visitor.client;
    const { host, pid } = visitor.hello;
    log.info({ peer, host, pid, waited }, 'session begins');
    if (visitor.request.shareRequest > 0) {
      log.warn('asks for a share of the GPU: shares are not enforced yet');
    }
  }

  #declined(slot: Slot, code: string | null, message: string) {
    const running = this.#running.get(slot);
    this.#free(slot);
    if (running) {
      const { client } = running.visitor;
      this.#visitors.delete(client);
      client.takeBack();
      const error = OutboardError.relayed(code, message);
      client.refuse(error ?? new OutboardError('OB_INTERNAL', message));
    }
    this.#serveQueue();
  }

  #ended(slot: Slot, end: SessionEnd, counters: Counters) {
    const running = this.#running.get(slot);
    this.#free(slot);
    if (running) {
      const duration = seconds(performance.now() - running.started);
      const { reason, message, reusable } = end;
      const level = reason === 'closed' || reason === 'stopped' ? 'info' : 'warn';
      running.log[level](
        { reason, seconds: duration, ...numbers(counters), slotReusable: reusable },
        `session ends: ${message}`,
      );
    }
    this.#serveQueue();
  }

  /** The process is gone. If it had not begun, its client is ours still and gets another one. */
  #lost(slot: Slot, how: string) {
    const running = this.#running.get(slot);
    this.#free(slot);
    if (running) this.#rescue(running, how);
    const { hopeless } = this.#pool;
    if (hopeless !== null) {
      for (const { client } of this.#queue.takeAll()) {
        client.refuse(new OutboardError('OB_NO_SLOT', hopeless));
      }
    }
  }

  #rescue({ visitor, begun, started, log }: Running, how: string) {
    if (begun) {
      const duration = seconds(performance.now() - started);
      log.error({ seconds: duration }, `session lost: its API server process ended (${how})`);
      return;
    }
    const { client } = visitor;
    client.takeBack();
    visitor.lost++;
    if (this.stopping) {
      client.refuse(new OutboardError('OB_SHUTDOWN'));
    } else if (visitor.lost >= lostMax) {
      client.refuse(new OutboardError('OB_SLOT_LOST', visitor.lost));
    } else {
      log.warn(`its API server process ended (${how}): waits for another`);
      this.#queue.putBack(visitor);
    }
  }

  #free(slot: Slot) {
    this.#running.delete(slot);
    this.#pool.release(slot);
  }
}

/** The way of a Hello once without a guest, so that the first one finds compiled code. */
function rehearse(gpus: GpuState[]) {
  const arrived = new HelloReader().push(encodeHello({ program: 'rehearsal', windowBases: [] }));
  if (arrived) place(gpus, admit(arrived.hello, gpus));
  encodeAnswer({ queued: { position: 1 } });
}

function describe(session: bigint, { hello }: Visitor, { memory }: Placement) {
  return { session: Number(session), program: hello.program, memory: Number(memory) };
}

function numbers(counters: Counters) {
  return Object.fromEntries(Object.entries(counters).map(([name, value]) => [name, Number(value)]));
}

function seconds(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1e6;
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\./.test(host);
}
