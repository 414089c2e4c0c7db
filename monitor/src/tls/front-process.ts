// The TLS front: a process of its own between the monitor and guests outside this machine, so that the monitor is never
// held up by handshakes. What comes behind one is not its business: the monitor gets the guest's socket and keys. Only
// where the addon was built without TLS (tls/) does it decrypt and pass on every byte. Its parent, front.ts, tells it
// what to do; it ends with its parent.
import { X509Certificate } from 'node:crypto';
import { createServer, type Server, Socket } from 'node:net';
import { createServer as createRelaying, type TLSSocket } from 'node:tls';
import { encodeAnswer } from '../../../api-server/src/control.js';
import {
  loadNative,
  type Native,
  type TlsNative,
  type TlsServer,
} from '../../../api-server/src/native.js';
import { handleOf } from '../../../api-server/src/socket-handle.js';
import { OutboardError } from '../base/errors.js';
import { FileWatch } from '../base/file-watch.js';
import { printable } from '../base/printable.js';
import { LimitedLog } from '../network/limited-log.js';
import { relay, relayOptions } from '../network/relay.js';
import { addressOf, Strangers, type StrangersMost } from '../network/strangers.js';
import { formatAddress } from '../options/values.js';
import type { CertificateIdentity } from '../tenants/tenants.js';
import { type Shaken, Shaking, whyRefused } from './shaking.js';
import { certificateProblem, filesOf, namesIn, readTls, type TlsFiles, tlsReason } from './tls.js';

export type Clients = 'none' | 'ask' | 'require';

export interface FrontPeer {
  /** Where the guest, or its agent, connected from. */
  peer: string;
  /** The names in its certificate, which was verified; null: it sent none. */
  certificate: CertificateIdentity | null;
}

export interface FrontStart {
  type: 'start';
  host: string;
  port: number;
  files: TlsFiles;
  clients: Clients;
  helloSeconds: number;
  strangers: StrangersMost;
  /** Where executor.node is. */
  build: string;
  /** Whether every byte is passed on, although the addon could hand over keys. */
  relays: boolean;
}

/** A connection by TLS (SealedState), in base64. */
export interface SealedText {
  state: string;
  unopened: string;
}

/** Of a guest that cannot be passed on. */
const { remedy } = new OutboardError('OB_DESCRIPTORS', '');

export type ToFront = FrontStart | { type: 'close' };

export type FromFront =
  | { type: 'listening'; port: number }
  | { type: 'failed'; code: string; message: string }
  /** Comes with the guest's socket and what is needed to read it; `sealed` null: with the end of a relay's. */
  | { type: 'guest'; from: FrontPeer; sealed: SealedText | null }
  | { type: 'log'; level: 'info' | 'warn' | 'error' | 'debug'; fields: object; text: string };

function tell(message: FromFront) {
  if (process.connected) process.send?.(message);
}

function log(level: 'info' | 'warn' | 'error' | 'debug', fields: object, text: string) {
  tell({ type: 'log', level, fields, text });
}

const limitedLog = new LimitedLog({
  info: (fields, text) => log('info', fields, text),
  warn: (fields, text) => log('warn', fields, text),
});

function start(options: FrontStart) {
  const { host, port, files, strangers: most, build } = options;
  const native = loadNative(build);
  const accepting = handingOver(options, native) ?? relaying(options, native);
  const { server } = accepting;

  // Called before TLS's own listener. One connection too many cannot be told so: that would take a handshake.
  const strangers = new Strangers(most);
  server.prependListener('connection', (socket: Socket) => {
    const { remoteAddress } = socket;
    const stranger = strangers.enter(remoteAddress ?? '?');
    if (stranger === 'full' || remoteAddress === undefined) return socket.destroy();
    if (stranger.refusal) {
      const { code, message } = stranger.refusal;
      limitedLog.write('warn', remoteAddress, { peer: remoteAddress, code }, message);
      stranger.leave();
      return socket.destroy();
    }
    known.set(socket, () => stranger.leave());
    return socket.once('close', () => stranger.leave());
  });

  const reload = () => {
    try {
      accepting.reload();
      log('info', {}, 'certificates read');
    } catch (error) {
      const { message } = error as Error;
      log('error', { code: 'OB_TLS_FILES' }, `the certificates stay as they were: ${message}`);
    }
  };
  const watch = new FileWatch(filesOf(files), reload, { say: (text) => log('warn', {}, text) });
  server.once('error', (error) => failed('OB_LISTEN', error));
  server.listen({ host, port, backlog: 4096 }, () => {
    server.removeAllListeners('error');
    server.on('error', (error) => log('error', {}, `TLS front: ${error.message}`));
    const address = server.address();
    if (typeof address === 'object' && address) tell({ type: 'listening', port: address.port });
  });
  return () => {
    watch.close();
    // With the last connection nothing is left to do, and the process ends.
    server.close(() => {
      limitedLog.tell();
      process.disconnect?.();
    });
  };
}

/** Says that one is no stranger any more. */
const known = new WeakMap<Socket, () => void>();

/** What accepts guests, and takes up other certificates. */
interface Accepting {
  server: Server;
  /** Throws where they are none. */
  reload(): void;
}

const socketOptions = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 };

function notTls(peer: string, reason: string) {
  limitedLog.write('info', addressOf(peer), { peer, reason }, 'no TLS connection came about');
}

function turnAway(peer: string, { code, message }: OutboardError) {
  limitedLog.write('warn', addressOf(peer), { peer, code }, message);
}

/** Descriptors have run out: those who are here already keep what they have. */
function sendAway(peer: string, error: unknown) {
  log('error', { peer, remedy }, `a guest is sent away: ${(error as Error).message}`);
}

/** Bytes that are left unread would have TCP reset the connection, and the answer be lost. */
function readOn(socket: Socket) {
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), 2000);
  socket.once('close', () => clearTimeout(timer));
}

// ---- handing over ------------------------------------------------------------------------------

/** Null where the addon cannot, which the log is told. */
function handingOver(options: FrontStart, { tls }: Native): Accepting | null {
  const { files, clients, helloSeconds, relays } = options;
  if (relays) return null;
  if (!tls) {
    const why = 'it was made by `npm run demo` alone, or there was no cargo';
    log(
      'info',
      { remedy: 'npm run build' },
      `TLS is relayed: this build has none of its own: ${why}`,
    );
    return null;
  }
  let current: Certificates;
  try {
    current = certificates(tls, files, clients);
  } catch (error) {
    if (error instanceof OutboardError) throw error;
    log('warn', {}, `TLS is relayed, which costs rate: ${(error as Error).message}`);
    return null;
  }
  const server = createServer({ ...socketOptions, allowHalfOpen: true }, (socket) => {
    const { server: shown, authorities } = current;
    const peer = peerOf(socket);
    if (socket.destroyed) return;
    new Shaking(socket, tls, shown, helloSeconds, {
      onFailed: (reason) => notTls(peer, reason),
      // It counts as a stranger until the monitor has it, or it is gone.
      onShaken: (shaken) => {
        const judged = judge(tls, shaken, clients, authorities);
        if (judged instanceof OutboardError) {
          turnAway(peer, judged);
          const answer = encodeAnswer({ refusal: judged.refusal });
          socket.end(tls.seal(shaken.connection, answer, true));
          handleOf(socket)?.readStart();
          readOn(socket);
        } else handOver(tls, socket, shaken, { peer, certificate: judged });
        tls.end(shaken.connection);
      },
    });
  });
  return {
    server,
    reload: () => {
      current = certificates(tls, files, clients);
    },
  };
}

interface Certificates {
  server: TlsServer;
  /** In PEM; null: nobody is asked. */
  authorities: Buffer | null;
}

/** Throws OB_TLS_FILES, and any other Error where the addon does not know what there is. */
function certificates(tls: TlsNative, files: TlsFiles, clients: Clients): Certificates {
  const { cert, key, ca } = readTls(files) as Record<'cert' | 'key' | 'ca', Buffer | undefined>;
  if (!cert || !key)
    throw new OutboardError('OB_TLS_FILES', 'a certificate and its key are needed');
  const authorities = clients === 'none' ? null : (ca ?? null);
  const server = tls.server({ cert, key, ca: authorities });
  if (typeof server !== 'number') return { server, authorities };
  throw new Error(
    `${files.cert} and ${files.key} are of a kind that is not known here (${server}): take RSA of 2048 bits or more, P-256, P-384 or Ed25519`,
  );
}

/** Who a guest is, or its refusal. */
function judge(
  tls: TlsNative,
  { connection }: Shaken,
  clients: Clients,
  authorities: Buffer | null,
): CertificateIdentity | null | OutboardError {
  if (clients === 'none' || !authorities) return null;
  const shown = tls.shown(connection);
  if (!shown) return clients === 'require' ? new OutboardError('OB_CERTIFICATE_MISSING') : null;
  try {
    const certificate = new X509Certificate(shown.certificate);
    const why = whyRefused({ certificate, judgement: shown.judgement }, authorities);
    return why === null
      ? namesIn(certificate.toLegacyObject())
      : new OutboardError('OB_CERTIFICATE_REFUSED', why);
  } catch (error) {
    return new OutboardError('OB_CERTIFICATE_REFUSED', printable(tlsReason(error), 100));
  }
}

function handOver(
  tls: TlsNative,
  socket: Socket,
  { connection, unopened }: Shaken,
  from: FrontPeer,
) {
  const state = tls.save(connection);
  // What was sent must have left, as nobody here sends it any more.
  if (!state || socket.writableLength > 0 || !process.connected) {
    socket.destroy();
    return;
  }
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
  const sealed = { state: text(state), unopened: text(unopened) };
  const message: FromFront = { type: 'guest', from, sealed };
  // Else Node would ask the monitor about it for as long as it is open there.
  Reflect.set(socket, 'server', null);
  process.send?.(message, socket, (error) => {
    if (error) sendAway(from.peer, error);
    // What is left of it here.
    socket.destroy();
  });
}

// ---- relaying ----------------------------------------------------------------------------------

function relaying(options: FrontStart, native: Native): Accepting {
  const { files, clients, helloSeconds } = options;
  const server = createRelaying(
    {
      ...readTls(files),
      requestCert: clients !== 'none',
      // The certificate is judged below, where a guest that is refused can be told why.
      rejectUnauthorized: false,
      handshakeTimeout: helloSeconds * 1000,
      ...relayOptions,
      ...socketOptions,
      // Sessions are not resumed, so that each certificate is verified against the authorities of today.
      sessionTimeout: 0,
    },
    (guest) => {
      const enters = handshakes.get(`${guest.remoteAddress} ${guest.remotePort}`);
      const peer = peerOf(guest);
      guest.on('error', (error) => log('debug', { peer, reason: tlsReason(error) }, 'TLS failed'));
      const refusal = judgeRelayed(guest, clients);
      if (refusal) {
        turnAway(peer, refusal);
        guest.end(encodeAnswer({ refusal: refusal.refusal }));
        return readOn(guest);
      }
      const certificate = clients === 'none' ? null : namesIn(guest.getPeerCertificate());
      try {
        pass(guest, { peer, certificate }, enters);
      } catch (error) {
        sendAway(peer, error);
        guest.destroy();
      }
    },
  );

  function pass(guest: TLSSocket, from: FrontPeer, enters?: () => void) {
    // No address that others of this machine could find, take or crowd.
    const { here, there } = native.socketPair('bytes');
    const theirs = new Socket({ fd: there });
    // The first byte is the monitor's to read.
    handleOf(theirs)?.readStop();
    const message: FromFront = { type: 'guest', from, sealed: null };
    process.send?.(message, theirs, (error) => {
      if (error) guest.destroy();
      else enters?.();
    });
    relay(guest, new Socket({ fd: here, ...relayOptions }));
  }

  const handshakes = new Map<string, () => void>();
  server.prependListener('connection', (socket: Socket) => {
    const peer = `${socket.remoteAddress} ${socket.remotePort}`;
    handshakes.set(peer, () => known.get(socket)?.());
    socket.once('close', () => handshakes.delete(peer));
  });

  // What is no TLS, or no TLS 1.3, or has no certificate to show.
  server.on('tlsClientError', (error, socket) => {
    notTls(peerOf(socket), tlsReason(error));
    // Node leaves the connection open, even when the time for the handshake is over.
    socket.destroy();
  });
  return { server, reload: () => server.setSecureContext(readTls(files)) };
}

/** The refusal of this certificate; null: the guest may come in. */
function judgeRelayed(guest: TLSSocket, clients: Clients): OutboardError | null {
  if (clients === 'none') return null;
  if (!guest.getPeerX509Certificate()) {
    return clients === 'require' ? new OutboardError('OB_CERTIFICATE_MISSING') : null;
  }
  if (guest.authorized) return null;
  const reason = printable(certificateProblem(String(guest.authorizationError)), 100);
  return new OutboardError('OB_CERTIFICATE_REFUSED', reason);
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return formatAddress({ host: remoteAddress ?? '?', port: remotePort ?? 0 });
}

function failed(code: string, error: unknown) {
  tell({ type: 'failed', code, message: (error as Error).message });
  process.disconnect?.();
}

let close: () => void = () => {};
process.on('message', (message: ToFront) => {
  if (message.type === 'close') return close();
  try {
    close = start(message);
  } catch (error) {
    failed('OB_TLS_FILES', error);
  }
});
// When the monitor ends in whatever way, the front ends, too. Signals of a terminal reach both processes; what
// they mean is for the monitor to decide.
process.on('disconnect', () => process.exit(0));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
