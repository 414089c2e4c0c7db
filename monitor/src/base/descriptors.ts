// Watches whether file descriptors are left to this process. Nothing else would say so: where none is left,
// libuv closes a new connection, or leaves it where it is, and tells nobody here.
import { closeSync, openSync } from 'node:fs';
import { OutboardError } from './errors.js';
import type { Log } from './log.js';

const lookMilliseconds = 1000;
/** As long as there are none, the log is told again so often. */
const againSeconds = 60;

export class Descriptors {
  readonly #log: Log;
  readonly #timer: NodeJS.Timeout;
  /** When the log was last told, on performance's clock; undefined: descriptors are left. */
  #told: number | undefined;

  constructor(log: Log) {
    this.#log = log;
    this.#timer = setInterval(() => this.#look(), lookMilliseconds).unref();
  }

  close() {
    clearInterval(this.#timer);
  }

  #look() {
    const problem = descriptorProblem();
    if (problem === null) {
      if (this.#told !== undefined) this.#log.info('there are file descriptors again');
      this.#told = undefined;
      return;
    }
    const now = performance.now();
    if (this.#told !== undefined && now - this.#told < againSeconds * 1000) return;
    this.#told = now;
    const { code, remedy, message } = new OutboardError('OB_DESCRIPTORS', problem);
    this.#log.error({ code, remedy }, message);
  }
}

/** Why no file can be opened now; null: files can be opened. */
export function descriptorProblem(): string | null {
  try {
    closeSync(openSync('/dev/null', 'r'));
    return null;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EMFILE') return 'EMFILE, the limit of the process is reached';
    return code === 'ENFILE' ? 'ENFILE, the limit of the machine is reached' : null;
  }
}
