// The monitor's side of the TLS front: starts its process, takes the connections that come from
// it, and starts it again when it dies.
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { OutboardError } from './errors.js';
import type { Log } from './log.js';
import type { StrangersMost } from './strangers.js';
import { readTls, type TlsFiles } from './tls.js';
import type { Clients, FromFront, ToFront } from './tls-front-process.js';
import { type FrontPeer, PreambleReader, secretBytes } from './tls-preamble.js';
import { type Address, formatAddress } from './values.js';

export type { Clients } from './tls-front-process.js';
export type { FrontPeer } from './tls-preamble.js';

export interface TlsFrontOptions {
  listen: Address;
  files: TlsFiles;
  /** Whether guests are asked for a certificate, and refused without one. Needs `files.ca`. */
  clients: Clients;
  /** What a guest gets for the TLS handshake. */
  helloSeconds: number;
  /** Connections that have not made their handshake. */
  strangers: StrangersMost;
}

const program = fileURLToPath(new URL('./tls-front-process.js', import.meta.url));
const preambleSeconds = 5;
const restartSeconds = 1;

export class TlsFront {
  readonly #options: TlsFrontOptions;
  readonly #log: Log;
  readonly #secret = randomBytes(secretBytes);
  // An abstract socket: no file that a killed monitor would leave behind.
  readonly #path = `\0outboard-front-${randomBytes(16).toString('hex')}`;
  readonly #entry = createServer((socket) => this.#enter(socket));
  readonly #accept: (socket: Socket, from: FrontPeer) => void;
  #port: number;
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #closing = false;
  /** Connections that have not shown the secret. */
  #entering = 0;

  /**
   * `accept` gets each guest as if it had connected by itself: the next bytes of the socket are the
   * guest's first.
   */
  constructor(
    options: TlsFrontOptions,
    log: Log,
    accept: (socket: Socket, from: FrontPeer) => void,
  ) {
    this.#options = options;
    this.#log = log;
    this.#accept = accept;
    this.#port = options.listen.port;
  }

  /** Throws OB_TLS_FILES and OB_LISTEN. */
  async start(): Promise<Address> {
    const { files, clients, listen } = this.#options;
    if (clients !== 'none' && files.ca === null) {
      throw new OutboardError('OB_TLS_FILES', 'client certificates need a file of authorities');
    }
    if (files.cert === null || files.key === null) {
      throw new OutboardError('OB_TLS_FILES', 'a server needs a certificate and its key');
    }
    readTls(files);
    this.#entry.listen({ path: this.#path, backlog: 4096 });
    await once(this.#entry, 'listening');
    const said = await this.#spawn();
    if (said.type === 'listening') {
      this.#port = said.port;
      return { host: listen.host, port: said.port };
    }
    this.kill();
    if (said.code === 'OB_TLS_FILES') throw new OutboardError('OB_TLS_FILES', said.message);
    throw new OutboardError('OB_LISTEN', formatAddress(listen), said.message);
  }

  /** Takes nobody new; resolves when the last connection through it has ended. */
  async close() {
    this.#closing = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    this.#entry.close();
    if (!child) return;
    const gone = once(child, 'exit');
    send(child, { type: 'close' });
    await gone;
  }

  /** At once: what still goes through it is cut. */
  kill() {
    this.#closing = true;
    clearTimeout(this.#restart);
    this.#entry.close();
    this.#child?.kill('SIGKILL');
  }

  /** Resolves with the first it says that matters. */
  #spawn(): Promise<Exclude<FromFront, { type: 'log' }>> {
    const { files, clients, helloSeconds, strangers, listen } = this.#options;
    const child = fork(program, { stdio: ['ignore', 2, 2, 'ipc'] });
    this.#child = child;
    send(child, {
      type: 'start',
      host: listen.host,
      port: this.#port,
      files,
      clients,
      helloSeconds,
      strangers,
      entry: this.#path,
      secret: this.#secret.toString('hex'),
    });
    return new Promise((resolve) => {
      child.on('message', (message: FromFront) => {
        if (message.type === 'log') this.#log[message.level](message.fields, message.text);
        else resolve(message);
      });
      child.on('error', (error) => {
        resolve({ type: 'failed', code: 'OB_LISTEN', message: error.message });
      });
      child.once('exit', (code, signal) => {
        this.#child = undefined;
        resolve({ type: 'failed', code: 'OB_LISTEN', message: `ended with ${signal ?? code}` });
        if (!this.#closing) this.#again(String(signal ?? code));
      });
    });
  }

  /** Its connections went with it; those to come shall find one. */
  #again(how: string) {
    this.#log.error(`the TLS front ended (${how}): starting another`);
    this.#restart = setTimeout(async () => {
      const said = await this.#spawn();
      if (said.type === 'failed') this.#log.error(`the TLS front cannot start: ${said.message}`);
      else this.#log.info('the TLS front is back');
    }, restartSeconds * 1000);
  }

  #enter(socket: Socket) {
    // Whoever on this machine finds the socket; the front itself is quick.
    if (this.#entering >= this.#options.strangers.all) {
      socket.destroy();
      return;
    }
    this.#entering++;
    let entering = true;
    const entered = () => {
      if (entering) this.#entering--;
      entering = false;
    };
    const reader = new PreambleReader(this.#secret);
    const timer = setTimeout(() => socket.destroy(), preambleSeconds * 1000);
    const failed = () => socket.destroy();
    const read = (chunk: Buffer) => {
      try {
        const arrived = reader.push(chunk);
        if (!arrived) return;
        socket.off('data', read).off('error', failed);
        clearTimeout(timer);
        entered();
        // So that what came along is read again, by the one who reads next.
        socket.pause();
        if (arrived.rest.length > 0) socket.unshift(arrived.rest);
        this.#accept(socket, arrived.from);
        socket.resume();
      } catch (error) {
        this.#log.warn(`a connection that is not from the TLS front: ${(error as Error).message}`);
        socket.destroy();
      }
    };
    socket.on('data', read).on('error', failed);
    socket.once('close', () => {
      clearTimeout(timer);
      entered();
    });
  }
}

function send(child: ChildProcess, message: ToFront) {
  if (child.connected) child.send(message, () => {});
}
