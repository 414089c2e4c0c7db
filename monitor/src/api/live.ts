// The WebSocket /v1/live sends the state of the server once a second, and its log as it is written. The client
// chooses JSON or msgpack by subprotocol. A message is encoded once for all clients of one form. A client that reads
// slowly misses states and lines, and is told so. One that does not read at all, or answers no ping, is disconnected.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pack } from 'msgpackr';
import { type WebSocket, WebSocketServer } from 'ws';
import { OutboardError } from '../base/errors.js';
import type { LogLine, Operations, View } from '../base/view.js';

export type LiveMessage =
  | {
      type: 'view';
      /** With the first `queueShown` of the queue at most. */
      view: View;
      /** How many wait in truth. */
      queued: number;
    }
  | {
      type: 'logs';
      lines: LogLine[];
      /** Lines that this client, or everybody, missed before these. */
      missed: number;
    };

const forms = ['json', 'msgpack'] as const;
type Form = (typeof forms)[number];

/** So many of the queue are sent each second; it may be thousands long. */
export const queueShown = 200;
const clientsMost = 256;
/** A client that has not read so many bytes is sent nothing more until it has. */
const unreadMost = 1 << 20;
const pingSeconds = 15;
/** Lines that come within so many milliseconds are sent together. */
const linesMilliseconds = 100;
const linesMost = 500;

interface Client {
  socket: WebSocket;
  form: Form;
  /** Whether its operator still is one: access tokens expire, and are revoked. */
  mayStay: () => boolean;
  /** Whether it has answered the last ping. */
  alive: boolean;
  missed: number;
}

export class Live {
  readonly #sockets: WebSocketServer;
  readonly #clients = new Set<Client>();
  readonly #operations: Pick<Operations, 'view' | 'followLogs'>;
  /** The log is followed while somebody reads it. */
  #unfollow: (() => void) | undefined;
  readonly #pings: NodeJS.Timeout;
  #lines: LogLine[] = [];
  #dropped = 0;
  #flush: NodeJS.Timeout | undefined;

  constructor(operations: Pick<Operations, 'view' | 'followLogs'>) {
    this.#operations = operations;
    this.#sockets = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      // Clients have nothing to say.
      maxPayload: 1024,
      perMessageDeflate: false,
      handleProtocols: (offered) => forms.find((form) => offered.has(form)) ?? false,
    });
    this.#pings = setInterval(() => this.#ping(), pingSeconds * 1000);
    this.#pings.unref();
  }

  get clients(): number {
    return this.#clients.size;
  }

  /** `mayStay` is asked before each state. Throws when there are too many already. */
  open(request: IncomingMessage, socket: Duplex, head: Buffer, mayStay: () => boolean) {
    if (this.#clients.size >= clientsMost) throw new OutboardError('OB_API_BUSY', clientsMost);
    this.#sockets.handleUpgrade(request, socket, head, (opened) => this.#opened(opened, mayStay));
  }

  #opened(socket: WebSocket, mayStay: () => boolean) {
    const form = socket.protocol === 'msgpack' ? 'msgpack' : 'json';
    const client: Client = { socket, form, mayStay, alive: true, missed: 0 };
    this.#clients.add(client);
    this.#unfollow ??= this.#operations.followLogs((line) => this.#logged(line));
    socket.on('pong', () => {
      client.alive = true;
    });
    socket.on('close', () => this.#closed(client));
    // 'close' follows.
    socket.on('error', () => {});
    this.#send(client, encoder(viewMessage(this.#operations.view())));
  }

  #closed(client: Client) {
    this.#clients.delete(client);
    if (this.#clients.size > 0) return;
    this.#unfollow?.();
    this.#unfollow = undefined;
    clearTimeout(this.#flush);
    this.#flush = undefined;
    this.#lines = [];
    this.#dropped = 0;
  }

  /** The state has changed: everybody is shown it. */
  show(view: View) {
    if (this.#clients.size === 0) return;
    const encoded = encoder(viewMessage(view));
    for (const client of this.#clients) {
      if (client.mayStay()) this.#send(client, encoded);
      // 1008: it is not allowed.
      else client.socket.close(1008, 'the access token is not valid any more');
    }
  }

  #logged(line: LogLine) {
    if (this.#lines.length >= linesMost) {
      this.#dropped++;
      return;
    }
    this.#lines.push(line);
    this.#flush ??= setTimeout(() => this.#flushLines(), linesMilliseconds);
  }

  #flushLines() {
    this.#flush = undefined;
    const lines = this.#lines;
    const dropped = this.#dropped;
    this.#lines = [];
    this.#dropped = 0;
    const encoded = encoder({ type: 'logs', lines, missed: dropped });
    for (const client of this.#clients) {
      const missed = client.missed + dropped;
      const own = client.missed === 0 ? encoded : encoder({ type: 'logs', lines, missed });
      client.missed = this.#send(client, own) ? 0 : missed + lines.length;
    }
  }

  /** Returns false where the client has not read what it was sent before; it misses this message. */
  #send({ socket, form }: Client, encoded: Encoder): boolean {
    if (socket.readyState !== socket.OPEN) return false;
    if (socket.bufferedAmount > unreadMost) return false;
    socket.send(encoded(form));
    return true;
  }

  #ping() {
    for (const client of this.#clients) {
      // It has not answered since the last one; what it was sent may lie before the ping.
      if (!client.alive) {
        client.socket.terminate();
        continue;
      }
      client.alive = false;
      client.socket.ping();
    }
  }

  close() {
    clearInterval(this.#pings);
    clearTimeout(this.#flush);
    this.#unfollow?.();
    // 1001: going away, after which a page tries again.
    for (const { socket } of this.#clients) {
      socket.close(1001, 'the server is being shut down');
      setTimeout(() => socket.terminate(), 1000).unref();
    }
    this.#sockets.close();
  }
}

type Encoder = (form: Form) => string | Buffer;

/** Encodes once per form, and only in forms that are asked for. */
function encoder(message: LiveMessage): Encoder {
  const made = new Map<Form, string | Buffer>();
  return (form) => {
    const encoded = made.get(form) ?? (form === 'json' ? JSON.stringify(message) : pack(message));
    made.set(form, encoded);
    return encoded;
  };
}

function viewMessage(view: View): LiveMessage {
  const queue = view.queue.slice(0, queueShown);
  return { type: 'view', view: { ...view, queue }, queued: view.queue.length };
}
