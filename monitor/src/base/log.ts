// The monitor's log: JSON lines on stderr, for a person at a terminal in readable form where
// pino-pretty is installed. stdout is for scripts. The newest lines are kept for operators.
import { type DestinationStream, type Logger, pino } from 'pino';
import { ForgivingStream } from './forgiving-stream.js';
import type { LogLine } from './view.js';

export type Log = Logger;

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

export async function openLog(level: string, recent?: RecentLog): Promise<Log> {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const pretty = process.stderr.isTTY ? await loadPretty() : undefined;
  // Asking whether it is a terminal has also made it non-blocking, if it is a pipe or a socket.
  const stream = pretty ?? ForgivingStream.to(2);
  return pino(options, recent ? recent.before(stream) : stream);
}

/** The newest lines, in memory. */
export class RecentLog {
  readonly #most: number;
  #lines: string[] = [];
  readonly #listeners = new Set<(line: LogLine) => void>();

  constructor(most = 2000) {
    this.#most = most;
  }

  /** A stream that keeps lines and passes them on. */
  before(stream: DestinationStream): DestinationStream {
    return {
      write: (line: string) => {
        this.#lines.push(line);
        // Dropped in bulk: one line at a time would move all others each time.
        if (this.#lines.length >= 2 * this.#most) this.#lines = this.#lines.slice(-this.#most);
        for (const listener of this.#listeners) listener(parse(line));
        stream.write(line);
      },
    };
  }

  /** Oldest first. */
  last(count: number): LogLine[] {
    return this.#lines.slice(-Math.min(count, this.#most)).map(parse);
  }

  /** Calls `listener` with each line to come, until what it returns is called. */
  follow(listener: (line: LogLine) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

function parse(line: string): LogLine {
  const { level, time, msg, ...fields } = JSON.parse(line);
  return {
    ...fields,
    time: Date.parse(time),
    level: pino.levels.labels[level] ?? String(level),
    msg: msg ?? '',
  };
}

async function loadPretty() {
  try {
    const { default: pretty } = await import('pino-pretty');
    const settings = { destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid' };
    return pretty({ ...settings, colorize: !process.env['NO_COLOR'] });
  } catch {
    return undefined;
  }
}
