// Runs a scenario: the same sessions once with each policy.
import { placementPolicies, queuePolicies } from '../../monitor/policies/index.js';
import type { PlacementPolicy } from '../../monitor/policies/placement.js';
import type { QueuePolicy } from '../../monitor/policies/queue.js';
import { shared, undisturbed } from '../server/co-run.js';
import { Simulation, type SimulationOptions } from '../server/simulation.js';
import { type Summary, summary } from '../server/statistics.js';
import { type Arrivals, arrivalsOf } from './arrivals.js';
import type { Scenario } from './scenario.js';

export interface Ran extends Summary {
  /** Seconds that those waited that got a place, shortest first, at each hundredth. */
  waits: readonly number[];
  events: number;
  /** The most that was going to happen at once. */
  longestAgenda: number;
  tookSeconds: number;
}

export interface Result {
  scenario: string;
  sessions: number;
  /** What the reader should know of the sessions. */
  notes: readonly string[];
  rows: readonly Ran[];
}

/** Milliseconds between two words about how far it is. */
const toldEvery = 5000;
/** Of events, after which the clock is looked at. */
const lookedEvery = 4096;

/** `progress` is called now and then, and when a policy is done. Throws where log or trace is missing or has no session. */
export function runScenario(
  scenario: Scenario,
  progress: (line: string) => void = () => {},
): Result {
  const arrivals = arrivalsOf(scenario);
  const rows: Ran[] = [];
  for (const name of scenario.placement) {
    const policy = placementPolicies.get(name) as PlacementPolicy;
    for (const queue of scenario.queue) {
      const queuePolicy = queuePolicies.get(queue) as QueuePolicy;
      for (const queueSkip of scenario.queueSkip) {
        const tell = (line: string) => progress(`${name}, ${queue}: ${line}`);
        const ran = run(scenario, arrivals, { policy, queuePolicy, queueSkip }, tell);
        rows.push(ran);
        tell(`${ran.events} events in ${ran.tookSeconds.toFixed(1)} s`);
      }
    }
  }
  return { scenario: scenario.name, sessions: rows[0]?.arrived ?? 0, notes: arrivals.notes, rows };
}

function run(
  { gpus: { count, memory, slots }, parameters, sharingGain }: Scenario,
  { jobs, end }: Arrivals,
  policies: Pick<SimulationOptions, 'policy' | 'queuePolicy' | 'queueSkip'>,
  tell: (line: string) => void,
): Ran {
  const begun = performance.now();
  let told = begun;
  const after = ({ events, now, arrived, queue }: Simulation) => {
    if (events % lookedEvery !== 0 || performance.now() - told < toldEvery) return;
    told = performance.now();
    const part = end > 0 ? Math.min(100, (100 * now) / end) : 100;
    const took = ((told - begun) / 1000).toFixed(0);
    tell(`${part.toFixed(0)} % of the time, ${arrived} have come, ${queue.length} wait; ${took} s`);
  };
  const simulation = new Simulation({
    gpus: Array.from({ length: count }, () => ({ memory, slots })),
    coRun: sharingGain === null ? undisturbed : shared(sharingGain),
    ...{ ...policies, parameters, queueMax: Number.POSITIVE_INFINITY, keep: false, after },
  });
  simulation.feed(jobs());
  simulation.run();
  const tookSeconds = (performance.now() - begun) / 1000;
  const { events, longestAgenda, tally } = simulation;
  const waits = tally.waits.quantiles(Array.from({ length: 101 }, (_, index) => index / 100));
  return { ...summary(simulation), waits, events, longestAgenda, tookSeconds };
}
