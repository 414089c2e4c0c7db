// A server's own log (JSON lines, as `outboard serve` writes them and `outboard logs --json` shows them): who came when,
// with what, and for how long.
import { readFileSync } from 'node:fs';
import type { Job } from '../server/simulation.js';

export interface LoggedJobs {
  jobs: Job[];
  /** Sessions whose beginning or end is not in the log. */
  incomplete: number;
  /** Lines that are no JSON, as those of a terminal. */
  unreadable: number;
}

interface Begun {
  /** Seconds. */
  arrived: number;
  begun: number;
  tenant: string;
  name: string;
  memory: bigint;
  share: { request: number; limit: number };
  class: Job['request']['class'];
}

/** Throws where the file cannot be read, or has no whole session. */
export function readServerLog(file: string): LoggedJobs {
  const logged = parseServerLog(readFileSync(file, 'utf8'));
  if (logged.jobs.length > 0) return logged;
  throw new Error(
    `${file}: no session that begins and ends in it: expected the JSON lines that \`outboard serve\` writes, or \`outboard logs --json\` shows`,
  );
}

/**
 * Each session takes as long as it took. A server that was started again begins to count anew: a number that begins
 * twice is another session; one that is said twice at one moment is the same. Of a program with several GPUs each
 * session is one of its own.
 */
export function parseServerLog(text: string): LoggedJobs {
  const open = new Map<number, Begun>();
  const jobs: Job[] = [];
  let incomplete = 0;
  let unreadable = 0;
  let first: number | null = null;
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const fields = fieldsOf(line);
    if (!fields) {
      unreadable++;
      continue;
    }
    const { session, msg } = fields;
    if (typeof session !== 'number' || typeof msg !== 'string') continue;
    const at = timeOf(fields['time']);
    if (at === null) continue;
    if (msg === 'session begins') {
      const begun = begunOf(fields, at);
      const before = open.get(session);
      if (before?.begun === begun.begun) continue;
      if (before) incomplete++;
      open.set(session, begun);
    } else if (/^session (ends|lost):/.test(msg)) {
      const begun = open.get(session);
      open.delete(session);
      if (!begun) {
        incomplete++;
        continue;
      }
      first = Math.min(first ?? begun.arrived, begun.arrived);
      jobs.push(jobOf(begun, secondsOf(fields['seconds']) ?? Math.max(0, at - begun.begun)));
    }
  }
  for (const job of jobs) job.arrives -= first ?? 0;
  jobs.sort((one, other) => one.arrives - other.arrives);
  return { jobs, incomplete: incomplete + open.size, unreadable };
}

function fieldsOf(line: string): Record<string, unknown> | null {
  try {
    const value = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : null;
  } catch {
    return null;
  }
}

/** Seconds; a log has text, what operators are shown has milliseconds. */
function timeOf(time: unknown): number | null {
  const value = typeof time === 'number' ? time : Date.parse(String(time));
  return Number.isFinite(value) ? value / 1000 : null;
}

function secondsOf(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 ? value : null;
}

function begunOf(fields: Record<string, unknown>, at: number): Begun {
  const { tenant, name, memory, share, class: its } = fields;
  const { request = 0, limit = 100 } = (share ?? {}) as { request?: number; limit?: number };
  // Until it began, handed over and all; older logs have only until it had a place.
  const before = secondsOf(fields['attach']) ?? secondsOf(fields['waited']) ?? 0;
  return {
    ...{ arrived: at - before, begun: at, share: { request, limit } },
    tenant: typeof tenant === 'string' ? tenant : '',
    name: typeof name === 'string' ? name : '',
    memory: BigInt(Math.round(secondsOf(memory) ?? 0)),
    class: its === 'best-effort' ? its : 'latency-strict',
  };
}

function jobOf({ arrived, tenant, name, memory, share, class: its }: Begun, seconds: number): Job {
  return {
    arrives: arrived,
    request: {
      ...{ tenant, name, class: its, gpus: 1, memory, allowed: null },
      ...{ shareRequest: share.request, shareLimit: share.limit },
    },
    ...{ prepare: 0, work: seconds, patience: null },
  };
}
