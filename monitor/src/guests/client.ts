// One connection while it is the monitor's: reads the Hello, waits in the queue, is refused or
// handed over to an API server process.
import {
  type DeviceReport,
  encodeAnswer,
  type Hello,
  wire,
} from '../../../api-server/src/control.js';
import { handleOf, type SocketHandle } from '../../../api-server/src/socket-handle.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { LimitedLog } from '../network/limited-log.js';
import { addressOf } from '../network/strangers.js';
import type { CertificateIdentity } from '../tenants/tenants.js';
import type { FrontPeer, GuestSocket } from '../tls/front.js';
import { SealedSocket, type SealedState } from '../tls/sealed-socket.js';
import { HelloReader } from './hello.js';

export interface ClientEvents {
  onHello(client: Client, hello: Hello): void;
  /** The guest has gone after its Hello, before it was handed over. */
  onGone(client: Client): void;
}

/** A connection that this process has stopped reading, to hand it over, and what was read behind its Hello. */
export interface DetachedConnection {
  handle: SocketHandle;
  leftover: Buffer;
  /** Of a guest that speaks TLS: what is needed to go on; null: it does not. */
  tls: SealedState | null;
}

/** How long, and for how many bytes, a refused client may go on sending what nobody wants. */
const lingerSeconds = 2;
const lingerBytes = 1 << 20;

/** After so long without a byte the system asks the other end whether it is still there (TCP keep-alive). */
const keepAliveSeconds = 30;

export class Client {
  readonly peer: string;
  /** Of the guest, verified; null: it came without one. */
  readonly certificate: CertificateIdentity | null;
  #stage: 'hello' | 'waiting' | 'detached' | 'over' = 'hello';
  readonly #socket: GuestSocket;
  readonly #log: Log;
  readonly #limitedLog: LimitedLog;
  readonly #events: ClientEvents;
  readonly #reader = new HelloReader();
  readonly #timer: NodeJS.Timeout;
  #leftover: Buffer = Buffer.alloc(0);
  #position = 0;
  #warned = false;
  #unwanted = 0;

  constructor(
    socket: GuestSocket,
    { peer, certificate }: FrontPeer,
    helloSeconds: number,
    log: Log,
    limitedLog: LimitedLog,
    events: ClientEvents,
  ) {
    this.peer = peer;
    this.certificate = certificate;
    this.#socket = socket;
    this.#log = log.child({ peer: this.peer });
    this.#limitedLog = limitedLog;
    this.#events = events;
    this.#timer = setTimeout(
      () => this.refuse(new OutboardError('OB_HELLO_SLOW', helloSeconds)),
      helloSeconds * 1000,
    );
    // So a guest that has vanished does not keep its place in the queue. The process that gets the
    // connection sets its own interval.
    socket.setKeepAlive(true, keepAliveSeconds * 1000);
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('error', (error) => this.#log.debug({ err: error }, 'connection failed'));
    socket.on('end', () => this.#ended());
    socket.on('close', () => this.#gone());
  }

  get stage() {
    return this.#stage;
  }

  /** Whether it is on this machine, and came by a Unix socket of the server's. */
  get local() {
    return this.peer === 'unix';
  }

  /** Whether its connection is one of TLS, which is handed over with its keys. */
  get sealed() {
    return this.#socket instanceof SealedSocket;
  }

  get #handle() {
    return handleOf(this.#socket instanceof SealedSocket ? this.#socket.raw : this.#socket);
  }

  #read(chunk: Buffer) {
    switch (this.#stage) {
      case 'hello':
        return this.#readHello(chunk);
      case 'waiting':
        this.#leftover = Buffer.concat([this.#leftover, chunk]);
        if (this.#leftover.length > wire.controlMax) {
          this.#events.onGone(this);
          this.refuse(new OutboardError('OB_TOO_EARLY', wire.controlMax));
        }
        return;
      default:
        this.#unwanted += chunk.length;
        if (this.#unwanted > lingerBytes) this.#socket.destroy();
    }
  }

  #readHello(chunk: Buffer) {
    try {
      const arrived = this.#reader.push(chunk);
      if (!arrived) return;
      clearTimeout(this.#timer);
      this.#stage = 'waiting';
      this.#leftover = arrived.leftover;
      this.#events.onHello(this, arrived.hello);
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      if (error.code === 'OB_NOT_OUTBOARD' && isHttp(chunk)) return this.#answerHttp(error);
      this.refuse(error);
    }
  }

  #ended() {
    if (this.#stage !== 'hello') return;
    // This was a port scan or a health check, which connects, says nothing and goes.
    if (this.#reader.received === 0) return this.destroy();
    this.refuse(new OutboardError('OB_HELLO_TRUNCATED', this.#reader.received));
  }

  #gone() {
    clearTimeout(this.#timer);
    const waited = this.#stage === 'waiting';
    this.#stage = 'over';
    if (waited) this.#events.onGone(this);
  }

  /** Tells the guest its place in the queue, once for each. */
  queued(position: number) {
    if (this.#stage !== 'waiting' || position === this.#position) return;
    // A guest that does not read is sent nothing more, so that what is sent fits into the socket's buffer.
    if (this.#socket.writableLength > 0) return;
    this.#position = position;
    this.#socket.write(encodeAnswer({ queued: { position } }));
  }

  /** Tells the guest something about its wait, once. */
  warn(warning: string) {
    if (this.#stage !== 'waiting' || this.#warned || this.#socket.writableLength > 0) return false;
    this.#warned = true;
    this.#socket.write(encodeAnswer({ queued: { position: this.#position, warning } }));
    return true;
  }

  /** Answers a guest that wants no session, and ends the connection. */
  report(report: DeviceReport) {
    this.#finish(encodeAnswer({ report }));
  }

  /** Tells the guest why not, and ends the connection. */
  refuse(error: OutboardError) {
    this.#tellRefused(error);
    this.#finish(encodeAnswer({ refusal: error.refusal }));
  }

  #tellRefused({ code, message }: OutboardError) {
    const { peer } = this;
    this.#limitedLog.write('warn', addressOf(peer), { peer, code }, `refused: ${message}`);
  }

  /** For a browser, curl or a health check, which understand this and not a Refusal. */
  #answerHttp(error: OutboardError) {
    this.#tellRefused(error);
    const body = `${error.code}: ${error.message}.\n${error.remedy}\n`;
    const head =
      'HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n' +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n`;
    this.#finish(Buffer.from(head + body));
  }

  /**
   * Bytes that arrive after the end was sent are read and dropped for a while: if they were left
   * unread, TCP would reset the connection and the guest might never see the answer.
   */
  #finish(answer: Buffer) {
    if (this.#stage === 'over') return;
    this.#stage = 'over';
    clearTimeout(this.#timer);
    this.#socket.end(answer);
    const timer = setTimeout(() => this.#socket.destroy(), lingerSeconds * 1000);
    timer.unref();
    this.#socket.once('close', () => clearTimeout(timer));
  }

  /**
   * From here on this process does not read. Null when the connection is gone, or has not taken
   * what was sent.
   */
  detach(): DetachedConnection | null {
    const handle = this.#handle;
    if (this.#stage !== 'waiting' || !handle || this.#socket.writableLength > 0) return null;
    // Data is consumed as it arrives ('data' listener), so nothing lies in the stream's own buffer.
    handle.readStop();
    let tls: SealedState | null = null;
    if (this.#socket instanceof SealedSocket) {
      tls = this.#socket.save();
      if (!tls) return null;
    }
    this.#stage = 'detached';
    return { handle, leftover: this.#leftover, tls };
  }

  /** The offer was not taken. */
  takeBack() {
    if (this.#stage !== 'detached') return;
    this.#stage = 'waiting';
    if (this.#socket instanceof SealedSocket) this.#socket.takeBack();
    this.#handle?.readStart();
  }

  /** The other process has the connection: this one closes its own descriptor, and the guest notices nothing. */
  release() {
    this.#stage = 'over';
    this.#socket.destroy();
  }

  /** At once, without a word. */
  destroy() {
    this.#stage = 'over';
    this.#socket.destroy();
  }
}

function isHttp(start: Buffer): boolean {
  return /^(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PRI) /.test(
    start.subarray(0, 8).toString('latin1'),
  );
}
