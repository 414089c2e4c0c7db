// Whether file descriptors are left to this process. Nobody else says it: a connection that there is
// none for is closed, or left where it is, before anything here hears of it (libuv).
import { closeSync, openSync } from 'node:fs';
import { OutboardError } from './errors.js';
import type { Log } from './log.js';

const lookMilliseconds = 1000;
/** While it lasts, it is said again. */
const againSeconds = 60;

export class Descriptors {
  readonly #log: Log;
  readonly #timer: NodeJS.Timeout;
  /** On performance's clock; undefined: there are some. */
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

/** Why no file can be opened now; null: one can. */
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
