// A guest made of TypeScript: it speaks the attach dialogue and nothing else, which is all that the
// monitor ever sees of a guest.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as connectByTls } from 'node:tls';
import {
  type Answer,
  type DeviceReport,
  decodeAnswer,
  encodeHello,
  type Hello,
  type Refusal,
  type Welcome,
  wire,
} from '../../../api-server/src/control.js';
import type { Address } from '../../src/options/values.js';

export const usualHello: Partial<Hello> = {
  program: 'test',
  pid: process.pid,
  host: 'here',
  guestVersion: '0.0.0',
  windowBases: [0x400000000000n, 0x300000000000n],
  windowSize: 1n << 40n,
};

/** A Hello that wants no session. */
export function asking(session = 0n, shown: Uint8Array[] = []): Partial<Hello> {
  return { windowBases: [], windowSize: 1n, query: { session, shown } };
}

export class Guest {
  readonly socket: Socket;
  #bytes: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => {};

  /** `ca`: a file of authorities; the guest speaks TLS with `localhost` then. */
  constructor(address: Address | { path: string }, ca: string | null = null) {
    this.socket = ca
      ? connectByTls({ ...address, ca: readFileSync(ca), servername: 'localhost' })
      : connect(address);
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
      this.#wake();
    });
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.#ended = true;
      this.#wake();
    });
  }

  /** Connects and sends a Hello. */
  static hello(
    address: Address | { path: string },
    hello: Partial<Hello> = {},
    ca: string | null = null,
  ): Guest {
    const guest = new Guest(address, ca);
    guest.send(encodeHello({ ...usualHello, ...hello }));
    return guest;
  }

  send(bytes: Buffer | string) {
    this.socket.write(bytes);
  }

  /** The next answer; null when the server has closed the connection. */
  async answer(): Promise<Answer | null> {
    const preface = await this.read(wire.prefaceBytes);
    if (!preface) return null;
    const message = await this.read(preface.readUInt32LE(12));
    return message && decodeAnswer(message);
  }

  /** The Welcome, however long it has to wait for it. */
  async welcome(): Promise<Welcome> {
    const answer = await this.#afterQueue();
    if (!answer || !('welcome' in answer)) throw new Error(`not welcomed: ${show(answer)}`);
    return answer.welcome;
  }

  async position(): Promise<number> {
    const answer = await this.answer();
    if (!answer || !('queued' in answer)) throw new Error(`not queued: ${show(answer)}`);
    return answer.queued.position;
  }

  /** The refusal, after which the server must have closed the connection. */
  async refusal(): Promise<Refusal> {
    const answer = await this.#afterQueue();
    if (!answer || !('refusal' in answer)) throw new Error(`not refused: ${show(answer)}`);
    if (await this.answer()) throw new Error('the connection goes on after a refusal');
    return answer.refusal;
  }

  /** The report, after which the server must have closed the connection. */
  async report(): Promise<DeviceReport> {
    const answer = await this.answer();
    if (!answer || !('report' in answer)) throw new Error(`no report: ${show(answer)}`);
    if (await this.answer()) throw new Error('the connection goes on after a report');
    return answer.report;
  }

  async #afterQueue(): Promise<Answer | null> {
    for (;;) {
      const answer = await this.answer();
      if (!answer || !('queued' in answer)) return answer;
    }
  }

  /** So many bytes; null when the connection ends before. */
  async read(count: number): Promise<Buffer | null> {
    while (this.#bytes.length < count) {
      if (this.#ended) return null;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    const bytes = this.#bytes.subarray(0, count);
    this.#bytes = this.#bytes.subarray(count);
    return bytes;
  }

  /** Everything until the server closes. */
  async rest(): Promise<Buffer> {
    if (!this.#ended) await once(this.socket, 'close');
    return this.#bytes;
  }

  async leave() {
    if (this.#ended) return;
    const closed = once(this.socket, 'close');
    this.socket.destroy();
    await closed;
  }
}

function show(answer: Answer | null): string {
  return JSON.stringify(answer, (_, value) => (typeof value === 'bigint' ? String(value) : value));
}
