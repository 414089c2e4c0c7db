// Lines that anybody can cause by connecting: a refusal, a handshake that fails, a guest that leaves the
// queue. Within some seconds one address, and all together, cause so many lines at most. The rest is
// counted, and told of in one line. So nobody who connects again and again fills the disk, or the newest
// lines, which are kept for operators.
import { machineOf } from './strangers.js';

export interface LogLimits {
  all: number;
  ofAddress: number;
}

type Level = 'info' | 'warn';

type LogFields = { code?: string; [field: string]: unknown };

/** What writes the lines: `Log`, or another process. */
export type LogWriters = Record<Level, (fields: object, text: string) => void>;

/** Calls `act` once, later. */
export type Later = (milliseconds: number, act: () => void) => void;

const spanMilliseconds = 10_000;
const usual: LogLimits = { all: 100, ofAddress: 20 };

const later: Later = (milliseconds, act) => {
  setTimeout(act, milliseconds).unref();
};

export class LimitedLog {
  readonly #lines: LogWriters;
  readonly #most: LogLimits;
  readonly #later: Later;
  /** Of the time that runs: lines by machine, so that it holds no more of them than lines. */
  readonly #of = new Map<string, number>();
  #all = 0;
  #runs = false;
  /** Left out, by code or, where there is none, by text. */
  #left = new Map<string, number>();

  constructor(lines: LogWriters, most = usual, after = later) {
    this.#lines = lines;
    this.#most = most;
    this.#later = after;
  }

  /** `address`: whose doing it is. */
  write(level: Level, address: string, fields: LogFields, text: string) {
    if (!this.#runs) {
      this.#runs = true;
      this.#later(spanMilliseconds, () => this.#next());
    }
    const machine = machineOf(address);
    const own = this.#of.get(machine) ?? 0;
    if (this.#all >= this.#most.all || own >= this.#most.ofAddress) {
      const kind = fields.code ?? text;
      this.#left.set(kind, (this.#left.get(kind) ?? 0) + 1);
      return;
    }
    this.#all++;
    this.#of.set(machine, own + 1);
    this.#lines[level](fields, text);
  }

  /** What was left out until now, in one line. */
  tell() {
    if (this.#left.size === 0) return;
    const which = Object.fromEntries(this.#left);
    const count = [...this.#left.values()].reduce((sum, one) => sum + one, 0);
    this.#left = new Map();
    this.#lines.warn({ which }, `${count} more connections were refused or left meanwhile`);
  }

  #next() {
    this.#runs = false;
    this.#of.clear();
    this.#all = 0;
    this.tell();
  }
}
