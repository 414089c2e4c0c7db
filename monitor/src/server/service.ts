// What systemd is told of a service with Type=notify: ready, still alive, stopping. Nothing where it
// has not asked (NOTIFY_SOCKET).
import type { Native } from '../../../api-server/src/native.js';

export class Service {
  readonly #native: () => Native;
  readonly #socket: string;
  #watchdog: NodeJS.Timeout | undefined;

  private constructor(native: () => Native, socket: string) {
    this.#native = native;
    this.#socket = socket;
  }

  /**
   * Null: not started by systemd, or not with Type=notify. Takes what systemd has said out of the
   * environment, so that no child takes it for its own.
   */
  static from(env: NodeJS.ProcessEnv, native: () => Native): Service | null {
    const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = env;
    for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name];
    if (!socket) return null;
    const service = new Service(native, socket);
    const watched = Number(usec) > 0 && (pid === undefined || Number(pid) === process.pid);
    if (watched) service.#watch(Number(usec) / 1000);
    return service;
  }

  ready(status: string) {
    this.#tell(`READY=1\nSTATUS=${status}`);
  }

  /** `seconds`: how long that may take. */
  stopping(seconds: number) {
    const limit = Math.round(seconds * 1e6);
    this.#tell(`STOPPING=1\nSTATUS=waiting for sessions to end\nEXTEND_TIMEOUT_USEC=${limit}`);
  }

  /** The same loop that serves guests says that it lives; twice as often as it must. */
  #watch(milliseconds: number) {
    this.#watchdog = setInterval(() => this.#tell('WATCHDOG=1'), milliseconds / 2);
    this.#watchdog.unref();
  }

  #tell(message: string) {
    this.#native().notify(this.#socket, message);
  }
}
