// One end of the pipe between the monitor and an API server process: each message of ipc.ts is its
// length and its bytes (message.ts). Not Node's own IPC, where bytes that make no sense throw where nobody
// can catch it, and a message may be as long as it says: the other end may have been taken over.
import type { Duplex } from 'node:stream';
import { decodeMessage, encodeMessage, longestMessage, type MessageMost } from './message.js';

const headBytes = 4;

export interface ChannelEvents {
  /** What it throws ends the channel. */
  onMessage(message: unknown, bytes: number): void;
  /** What there may be in the next one; absent: as much as in any. */
  most?(): MessageMost;
  /** Once: nothing more will come. The other end has gone; or what came from it makes no sense. */
  onOver(wrong: Error | null): void;
}

export class Channel {
  readonly #stream: Duplex;
  readonly #events: ChannelEvents;
  readonly #head = Buffer.alloc(headBytes);
  /** Null: its length has not come. */
  #body: Buffer | null = null;
  #filled = 0;
  #most = longestMessage;
  #over = false;

  constructor(stream: Duplex, events: ChannelEvents) {
    this.#stream = stream;
    this.#events = events;
    stream.on('data', (chunk: Buffer) => {
      try {
        this.#read(chunk);
      } catch (error) {
        this.#end(error instanceof Error ? error : new Error(String(error)));
      }
    });
    // Nobody can be told who has gone: 'close' follows.
    stream.on('error', () => {});
    stream.once('end', () => this.#end(null)).once('close', () => this.#end(null));
  }

  /** `sent` is called when it has been written, or cannot be; there may be nobody to read it. */
  send(message: object, sent?: (error?: Error | null) => void) {
    if (this.#over) return sent?.();
    const body = encodeMessage(message);
    const head = Buffer.alloc(headBytes);
    head.writeUInt32BE(body.length);
    this.#stream.write(Buffer.concat([head, body]), sent);
  }

  /** Nothing that has come is told of any more. */
  close() {
    this.#over = true;
    this.#stream.destroy();
  }

  #end(wrong: Error | null) {
    if (this.#over) return;
    this.close();
    this.#events.onOver(wrong);
  }

  #read(chunk: Buffer) {
    for (let at = 0; at < chunk.length && !this.#over; ) {
      const part = this.#body ?? this.#head;
      const copied = chunk.copy(part, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled < part.length) return;
      this.#filled = 0;
      if (this.#body) {
        this.#body = null;
        this.#events.onMessage(decodeMessage(part, this.#most), part.length);
      } else {
        const size = part.readUInt32BE();
        this.#most = this.#events.most?.() ?? longestMessage;
        if (size === 0 || size > this.#most.bytes) throw new Error(`a message of ${size} bytes`);
        this.#body = Buffer.allocUnsafeSlow(size);
      }
    }
  }
}
