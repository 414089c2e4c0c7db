// The local agent. Guests on its machine connect to it without TLS and without secrets; it connects to the
// server with both. So no TLS library, no key and no access token is in the user's process.
import { chmodSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { encodeAnswer } from '../../../api-server/src/control.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import { formatListen, type Listen, listenError, removeStale } from '../network/listeners.js';
import { pass, relayOptions } from '../network/relay.js';
import { type Address, formatAddress } from '../options/values.js';
import { isLocal } from '../tenants/tenants.js';
import { AgentHello, type First } from './hello.js';
import { TicketServers } from './ticket-servers.js';
import { Upstream, type UpstreamOptions, upstreamError } from './upstream.js';

export interface AgentOptions extends UpstreamOptions {
  /** A Unix socket, or loopback: who connects here acts with the agent's credentials. */
  listen: Exclude<Listen, { kind: 'fd' }>;
  /** How many seconds a guest may take to say who it is. */
  helloSeconds: number;
}

export class Agent {
  readonly #options: AgentOptions;
  readonly #log: Log;
  readonly #upstream: Upstream;
  readonly #tickets = new TicketServers();
  readonly #server: Server;
  readonly #guests = new Set<Socket>();

  /** Throws OB_TLS_FILES, OB_AGENT_TOKEN and OB_AGENT_LISTEN. */
  constructor(options: AgentOptions, log: Log) {
    const { listen } = options;
    if (!isLocal(listen)) throw new OutboardError('OB_AGENT_LISTEN', formatListen(listen));
    this.#options = options;
    this.#log = log;
    this.#upstream = new Upstream(options, log);
    this.#server = createServer({ ...relayOptions, noDelay: true }, (guest) => this.#serve(guest));
  }

  /** Where it listens: port 0 is a real one then. Throws OB_LISTEN and OB_LISTEN_FOLDER. */
  async start(): Promise<Listen> {
    const { listen } = this.#options;
    const backlog = 4096;
    if (listen.kind === 'unix') await removeStale(listen.path);
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error) => {
        reject(listenError('OB_LISTEN', listen, error));
      };
      this.#server.once('error', failed);
      const listening = () => {
        // Where no descriptor is left for one guest, the agent goes on for all others.
        this.#server.off('error', failed);
        this.#server.on('error', (error) => this.#log.error(error.message));
        resolve();
      };
      if (listen.kind === 'tcp') {
        this.#server.listen({ host: listen.host, port: listen.port, backlog }, listening);
        return;
      }
      // bind() makes the socket in this call, so the mask lets nobody but the owner connect, from the start.
      const mask = process.umask(0o177);
      this.#server.listen({ path: listen.path, backlog }, listening);
      process.umask(mask);
    });
    if (listen.kind === 'unix') {
      chmodSync(listen.path, 0o600);
      return listen;
    }
    const address = this.#server.address();
    const port = typeof address === 'object' && address ? address.port : listen.port;
    return { ...listen, port };
  }

  /** Guests that are connected. */
  get connections(): number {
    return this.#guests.size;
  }

  /** Takes nobody new; resolves when the last guest has gone. */
  async stop() {
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#upstream.close();
  }

  /** Cuts all connections. */
  kill() {
    for (const guest of this.#guests) guest.destroy();
  }

  #serve(guest: Socket) {
    this.#guests.add(guest);
    const gone = new AbortController();
    guest.once('close', () => {
      this.#guests.delete(guest);
      gone.abort();
    });
    guest.on('error', (error) => this.#log.debug({ err: error }, 'a guest failed'));
    const { helloSeconds } = this.#options;
    const timer = setTimeout(() => {
      refuse(guest, new OutboardError('OB_HELLO_SLOW', helloSeconds));
    }, helloSeconds * 1000);
    const hello = new AgentHello(this.#upstream.accessToken);
    const settled = () => {
      clearTimeout(timer);
      guest.off('data', read).off('end', left).off('close', settled);
    };
    const read = (chunk: Buffer) => {
      try {
        const first = hello.push(chunk);
        if (!first) return;
        settled();
        guest.pause();
        this.#goOn(guest, first, gone.signal);
      } catch (error) {
        if (!(error instanceof OutboardError)) throw error;
        settled();
        refuse(guest, error);
      }
    };
    const left = () => guest.destroy();
    guest.on('data', read).once('end', left).once('close', settled);
  }

  async #goOn(guest: Socket, first: First, gone: AbortSignal) {
    const one = this.#tickets.serverOf(first.hello?.ticket ?? '');
    try {
      const { socket, server } = await this.#upstream.connect(gone, one && [one]);
      if (gone.aborted) socket.destroy();
      else this.#join(guest, first, socket, server);
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      refuse(guest, error);
    }
  }

  /** Until the server's first bytes, the guest can be told what goes wrong. */
  #join(guest: Socket, { bytes, hello }: First, server: TLSSocket, address: Address) {
    const fail = (error: NodeJS.ErrnoException) => {
      settled();
      server.destroy();
      // It has gone before it could be told.
      if (guest.destroyed || guest.readableEnded) {
        guest.destroy();
        return;
      }
      const refusal = upstreamError(formatAddress(address), error);
      this.#upstream.fails(address, refusal);
      refuse(guest, refusal);
    };
    const ended = () => fail(new Error('it closed without a word'));
    const answered = (chunk: Buffer) => {
      settled();
      // Put back, so that the relay reads it.
      server.pause();
      server.unshift(chunk);
      if (hello && hello.devices > 1) this.#tickets.watch(server, address);
      pass(server, guest);
    };
    const settled = () => {
      server.off('error', fail).off('end', ended).off('close', ended).off('data', answered);
      // Later errors are for the relay to handle.
      server.on('error', () => {});
    };
    server.on('error', fail).once('end', ended).once('close', ended).once('data', answered);
    server.write(bytes);
    // Reading begins at once, although a guest says nothing yet, so that its leaving is noticed.
    pass(guest, server);
  }
}

/** Reads on for a while: if bytes were left unread, TCP would reset the connection, and the answer be lost. */
function refuse(guest: Socket, error: OutboardError) {
  if (guest.destroyed) return;
  guest.end(encodeAnswer({ refusal: error.refusal }));
  guest.resume();
  const timer = setTimeout(() => guest.destroy(), 2000);
  guest.once('close', () => clearTimeout(timer));
}
