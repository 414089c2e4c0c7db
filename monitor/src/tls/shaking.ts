// TLS handshakes of guests on their sockets, by the addon (tls/): what is left then is the socket, and a connection that
// another process can go on with.
import { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TlsConnection, TlsNative, TlsServer } from '../../../api-server/src/native.js';
import { handleOf } from '../../../api-server/src/socket-handle.js';

export interface Shaken {
  connection: TlsConnection;
  /** What has come behind the handshake: records. */
  unopened: Buffer;
}

export interface ShakingEvents {
  /** Nothing more of the socket is read. */
  onShaken(shaken: Shaken): void;
  onFailed(reason: string): void;
}

/** A handshake with the longest chain of certificates is shorter. */
const mostBytes = 128 << 10;
/** So long what says why has to leave. */
const lingerMilliseconds = 500;

export class Shaking {
  readonly #socket: Socket;
  readonly #tls: TlsNative;
  readonly #events: ShakingEvents;
  readonly #timer: NodeJS.Timeout;
  #connection: TlsConnection | null;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(
    socket: Socket,
    tls: TlsNative,
    server: TlsServer,
    seconds: number,
    events: ShakingEvents,
  ) {
    this.#socket = socket;
    this.#tls = tls;
    this.#events = events;
    this.#connection = tls.accept(server);
    this.#timer = setTimeout(() => this.#fail('TLS handshake timeout'), seconds * 1000);
    socket.on('data', this.#read).on('error', this.#onError).once('end', this.#onEnd);
    socket.once('close', this.#onClose);
  }

  readonly #onError = (error: Error) => this.#fail(error.message);
  readonly #onEnd = () => this.#fail('the guest closed the connection');
  readonly #onClose = () => this.#over();

  readonly #read = (chunk: Buffer) => {
    const connection = this.#connection;
    if (!connection) return;
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
    const { used, out, done, failure } = this.#tls.shake(connection, this.#bytes);
    this.#bytes = this.#bytes.subarray(used);
    if (out.length > 0) this.#socket.write(out);
    if (failure !== 0) return this.#fail(failureText(failure));
    if (!done) {
      if (this.#bytes.length > mostBytes) this.#fail('a handshake without an end');
      return;
    }
    // From here on it is who has the connection that reads.
    handleOf(this.#socket)?.readStop();
    this.#connection = null;
    this.#over();
    this.#events.onShaken({ connection, unopened: Buffer.from(this.#bytes) });
  };

  /** Nothing is called any more. */
  #over() {
    clearTimeout(this.#timer);
    this.#socket.off('data', this.#read).off('end', this.#onEnd).off('close', this.#onClose);
    if (this.#connection) this.#tls.end(this.#connection);
    this.#connection = null;
  }

  #fail(reason: string) {
    if (!this.#connection) return;
    this.#over();
    this.#events.onFailed(reason);
    // Reads on for a moment: bytes that are left unread would reset the connection before the alert has come.
    const socket = this.#socket;
    socket.resume().end();
    const timer = setTimeout(() => socket.destroy(), lingerMilliseconds);
    socket.once('end', () => socket.destroy()).once('close', () => clearTimeout(timer));
  }
}

/** Of enum outboard_tls_failure, tls/include/outboard_tls.h. */
const failures: Record<number, string> = {
  1: 'the guest closed the connection',
  2: 'a damaged record',
  3: 'no TLS',
  4: 'no TLS 1.3',
  5: 'cert has expired',
  6: 'cert is not yet valid',
  8: 'unable to verify leaf signature',
  9: 'unusable cert',
};
const version1 = 16;

/** Of TLS, those that a guest sends where it does not believe the server. */
const alerts: Record<number, string> = {
  40: 'handshake failure',
  42: 'bad certificate',
  43: 'unsupported certificate',
  44: 'certificate revoked',
  45: 'certificate expired',
  46: 'certificate unknown',
  48: 'unknown ca',
  70: 'protocol version',
};

function failureText(failure: number): string {
  if (failure >= 256) return `alert: ${alerts[failure - 256] ?? failure - 256}`;
  return failures[failure] ?? `failure ${failure}`;
}

/** What there is to say against a certificate; null: nothing. `authorities`: in PEM. */
export function whyRefused(
  { certificate, judgement }: { certificate: X509Certificate; judgement: number },
  authorities: Buffer,
): string | null {
  if (judgement === 0) return null;
  return judgement === version1 ? whyVersion1(certificate, authorities) : failureText(judgement);
}

/**
 * Of a certificate of version 1, as `openssl x509 -req` makes them, the addon says nothing. One of the authorities
 * itself must have signed it.
 */
function whyVersion1(certificate: X509Certificate, authorities: Buffer): string | null {
  const signer = certificatesIn(authorities).find(
    (one) => certificate.checkIssued(one) && certificate.verify(one.publicKey),
  );
  if (!signer) return failureText(8);
  for (const one of [certificate, signer]) {
    if (Date.now() > Date.parse(one.validTo)) return failureText(5);
    if (Date.now() < Date.parse(one.validFrom)) return failureText(6);
  }
  // One of version 1 says nothing about that.
  return signer.ca ? null : failureText(9);
}

/** Of a file in PEM, those that can be read. */
function certificatesIn(pem: Buffer): X509Certificate[] {
  const blocks = pem
    .toString('latin1')
    .match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g);
  return (blocks ?? []).flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}
