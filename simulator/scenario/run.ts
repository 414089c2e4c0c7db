// Runs a scenario: the same sessions once with each policy.
import { placementPolicies, queuePolicies } from '../../monitor/policies/index.js';
import type { PlacementPolicy } from '../../monitor/policies/placement.js';
import type { QueuePolicy } from '../../monitor/policies/queue.js';
import { shared, undisturbed } from '../server/co-run.js';
import { Random } from '../server/random.js';
import { type Job, Simulation, type SimulationOptions } from '../server/simulation.js';
import { type Summary, summary } from '../server/statistics.js';
import { readServerLog } from '../traces/server-log.js';
import type { Kind, Scenario } from './scenario.js';

export interface Ran extends Summary {
  /** Seconds that those waited that got a place, shortest first, at each hundredth. */
  waits: readonly number[];
  events: number;
  tookSeconds: number;
}

export interface Result {
  scenario: string;
  sessions: number;
  /** What the reader should know of the sessions. */
  notes: readonly string[];
  rows: readonly Ran[];
}

/** `progress` is called when a policy is done. Throws where the log is missing or has no session. */
export function runScenario(
  scenario: Scenario,
  progress: (line: string) => void = () => {},
): Result {
  const { jobs, notes } = jobsOf(scenario);
  const rows: Ran[] = [];
  for (const name of scenario.placement) {
    const policy = placementPolicies.get(name) as PlacementPolicy;
    for (const queue of scenario.queue) {
      const queuePolicy = queuePolicies.get(queue) as QueuePolicy;
      for (const queueSkip of scenario.queueSkip) {
        const ran = run(scenario, jobs, { policy, queuePolicy, queueSkip });
        rows.push(ran);
        progress(`${name}, ${queue}: ${ran.events} events in ${ran.tookSeconds.toFixed(1)} s`);
      }
    }
  }
  return { scenario: scenario.name, sessions: jobs.length, notes, rows };
}

function run(
  { gpus: { count, memory, slots }, parameters, sharingGain }: Scenario,
  jobs: readonly Job[],
  policies: Pick<SimulationOptions, 'policy' | 'queuePolicy' | 'queueSkip'>,
): Ran {
  const simulation = new Simulation({
    gpus: Array.from({ length: count }, () => ({ memory, slots })),
    coRun: sharingGain === null ? undisturbed : shared(sharingGain),
    ...{ ...policies, parameters, queueMax: Number.POSITIVE_INFINITY },
  });
  for (const job of jobs) simulation.add(job);
  const begun = performance.now();
  simulation.run();
  const tookSeconds = (performance.now() - begun) / 1000;
  const placed = simulation.outcomes.filter(({ gpu }) => gpu !== null);
  const sorted = placed.map(({ waited }) => waited).sort((one, other) => one - other);
  const at = (part: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
  const waits = Array.from({ length: 101 }, (_, index) => at(index / 100));
  return { ...summary(simulation), waits, events: simulation.events, tookSeconds };
}

function jobsOf({ log, kinds, hours, seed }: Scenario): { jobs: Job[]; notes: string[] } {
  const notes: string[] = [];
  const jobs: Job[] = [];
  if (log !== null) {
    const logged = readServerLog(log);
    jobs.push(...logged.jobs);
    notes.push(
      `${logged.jobs.length} sessions of the log, each as long as it was there, with the memory that it had there`,
    );
    if (logged.incomplete > 0) {
      notes.push(
        `${logged.incomplete} sessions are left out: the log has no beginning or no end of them`,
      );
    }
    if (logged.unreadable > 0) notes.push(`${logged.unreadable} lines of the log are no JSON`);
  }
  const random = new Random(seed);
  for (const kind of kinds) jobs.push(...arrivals(kind, 3600 * hours, random));
  if (kinds.length > 0) notes.push(`sessions made up for ${hours} hours, with seed ${seed}`);
  jobs.sort((one, other) => one.arrives - other.arrives);
  return { jobs, notes };
}

function arrivals(kind: Kind, end: number, random: Random): Job[] {
  const { name, tenant, class: its, memory, share, perHour, seconds, spread, patience } = kind;
  const jobs: Job[] = [];
  const gap = () => random.exponential(3600 / perHour);
  for (let at = gap(); at < end; at += gap()) {
    jobs.push({
      arrives: at,
      request: {
        ...{ tenant, name, class: its, gpus: 1, memory, allowed: null },
        ...{ shareRequest: share.request, shareLimit: share.limit },
      },
      ...{ prepare: 0, work: random.logNormal(seconds, spread), patience },
    });
  }
  return jobs;
}
