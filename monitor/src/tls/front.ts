// The monitor's side of the TLS front: starts its process, takes the connections that come from
// it, and starts it again when it dies.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Socket } from 'node:net';
import path from 'node:path';
import { loadNative, type TlsNative } from '../../../api-server/src/native.js';
import { programs } from '../../../bin/paths.mjs';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { StrangersMost } from '../network/strangers.js';
import { type Address, formatAddress } from '../options/values.js';
import type { Clients, FromFront, FrontPeer, SealedText, ToFront } from './front-process.js';
import { SealedSocket } from './sealed-socket.js';
import { readTls, type TlsFiles } from './tls.js';

export type { Clients, FrontPeer } from './front-process.js';

export interface TlsFrontOptions {
  /** Where executor.node is. */
  build: string;
  listen: Address;
  files: TlsFiles;
  /** Whether guests are asked for a certificate, and refused without one. Needs `files.ca`. */
  clients: Clients;
  /** How many seconds a guest may take for the TLS handshake. */
  helloSeconds: number;
  /** How many connections there may be that have not made their handshake. */
  strangers: StrangersMost;
  /** Whether every byte is passed on by the front, although the addon could hand over keys. Absent: no. */
  relays?: boolean;
}

/** A guest's connection, in the clear for who reads it here. */
export type GuestSocket = Socket | SealedSocket;

/** Throws OB_TLS_FILES where no front can start with these. */
export function requireTlsFiles(files: TlsFiles, clients: Clients) {
  if (clients !== 'none' && files.ca === null) {
    throw new OutboardError('OB_TLS_FILES', 'client certificates need a file of authorities');
  }
  if (files.cert === null || files.key === null) {
    throw new OutboardError('OB_TLS_FILES', 'a server needs a certificate and its key');
  }
  readTls(files);
}

const program = path.join(programs, 'monitor', 'src', 'tls', 'front-process.js');
const restartSeconds = 1;

export class TlsFront {
  readonly #options: TlsFrontOptions;
  readonly #log: Log;
  readonly #accept: (socket: GuestSocket, from: FrontPeer) => void;
  readonly #tls: TlsNative | null;
  #port: number;
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #closing = false;

  /**
   * `accept` gets each guest as if it had connected by itself: the next bytes of the socket are the
   * guest's first.
   */
  constructor(
    options: TlsFrontOptions,
    log: Log,
    accept: (socket: GuestSocket, from: FrontPeer) => void,
  ) {
    this.#tls = loadNative(options.build).tls;
    this.#options = options;
    this.#log = log;
    this.#accept = accept;
    this.#port = options.listen.port;
  }

  /** Throws OB_TLS_FILES and OB_LISTEN. */
  async start(): Promise<Address> {
    const { files, clients, listen } = this.#options;
    requireTlsFiles(files, clients);
    const said = await this.#spawn();
    if (said.type === 'listening') {
      this.#port = said.port;
      return { host: listen.host, port: said.port };
    }
    this.kill();
    if (said.code === 'OB_TLS_FILES') throw new OutboardError('OB_TLS_FILES', said.message);
    throw new OutboardError('OB_LISTEN', formatAddress(listen), said.message);
  }

  /** Takes nobody new; resolves when the last connection that it passes on has ended. */
  async close() {
    this.#closing = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (!child) return;
    const gone = once(child, 'exit');
    send(child, { type: 'close' });
    await gone;
  }

  /** Ends at once, with the connections through it. */
  kill() {
    this.#closing = true;
    clearTimeout(this.#restart);
    this.#child?.kill('SIGKILL');
  }

  /** Resolves with the first message that says whether it listens. */
  #spawn(): Promise<Exclude<FromFront, { type: 'log' | 'guest' }>> {
    const {
      build,
      files,
      clients,
      helloSeconds,
      strangers,
      listen,
      relays = false,
    } = this.#options;
    let child: ChildProcess;
    try {
      child = fork(program, { stdio: ['ignore', 2, 2, 'ipc'] });
    } catch (error) {
      return Promise.resolve(this.#notStarted(error as Error));
    }
    this.#child = child;
    send(child, {
      type: 'start',
      host: listen.host,
      port: this.#port,
      files,
      clients,
      helloSeconds,
      strangers,
      build,
      relays,
    });
    return new Promise((resolve) => {
      child.on('message', (message: FromFront, handle: unknown) => {
        if (message.type === 'log') this.#log[message.level](message.fields, message.text);
        else if (message.type !== 'guest') resolve(message);
        // Without it, the guest has gone on the way.
        else if (handle instanceof Socket) this.#guest(handle, message.from, message.sealed);
      });
      child.on('error', (error) => {
        if (child.pid === undefined) resolve(this.#notStarted(error));
        else resolve({ type: 'failed', code: 'OB_LISTEN', message: error.message });
      });
      child.once('exit', (code, signal) => {
        this.#child = undefined;
        resolve({ type: 'failed', code: 'OB_LISTEN', message: `ended with ${signal ?? code}` });
        if (!this.#closing) this.#again(String(signal ?? code));
      });
    });
  }

  #guest(socket: Socket, from: FrontPeer, sealed: SealedText | null) {
    if (!sealed) return this.#accept(socket, from);
    const bytes = (text: string) => Buffer.from(text, 'base64');
    const given = { state: bytes(sealed.state), unopened: bytes(sealed.unopened) };
    const guest = this.#tls && SealedSocket.of(socket, this.#tls, given);
    given.state.fill(0);
    if (guest) this.#accept(guest, from);
    else socket.destroy();
  }

  /** It could not be started for want of descriptors, tasks or memory: no 'exit' follows. */
  #notStarted({ message }: Error) {
    this.#child = undefined;
    if (!this.#closing) this.#again(message);
    return { type: 'failed' as const, code: 'OB_LISTEN', message };
  }

  /** Its connections are lost with it; another one is started for those to come. */
  #again(how: string) {
    this.#log.error(`the TLS front ended (${how}): starting another`);
    this.#restart = setTimeout(async () => {
      const said = await this.#spawn();
      if (said.type === 'failed') this.#log.error(`the TLS front cannot start: ${said.message}`);
      else this.#log.info('the TLS front is back');
    }, restartSeconds * 1000);
  }
}

function send(child: ChildProcess, message: ToFront) {
  if (child.connected) child.send(message, () => {});
}
