// Where log lines go: a file descriptor that may be full, closed at its other end, or read by nobody. None of
// that may end the server, make it wait, or fill its memory, so what cannot be written is lost.
import { writeSync } from 'node:fs';

/** So many bytes are kept for a slow reader. */
const keptMost = 1 << 20;
const againMilliseconds = 50;
const newline = 0x0a;

/** Writes as much as it can at once, like fs.writeSync; throws like it. */
export type Write = (bytes: Buffer) => number;

export class ForgivingStream {
  readonly #write: Write;
  #kept: Buffer[] = [];
  #length = 0;
  /** Whether what was written last ended within a line. */
  #within = false;
  #again: NodeJS.Timeout | undefined;

  constructor(write: Write) {
    this.#write = write;
  }

  /** A stream to a descriptor. A pipe or a socket must be non-blocking, or its reader could make us wait. */
  static to(descriptor: number): ForgivingStream {
    const stream = new ForgivingStream((bytes) => writeSync(descriptor, bytes));
    process.once('exit', () => stream.flush());
    return stream;
  }

  /** Bytes that wait for a slow reader. */
  get length(): number {
    return this.#length;
  }

  write(line: string) {
    const bytes = Buffer.from(line);
    if (this.#length + bytes.length > keptMost) return;
    this.#kept.push(bytes);
    this.#length += bytes.length;
    // While the reader has to be waited for, trying at each line would be in vain.
    if (!this.#again) this.flush();
  }

  /** As much of what is kept as can be written without waiting. */
  flush() {
    try {
      while (this.#length > 0) this.#some();
    } catch (error) {
      // Only a slow reader takes it later.
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return this.#later();
      // The next line begins at the beginning of a line, also after one that was cut off.
      this.#keep(Buffer.from(this.#within ? '\n' : ''));
    }
  }

  #some() {
    const bytes = Buffer.concat(this.#kept);
    this.#keep(bytes);
    const written = this.#write(bytes);
    if (written > 0) this.#within = bytes[written - 1] !== newline;
    this.#keep(bytes.subarray(written));
  }

  #keep(bytes: Buffer) {
    this.#kept = [bytes];
    this.#length = bytes.length;
  }

  #later() {
    this.#again = setTimeout(() => {
      this.#again = undefined;
      this.flush();
    }, againMilliseconds);
    this.#again.unref();
  }
}
