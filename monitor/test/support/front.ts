// A TLS front with a monitor behind it that is a test's own, and a log whose lines can be waited for.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { type Logger, pino } from 'pino';
import { encodeAnswer, type Hello } from '../../../api-server/src/control.js';
import { build } from '../../../bin/paths.mjs';
import { HelloReader } from '../../src/guests/hello.js';
import type { Address } from '../../src/options/values.js';
import {
  type FrontPeer,
  type GuestSocket,
  TlsFront,
  type TlsFrontOptions,
} from '../../src/tls/front.js';

interface Test {
  teardown(end: () => unknown): void;
}

export interface Line {
  level: number;
  msg: string;
  [field: string]: unknown;
}

class TestLog {
  readonly lines: Line[] = [];
  readonly log: Logger;
  #wake: () => void = () => {};

  constructor() {
    const write = (text: string) => {
      this.lines.push(JSON.parse(text));
      this.#wake();
    };
    this.log = pino({ base: null, level: 'debug' }, { write });
  }

  /** The first line that matches, from now on or before. */
  async line(pattern: RegExp): Promise<Line> {
    for (;;) {
      const found = this.lines.find(({ msg }) => pattern.test(msg));
      if (found) return found;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }
}

export type Accept = (socket: GuestSocket, from: FrontPeer) => void;

export async function startFront(
  t: Test,
  options: Partial<TlsFrontOptions> & Pick<TlsFrontOptions, 'files'>,
  accept: Accept,
) {
  const log = new TestLog();
  const strangers = { all: 1000, ofAddress: 1000 };
  const listen = { host: '127.0.0.1', port: 0 };
  const front = new TlsFront(
    { build, listen, clients: 'none', helloSeconds: 60, strangers, ...options },
    log.log,
    accept,
  );
  t.teardown(() => front.kill());
  return { front, log, address: await front.start() };
}

/** Reads the Hello, answers that it waits, and sends back whatever comes after. */
export function echoing(seen: { hello: Hello; from: FrontPeer }[]): Accept {
  return (socket, from) => {
    const reader = new HelloReader();
    const read = (chunk: Buffer) => {
      const arrived = reader.push(chunk);
      if (!arrived) return;
      socket.off('data', read);
      seen.push({ hello: arrived.hello, from });
      socket.write(encodeAnswer({ queued: { position: 1 } }));
      socket.write(arrived.leftover);
      socket.pipe(socket);
    };
    socket.on('data', read).on('error', () => {});
  };
}

// Not among the options that the types know.
const halfOpen = { allowHalfOpen: true };

/** A guest that speaks TLS itself. */
export async function tlsGuest(
  t: Test,
  { port }: Address,
  options: ConnectionOptions,
): Promise<TLSSocket> {
  const socket = connect({ ...halfOpen, host: '127.0.0.1', port, ...options });
  t.teardown(() => socket.destroy());
  await once(socket, 'secureConnect');
  return socket;
}

/** So many bytes. */
export async function take(socket: Socket, count: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let left = count;
  while (left > 0) {
    const part: Buffer | null = socket.read(Math.min(left, Math.max(1, socket.readableLength)));
    if (part) {
      parts.push(part);
      left -= part.length;
    } else if (socket.readableEnded || socket.destroyed) {
      throw new Error(`${left} of ${count} bytes are missing`);
    } else {
      await Promise.race([once(socket, 'readable'), once(socket, 'close'), once(socket, 'end')]);
    }
  }
  return Buffer.concat(parts);
}
