// Who comes in a scenario, one after the other: there may be more of them than memory holds.
import type { SessionRequest } from '../../monitor/policies/state.js';
import { Agenda } from '../server/agenda.js';
import { Random } from '../server/random.js';
import type { Job } from '../server/simulation.js';
import { type AzureTrace, readAzure } from '../traces/azure.js';
import { readServerLog } from '../traces/server-log.js';
import type { Kind, Scenario, Trace, Wants } from './scenario.js';

export interface Arrivals {
  /** The same ones each time, in order of arrival. */
  jobs(): Iterable<Job>;
  /** What the reader should know of them. */
  notes: readonly string[];
  /** Seconds after which nobody comes any more. */
  end: number;
}

/** Throws where the log or the trace is missing, or has no session. */
export function arrivalsOf({ log, trace, kinds, hours, seed }: Scenario): Arrivals {
  const notes: string[] = [];
  const sources: (() => Iterator<Job>)[] = [];
  let end = 0;
  if (log !== null) {
    const { jobs, incomplete, unreadable } = readServerLog(log);
    end = Math.max(end, jobs.at(-1)?.arrives ?? 0);
    sources.push(() => jobs[Symbol.iterator]());
    notes.push(
      `${jobs.length} sessions of the log, each as long as it was there, with the memory that it had there`,
    );
    if (incomplete > 0)
      notes.push(`${incomplete} sessions are left out: the log has no beginning or no end of them`);
    if (unreadable > 0) notes.push(`${unreadable} lines of the log are no JSON`);
  }
  if (trace !== null) {
    const calls = readAzure(trace.format, trace.file, trace);
    end = Math.max(end, calls.at.at(-1) ?? 0);
    const requests = calls.functions.map((name) => requestOf(name, trace));
    sources.push(() => called(calls, trace, requests));
    notes.push(...notesOf(calls, trace));
  }
  if (kinds.length > 0) {
    end = Math.max(end, 3600 * hours);
    for (const [index, kind] of kinds.entries()) {
      const requests = requestsOf(kind);
      sources.push(() => madeUp(kind, requests, 3600 * hours, new Random(seed + 7919 * index)));
    }
    notes.push(`sessions made up for ${hours} hours, with seed ${seed}`);
  }
  return { jobs: () => merged(sources.map((source) => source())), notes, end };
}

/** Those of all sources, in order. */
function* merged(sources: Iterator<Job>[]): Generator<Job> {
  const agenda = new Agenda<{ source: Iterator<Job>; job: Job }>();
  const enter = (source: Iterator<Job>) => {
    const next = source.next();
    if (!next.done) agenda.enter(next.value.arrives, { source, job: next.value });
  };
  for (const source of sources) enter(source);
  for (let first = agenda.next(); first; first = agenda.next()) {
    yield first.what.job;
    enter(first.what.source);
  }
}

function requestOf(name: string, { tenant, class: its, memory, share }: Wants): SessionRequest {
  return {
    ...{ tenant, name, class: its, gpus: 1, memory, allowed: null },
    ...{ shareRequest: share.request, shareLimit: share.limit },
  };
}

function requestsOf(kind: Kind): SessionRequest[] {
  const { name, functions } = kind;
  return Array.from({ length: functions }, (_, index) =>
    requestOf(functions === 1 ? name : `${name}-${index + 1}`, kind),
  );
}

function* madeUp(
  { perHour, seconds, spread, patience }: Kind,
  requests: readonly SessionRequest[],
  end: number,
  random: Random,
): Generator<Job> {
  const which = byRank(requests.length, random);
  const gap = () => random.exponential(3600 / perHour);
  for (let at = gap(); at < end; at += gap()) {
    const request = requests[which()] as SessionRequest;
    yield {
      ...{ arrives: at, request, prepare: 0 },
      ...{ work: random.logNormal(seconds, spread), patience },
    };
  }
}

/** Numbers from 0 on, below `count`; the nth as often as 1/n. */
function byRank(count: number, random: Random): () => number {
  if (count === 1) return () => 0;
  const sums = new Float64Array(count);
  let sum = 0;
  for (let rank = 0; rank < count; rank++) {
    sum += 1 / (rank + 1);
    sums[rank] = sum;
  }
  return () => {
    const wanted = random.uniform() * sum;
    let [low, high] = [0, count - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) > wanted) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}

function* called(
  { at, which, seconds }: AzureTrace,
  { patience }: Trace,
  requests: readonly SessionRequest[],
): Generator<Job> {
  for (const [index, arrives] of at.entries()) {
    const request = requests[which[index] ?? 0] as SessionRequest;
    yield { arrives, request, prepare: 0, work: seconds[index] ?? 0, patience };
  }
}

function notesOf({ at, functions, faults }: AzureTrace, { format }: Trace): string[] {
  const { twice, unreadable, holes, untimed, others, silence } = faults;
  const some = (count: number, what: string) => (count > 0 ? [`${count} ${what}`] : []);
  return [
    `${at.length} calls of ${functions.length} functions, of a trace (${format}); in it nobody comes for ${silence.toFixed(1)} s at the longest`,
    ...some(twice, 'lines say what another line said, and are left out'),
    ...some(unreadable, 'lines make no sense, and are left out'),
    ...some(
      holes,
      'minutes of functions are missing or no counts: taken for minutes without a call',
    ),
    ...some(
      untimed,
      'lines are of functions without a duration: taken for one that half of them have',
    ),
    ...some(others, 'more functions are in it, and left out'),
  ];
}
