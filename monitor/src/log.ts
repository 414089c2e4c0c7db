// The monitor's log: JSON lines on stderr, for a person at a terminal in readable form where
// pino-pretty is installed. stdout is for scripts.
import { type Logger, pino } from 'pino';

export type Log = Logger;

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

export async function openLog(level: string): Promise<Log> {
  const options = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
  const pretty = process.stderr.isTTY ? await loadPretty() : undefined;
  return pretty ? pino(options, pretty) : pino(options, pino.destination({ dest: 2, sync: true }));
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
