// Where guests connect: TCP addresses, Unix sockets, and sockets that systemd has opened for us.
import { chmodSync, existsSync, lstatSync, unlinkSync } from 'node:fs';
import {
  connect,
  createServer,
  type ListenOptions,
  type Server as NetServer,
  type Socket,
} from 'node:net';
import path from 'node:path';
import { OutboardError } from '../base/errors.js';
import { BadValue } from '../options/options.js';
import { formatAddress, parseAddress, unixPathMost } from '../options/values.js';

export type Listen =
  | { kind: 'tcp'; host: string; port: number }
  | { kind: 'unix'; path: string }
  /** A socket that somebody else, as systemd, has opened. */
  | { kind: 'fd'; fd: number };

/** HOST:PORT, [IPV6]:PORT or unix:PATH. */
export function parseListen(text: string): Listen {
  if (text.startsWith('unix:')) return { kind: 'unix', path: unixPath(text.slice(5)) };
  return { kind: 'tcp', ...parseAddress(text, 0) };
}

/** The system would cut off a longer path without an error. */
function unixPath(text: string): string {
  const full = path.resolve(text);
  if (text === '' || Buffer.byteLength(full) > unixPathMost) {
    throw new BadValue(
      `the path of a Unix socket has 1 to ${unixPathMost} bytes, and ${full} has more or none`,
    );
  }
  return full;
}

export function formatListen(listen: Listen): string {
  switch (listen.kind) {
    case 'tcp':
      return formatAddress(listen);
    case 'unix':
      return `unix:${listen.path}`;
    case 'fd':
      return `file descriptor ${listen.fd}`;
  }
}

/** What to say where listening failed, as the system says it. `code` is for what is neither folder nor right. */
export function listenError(code: 'OB_LISTEN' | 'OB_API_LISTEN', listen: Listen, error: Error) {
  const shown = formatListen(listen);
  if (listen.kind === 'unix') {
    const folder = path.dirname(listen.path);
    // Node calls it a permission that is denied where there is no folder.
    if (!existsSync(folder))
      return new OutboardError('OB_LISTEN_FOLDER', shown, `there is no folder ${folder}`);
    const { code: why = '' } = error as NodeJS.ErrnoException;
    if (['EACCES', 'EROFS', 'ENOTDIR', 'EPERM'].includes(why))
      return new OutboardError('OB_LISTEN_FOLDER', shown, error.message);
  }
  return new OutboardError(code, shown, error.message);
}

// As systemd passes sockets: see sd_listen_fds(3).
const firstPassed = 3;

/**
 * Sockets that systemd passes to this process, to listen on; children inherit neither them nor the
 * variables.
 */
export function passedSockets(env: NodeJS.ProcessEnv): Listen[] {
  const ours = Number(env['LISTEN_PID']) === process.pid;
  const count = ours ? Number(env['LISTEN_FDS']) || 0 : 0;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete env[name];
  return Array.from({ length: count }, (_, index) => ({ kind: 'fd', fd: firstPassed + index }));
}

/** `peer`: where it comes from, as people write it. */
export type Accept = (socket: Socket, peer: string) => void;

export class Listeners {
  readonly #accept: Accept;
  readonly #servers: NetServer[] = [];
  readonly #paths: string[] = [];

  constructor(accept: Accept) {
    this.#accept = accept;
  }

  /** Listens on all, in order. Returns the real addresses, with a port in place of 0. Throws OutboardError. */
  async open(wanted: readonly Listen[]): Promise<Listen[]> {
    const opened: Listen[] = [];
    for (const listen of wanted) opened.push(await this.#open(listen, wanted));
    return opened;
  }

  /** Nobody connects any more; resolves when connections accepted before are gone, too. */
  async close() {
    await Promise.all(
      this.#servers.map((server) => new Promise<void>((done) => server.close(() => done()))),
    );
  }

  async #open(listen: Listen, wanted: readonly Listen[]): Promise<Listen> {
    if (listen.kind === 'unix') await removeStale(listen.path);
    // The kind of listener is known; one that somebody else has opened is TCP if its address has a port.
    let isUnix = listen.kind === 'unix';
    const server = createServer({ noDelay: true, keepAlive: true }, (socket) => {
      const peer = isUnix ? 'unix' : peerOf(socket);
      if (peer === null) socket.destroy();
      else this.#accept(socket, peer);
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) => reject(listenError('OB_LISTEN', listen, error)));
      server.listen(optionsOf(listen, wanted), resolve);
    });
    const address = server.address();
    if (listen.kind === 'fd') isUnix = typeof address !== 'object' || address === null;
    // An error of accept (no descriptors left) must not end the server: the next one may work.
    server.removeAllListeners('error').on('error', () => {});
    this.#servers.push(server);
    if (listen.kind === 'unix') {
      // The folder of the socket decides who can connect, and access tokens who is served.
      chmodSync(listen.path, 0o666);
      this.#paths.push(listen.path);
    }
    if (listen.kind !== 'unix' && typeof address === 'object' && address) {
      return {
        kind: 'tcp',
        host: listen.kind === 'tcp' ? listen.host : address.address,
        port: address.port,
      };
    }
    return typeof address === 'string' ? { kind: 'unix', path: address } : listen;
  }
}

/**
 * Throws what listenError makes for the first of these addresses that a server cannot listen on now, so that this
 * is known before anything else is begun. Nothing listens any more when it returns; what is open already stays so.
 */
export async function requireFree(guests: readonly Listen[], http: readonly Listen[]) {
  const servers: NetServer[] = [];
  const all = [
    ...guests.map((listen) => ({ listen, code: 'OB_LISTEN' as const })),
    ...http.map((listen) => ({ listen, code: 'OB_API_LISTEN' as const })),
  ];
  try {
    // All at once, for two of them may be the same.
    for (const { listen, code } of all) {
      if (listen.kind === 'fd') continue;
      if (listen.kind === 'unix') await removeStale(listen.path);
      const server = createServer((socket) => socket.destroy());
      servers.push(server);
      await new Promise<void>((resolve, reject) => {
        server.once('error', (error) => reject(listenError(code, listen, error)));
        server.listen(optionsOf(listen, code === 'OB_LISTEN' ? guests : []), resolve);
      });
    }
  } finally {
    await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  }
}

/** Null: the connection was reset before anybody looked, so there is no peer any more. */
function peerOf({ remoteAddress: host, remotePort: port }: Socket): string | null {
  return host === undefined || port === undefined ? null : formatAddress({ host, port });
}

function isIpv4(listen: Listen, port: number): boolean {
  return listen.kind === 'tcp' && listen.port === port && !listen.host.includes(':');
}

/** `wanted`: all that are listened on. */
function optionsOf(listen: Listen, wanted: readonly Listen[]): ListenOptions | { fd: number } {
  // When a function is called again after a pause, hundreds of connections may come at once.
  const backlog = 4096;
  switch (listen.kind) {
    case 'tcp': {
      const { host, port } = listen;
      // [::] takes IPv4, too, unless somebody else is named for it.
      const ipv6Only = host.includes(':') && wanted.some((one) => isIpv4(one, port));
      return { host, port, backlog, ipv6Only };
    }
    case 'unix':
      return { path: listen.path, backlog };
    case 'fd':
      return { fd: listen.fd };
  }
}

/** Removes a socket that a killed server has left behind; one that somebody listens on stays. */
export async function removeStale(path: string) {
  try {
    if (!lstatSync(path).isSocket()) return;
  } catch {
    return;
  }
  const alive = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => resolve(true));
    probe.once('error', () => resolve(false));
    probe.once('connect', () => probe.destroy());
  });
  if (!alive) unlinkSync(path);
}
