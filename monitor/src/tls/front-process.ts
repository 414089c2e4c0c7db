// The TLS front: a process of its own between the monitor and guests outside this machine, so that the
// monitor is never held up by decrypting and passing on bytes. Its parent, front.ts, tells it what to do;
// it ends with its parent.
import { Socket } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { encodeAnswer } from '../../../api-server/src/control.js';
import { loadNative } from '../../../api-server/src/native.js';
import { handleOf } from '../../../api-server/src/socket-handle.js';
import { OutboardError } from '../base/errors.js';
import { FileWatch } from '../base/file-watch.js';
import { printable } from '../base/printable.js';
import { LimitedLog } from '../network/limited-log.js';
import { relay, relayOptions } from '../network/relay.js';
import { addressOf, Strangers, type StrangersMost } from '../network/strangers.js';
import { formatAddress } from '../options/values.js';
import type { CertificateIdentity } from '../tenants/tenants.js';
import {
  certificateProblem,
  filesOf,
  peerIdentity,
  readTls,
  type TlsFiles,
  tlsReason,
} from './tls.js';

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
}

/** Of a guest that cannot be passed on. */
const { remedy } = new OutboardError('OB_DESCRIPTORS', '');

export type ToFront = FrontStart | { type: 'close' };

export type FromFront =
  | { type: 'listening'; port: number }
  | { type: 'failed'; code: string; message: string }
  /** Comes with the monitor's end of a connection to this guest. */
  | { type: 'guest'; from: FrontPeer }
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

function start({ host, port, files, clients, helloSeconds, ...front }: FrontStart) {
  const { strangers: most, build } = front;
  const native = loadNative(build);
  const server = createServer(
    {
      ...readTls(files),
      requestCert: clients !== 'none',
      // The certificate is judged below, where a guest that is refused can be told why.
      rejectUnauthorized: false,
      handshakeTimeout: helloSeconds * 1000,
      ...relayOptions,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
      // Sessions are not resumed, so that each certificate is verified against the authorities of today.
      sessionTimeout: 0,
    },
    (guest) => {
      handshakes.get(`${guest.remoteAddress} ${guest.remotePort}`)?.();
      const peer = peerOf(guest);
      guest.on('error', (error) => log('debug', { peer, reason: tlsReason(error) }, 'TLS failed'));
      const refusal = judge(guest, clients);
      if (refusal) {
        const { code, message } = refusal;
        limitedLog.write('warn', addressOf(peer), { peer, code }, message);
        refuse(guest, refusal);
        return;
      }
      const certificate = clients === 'none' ? null : peerIdentity(guest);
      admit(guest, { peer, certificate });
    },
  );

  function admit(guest: TLSSocket, from: FrontPeer) {
    try {
      pass(guest, from);
    } catch (error) {
      // Descriptors have run out: those who are here already keep what they have.
      log(
        'error',
        { peer: from.peer, remedy },
        `a guest is sent away: ${(error as Error).message}`,
      );
      guest.destroy();
    }
  }

  function pass(guest: TLSSocket, from: FrontPeer) {
    // No address that others of this machine could find, take or crowd.
    const { here, there } = native.socketPair('bytes');
    const theirs = new Socket({ fd: there });
    // The first byte is the monitor's to read.
    handleOf(theirs)?.readStop();
    const message: FromFront = { type: 'guest', from };
    process.send?.(message, theirs, (error) => {
      if (error) guest.destroy();
    });
    relay(guest, new Socket({ fd: here, ...relayOptions }));
  }

  // Called before TLS's own listener. One connection too many cannot be told so: that would take a handshake.
  const strangers = new Strangers(most);
  const handshakes = new Map<string, () => void>();
  server.prependListener('connection', (socket) => {
    const { remoteAddress, remotePort } = socket;
    const stranger = strangers.enter(remoteAddress ?? '?');
    if (stranger === 'full' || remoteAddress === undefined) return socket.destroy();
    if (stranger.refusal) {
      const { code, message } = stranger.refusal;
      limitedLog.write('warn', remoteAddress, { peer: remoteAddress, code }, message);
      stranger.leave();
      return socket.destroy();
    }
    const peer = `${remoteAddress} ${remotePort}`;
    const leave = () => {
      stranger.leave();
      handshakes.delete(peer);
    };
    handshakes.set(peer, leave);
    return socket.once('close', leave);
  });

  // What is no TLS, or no TLS 1.3, or has no certificate to show.
  server.on('tlsClientError', (error, socket) => {
    const peer = peerOf(socket);
    const fields = { peer, reason: tlsReason(error) };
    limitedLog.write('info', addressOf(peer), fields, 'no TLS connection came about');
    // Node leaves the connection open, even when the time for the handshake is over.
    socket.destroy();
  });
  const reload = () => {
    try {
      server.setSecureContext(readTls(files));
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

/** The refusal of this certificate; null: the guest may come in. */
function judge(guest: TLSSocket, clients: Clients): OutboardError | null {
  if (clients === 'none') return null;
  if (!guest.getPeerX509Certificate()) {
    return clients === 'require' ? new OutboardError('OB_CERTIFICATE_MISSING') : null;
  }
  if (guest.authorized) return null;
  const reason = printable(certificateProblem(String(guest.authorizationError)), 100);
  return new OutboardError('OB_CERTIFICATE_REFUSED', reason);
}

/** Reads on for a while: if bytes were left unread, TCP would reset the connection, and the answer be lost. */
function refuse(guest: TLSSocket, error: OutboardError) {
  guest.end(encodeAnswer({ refusal: error.refusal }));
  guest.resume();
  const timer = setTimeout(() => guest.destroy(), 2000);
  guest.once('close', () => clearTimeout(timer));
}

function peerOf({ remoteAddress, remotePort }: TLSSocket): string {
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
