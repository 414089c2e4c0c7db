// Lines that anybody can cause by connecting, as often as somebody likes: a refusal, a handshake that
// fails, a guest that leaves. Of one address and of all there are so many for a time, and the rest is
// counted and told of in one line, so that a crowd fills neither the disk nor the newest lines that are
// kept for operators.
import { machineOf } from './strangers.js';

export interface CrowdMost {
  all: number;
  ofAddress: number;
}

type Level = 'info' | 'warn';

type CrowdFields = { code?: string; [field: string]: unknown };

/** Where the lines go: `Log`, or to another process. */
export type CrowdLines = Record<Level, (fields: object, text: string) => void>;

/** Calls `act` once, later. */
export type Later = (milliseconds: number, act: () => void) => void;

const spanMilliseconds = 10_000;
const usual: CrowdMost = { all: 100, ofAddress: 20 };

const later: Later = (milliseconds, act) => {
  setTimeout(act, milliseconds).unref();
};

export class CrowdLog {
  readonly #lines: CrowdLines;
  readonly #most: CrowdMost;
  readonly #later: Later;
  /** Of the time that runs: lines by machine, so that it holds no more of them than lines. */
  readonly #of = new Map<string, number>();
  #all = 0;
  #runs = false;
  /** Left out, by code or, where there is none, by text. */
  #left = new Map<string, number>();

  constructor(lines: CrowdLines, most = usual, after = later) {
    this.#lines = lines;
    this.#most = most;
    this.#later = after;
  }

  /** `address`: whose doing it is. */
  write(level: Level, address: string, fields: CrowdFields, text: string) {
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
