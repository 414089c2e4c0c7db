// The agent's way to the server: its credentials, which are read again when their files change, and
// the TLS connection.
import { readFileSync } from 'node:fs';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import { OutboardError } from '../base/errors.js';
import { FileWatch } from '../base/file-watch.js';
import type { Log } from '../base/log.js';
import { printable } from '../base/printable.js';
import { LimitedLog } from '../network/limited-log.js';
import { relayOptions } from '../network/relay.js';
import { type Address, formatAddress } from '../options/values.js';
import { filesOf, isAboutCertificate, readTls, type TlsFiles, tlsReason } from '../tls/tls.js';

export interface UpstreamOptions {
  /** The servers, which are tried one after another. */
  servers: readonly Address[];
  files: TlsFiles;
  accessTokenFile: string | null;
  /** The name that the server's certificate must have; null: that of the host. */
  serverName: string | null;
  /** Seconds to connect, for all servers together. */
  connectSeconds: number;
}

interface Credentials {
  context: SecureContext;
  /** Empty: none. */
  accessToken: string;
}

export class Upstream {
  readonly #options: UpstreamOptions;
  readonly #log: Log;
  readonly #limitedLog: LimitedLog;
  readonly #watch: FileWatch;
  #credentials: Credentials;

  /** Throws OB_TLS_FILES and OB_AGENT_TOKEN. */
  constructor(options: UpstreamOptions, log: Log) {
    this.#options = options;
    this.#log = log;
    this.#limitedLog = new LimitedLog(log);
    const { files, accessTokenFile } = options;
    const watched = [...filesOf(files), ...(accessTokenFile === null ? [] : [accessTokenFile])];
    this.#credentials = read(options);
    this.#watch = new FileWatch(watched, () => this.#reload(), {
      say: (text) => log.warn(text),
    });
  }

  get accessToken(): string {
    return this.#credentials.accessToken;
  }

  close() {
    this.#watch.close();
  }

  /** Connects to the first of `servers` that can be reached; throws the refusal for the guest. */
  async connect(
    signal: AbortSignal,
    servers: readonly Address[] = this.#options.servers,
  ): Promise<{ socket: TLSSocket; server: Address }> {
    const { connectSeconds } = this.#options;
    let failure: OutboardError | undefined;
    for (const [index, server] of servers.entries()) {
      // Each server gets a part of the time, so that a silent one leaves some for the others.
      const limit = (connectSeconds * 1000) / servers.length;
      try {
        const socket = await this.#connectTo(server, limit, signal);
        return { socket, server };
      } catch (error) {
        failure = upstreamError(formatAddress(server), error as NodeJS.ErrnoException);
        if (signal.aborted) break;
        const more = index + 1 < servers.length;
        this.fails(server, failure, more ? '; trying the next' : '');
      }
    }
    throw failure ?? new OutboardError('OB_AGENT_UNREACHABLE', '', 'there is none');
  }

  /** Guests try again and again, so lines about each server are limited. */
  fails({ host }: Address, { code, message }: OutboardError, next = '') {
    this.#limitedLog.write('warn', host, { code }, `${message}${next}`);
  }

  #connectTo({ host, port }: Address, limitMs: number, signal: AbortSignal): Promise<TLSSocket> {
    const { serverName } = this.#options;
    return new Promise((resolve, reject) => {
      const socket = connect({
        host,
        port,
        ...(serverName === null ? {} : { servername: serverName }),
        secureContext: this.#credentials.context,
        minVersion: 'TLSv1.3',
        // Set here, because otherwise a variable of the environment would decide.
        rejectUnauthorized: true,
        ...relayOptions,
      });
      socket.setNoDelay(true);
      socket.setKeepAlive(true, 30_000);
      const timer = setTimeout(() => {
        socket.destroy(Object.assign(new Error('no answer in time'), { syscall: 'connect' }));
      }, limitMs);
      const abort = () => socket.destroy();
      signal.addEventListener('abort', abort, { once: true });
      const settled = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        socket.off('error', failed).off('close', closed);
      };
      const failed = (error: Error) => {
        settled();
        reject(error);
      };
      const closed = () => failed(new Error('the connection was closed'));
      socket.once('error', failed).once('close', closed);
      socket.once('secureConnect', () => {
        settled();
        resolve(socket);
      });
    });
  }

  #reload() {
    try {
      this.#credentials = read(this.#options);
      this.#log.info('certificates and token read');
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      const { code, remedy } = error;
      this.#log.error({ code, remedy }, `the credentials stay as they were: ${error.message}`);
    }
  }
}

function read({ files, accessTokenFile }: UpstreamOptions): Credentials {
  return {
    // As the guest library believes any certificate that it is named.
    context: createSecureContext({ ...readTls(files), allowPartialTrustChain: true }),
    accessToken: readAccessToken(accessTokenFile),
  };
}

function readAccessToken(file: string | null): string {
  if (file === null) return '';
  let accessToken: string;
  try {
    accessToken = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new OutboardError('OB_AGENT_TOKEN', (error as Error).message);
  }
  // The guest library takes it in the same form.
  if (!/^[\x21-\x7e]{1,4095}$/.test(accessToken)) {
    throw new OutboardError('OB_AGENT_TOKEN', `${file} holds no token, or more than one`);
  }
  return accessToken;
}

/** Why there is no connection to the server, or no answer on it, in the words for the guest. */
export function upstreamError(server: string, error: NodeJS.ErrnoException): OutboardError {
  const { code = '', syscall = '' } = error;
  // A guest shows no more of a sentence.
  const reason = printable(tlsReason(error), 200);
  if (isAboutCertificate(code)) return new OutboardError('OB_AGENT_CERTIFICATE', server, reason);
  if (syscall === 'connect' || syscall === 'getaddrinfo') {
    return new OutboardError('OB_AGENT_UNREACHABLE', server, reason);
  }
  return new OutboardError('OB_AGENT_TLS', server, reason);
}
