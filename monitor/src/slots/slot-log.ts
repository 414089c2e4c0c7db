// What a slot's process writes to stderr: lines of its own log, or whatever a driver library prints. A
// tenant that has taken the process over may have written it. So lines are bounded in length and number.
// And none speaks in the monitor's name: the monitor itself adds which slot and session it is from, and
// nothing in a line is taken for a command by a terminal, or for another line.
import type { Readable } from 'node:stream';
import type { Log } from '../base/log.js';
import { printable } from '../base/printable.js';

/** How many bytes of a line are read, and how many characters of it are shown. */
const lineBytes = 64 << 10;
const shownMost = 4000;
/** How much is read in a second. Lines beyond that are counted, if they were read already, and not shown. */
const linesMost = 500;
const bytesMost = 1 << 20;
const secondMilliseconds = 1000;
const newline = 0x0a;

/** By pino's numbers. What the process tells for information is detail here. */
const levels = new Map<unknown, 'trace' | 'debug' | 'warn' | 'error' | 'fatal'>([
  [10, 'trace'],
  [20, 'debug'],
  [30, 'debug'],
  [40, 'warn'],
  [50, 'error'],
  [60, 'fatal'],
]);

export class SlotLog {
  /** Whose lines these are, as the monitor knows it. */
  log: Log;
  readonly #stream: Readable;
  readonly #line = Buffer.allocUnsafe(lineBytes);
  #filled = 0;
  /** The line was too long, of which the log has been told: its rest is left out. */
  #cut = false;
  #lines = 0;
  #left = 0;
  #bytes = 0;
  #ended = false;
  #second: NodeJS.Timeout | undefined;

  constructor(stream: Readable, log: Log) {
    this.#stream = stream;
    this.log = log;
    stream.on('data', (chunk: Buffer) => this.#read(chunk));
    stream.once('end', () => this.#finish());
    stream.on('error', () => {});
  }

  /** Its process has ended: what it has written is still read, but not what a child of it goes on writing. */
  end() {
    this.#ended = true;
    this.#stream.resume();
    setTimeout(() => this.#stream.destroy(), secondMilliseconds).unref();
  }

  #read(chunk: Buffer) {
    this.#second ??= setTimeout(() => this.#nextSecond(), secondMilliseconds).unref();
    this.#bytes += chunk.length;
    this.#split(chunk);
    // The process has to wait: reading all of it would keep the monitor from everybody else.
    const enough = this.#lines > linesMost || this.#bytes > bytesMost;
    if (enough && !this.#ended) this.#stream.pause();
  }

  #split(chunk: Buffer) {
    for (let at = 0; at < chunk.length; ) {
      const end = chunk.indexOf(newline, at);
      this.#add(chunk.subarray(at, end < 0 ? undefined : end));
      if (end < 0) return;
      this.#finish();
      this.#cut = false;
      at = end + 1;
    }
  }

  #add(part: Buffer) {
    if (this.#cut) return;
    const fits = part.copy(this.#line, this.#filled);
    this.#filled += fits;
    if (fits === part.length) return;
    this.#finish();
    this.#cut = true;
    if (this.#left === 0) this.log.warn(`a line was longer than ${lineBytes >> 10} KiB: it is cut`);
  }

  #finish() {
    if (this.#filled === 0) return;
    const size = this.#filled;
    this.#filled = 0;
    if (this.#lines++ >= linesMost) this.#left++;
    else relay(this.#line.toString('utf8', 0, size), this.log);
  }

  #nextSecond() {
    if (this.#left > 0)
      this.log.warn(`${this.#left} lines were left out: more than a log can hold`);
    this.#second = undefined;
    this.#lines = 0;
    this.#left = 0;
    this.#bytes = 0;
    this.#stream.resume();
  }
}

/** Its other fields become one text, so that none can pass for a field of the monitor's. */
export function relay(line: string, log: Log) {
  const { level, msg, rest } = parsed(line);
  const said = rest === '{}' ? {} : { said: printable(rest, shownMost) };
  log[levels.get(level) ?? 'warn'](said, printable(msg, shownMost));
}

function parsed(line: string): { level?: unknown; msg: string; rest: string } {
  try {
    const { level, time: _time, name, msg, ...others } = JSON.parse(line);
    // Every line of the executor's has its name.
    const rest = name === undefined || name === 'executor' ? others : { name, ...others };
    // JSON that nests too deeply can be read, but not be written again.
    if (typeof msg === 'string') return { level, msg, rest: JSON.stringify(rest) };
  } catch {
    // It is no JSON: something that a library has printed.
  }
  return { msg: line, rest: '{}' };
}
