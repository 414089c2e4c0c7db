// A guest's socket with records of TLS on it, behind the handshake: what is read and written here is what is in them. It
// is let go of where the connection is handed to another process, which goes on with the records.
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { TlsConnection, TlsNative } from '../../../api-server/src/native.js';

/** A connection by TLS as another process goes on with it. Whoever has it can read what is sent. */
export interface SealedState {
  state: Uint8Array;
  /** What has come and was not opened. */
  unopened: Uint8Array;
}

/** OUTBOARD_TLS_CLOSED of tls/include/outboard_tls.h. */
const closed = 1;

export class SealedSocket extends Duplex {
  readonly raw: Socket;
  readonly #tls: TlsNative;
  readonly #connection: TlsConnection;
  #unopened: Buffer = Buffer.alloc(0);
  #ended = false;
  /** Nothing more comes, or is sent by this one: it has been saved. */
  #over = false;
  #saved = false;

  /** Null: `from` is none. The socket is this one's. */
  static of(raw: Socket, tls: TlsNative, from: SealedState): SealedSocket | null {
    const connection = tls.restore(from.state);
    return connection && new SealedSocket(raw, tls, connection, from.unopened);
  }

  private constructor(raw: Socket, tls: TlsNative, connection: TlsConnection, first: Uint8Array) {
    // As a socket: when the guest has ended, so does this side.
    super({ allowHalfOpen: false, autoDestroy: true });
    this.raw = raw;
    this.#tls = tls;
    this.#connection = connection;
    // Its other way ends with this one's.
    raw.allowHalfOpen = true;
    raw.setNoDelay(true);
    raw.on('error', (error) => this.destroy(error));
    raw.on('close', () => this.destroy());
    raw.on('end', () => this.#end());
    raw.on('data', (chunk) => this.#open(chunk));
    raw.pause();
    if (first.length > 0) process.nextTick(() => this.#open(Buffer.from(first)));
  }

  #open(chunk: Buffer) {
    if (this.#ended || this.destroyed) return;
    const bytes = this.#unopened.length > 0 ? Buffer.concat([this.#unopened, chunk]) : chunk;
    const { data, used, failure } = this.#tls.open(this.#connection, bytes);
    this.#unopened = Buffer.from(bytes.subarray(used));
    this.#over = failure !== 0;
    if (data.length > 0 && !this.push(data)) this.raw.pause();
    if (failure === closed) this.#end();
    else if (failure !== 0) this.destroy(new Error('a damaged record of TLS'));
  }

  #end() {
    if (this.#ended) return;
    this.#ended = true;
    this.push(null);
    // What follows is nobody's.
    this.raw.resume();
  }

  override _read() {
    this.raw.resume();
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null) => void) {
    this.#send(chunk, false, done);
  }

  override _final(done: (error?: Error | null) => void) {
    this.#send(Buffer.alloc(0), true, (error) => {
      this.raw.end();
      done(error);
    });
  }

  #send(bytes: Uint8Array, last: boolean, done: (error?: Error | null) => void) {
    // The other process's next record would have the same number.
    if (this.#saved) return done(new Error('another process sends by now'));
    try {
      this.raw.write(this.#tls.seal(this.#connection, bytes, last), done);
    } catch (error) {
      done(error as Error);
    }
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void) {
    this.#tls.end(this.#connection);
    this.raw.destroy();
    done(error);
  }

  /** The other process has not used it. */
  takeBack() {
    this.#saved = false;
  }

  setKeepAlive(on: boolean, delay: number) {
    this.raw.setKeepAlive(on, delay);
  }

  /**
   * What another process goes on with; null: it cannot. Nothing may be read meanwhile, and nothing is written here
   * again before `takeBack`. What was opened has been read before.
   */
  save(): SealedState | null {
    while (this.raw.readableLength > 0) this.raw.read();
    while (this.readableLength > 0) this.read();
    const gone = this.#ended || this.#over || this.destroyed;
    const state = gone ? null : this.#tls.save(this.#connection);
    this.#saved = state !== null;
    return state && { state, unopened: this.#unopened };
  }
}
