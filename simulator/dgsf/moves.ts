// DGSF's migration, simulated: functions share GPUs, and one moves where another GPU has nothing to do. By itself, because
// a session of the simulated server stays where it is.
import type { CoRun } from '../server/co-run.js';
import type { Workload } from './workloads.js';

export interface MoveOptions {
  /** Seconds between two looks at the GPUs. */
  every: number;
  /** So many looks in a row have to see a GPU with nobody and one with several. */
  looks: number;
  /** Seconds for which a function that moves does not run. */
  cost(workload: Workload): number;
}

interface Job {
  workload: Workload;
  gpu: number;
  /** Until when it prepares, or moves. */
  held: number;
  left: number;
  moved: boolean;
}

/** Seconds until all are done that begin at 0 on these GPUs; `moves` null: nobody moves. */
export function doneAfter(
  placed: readonly (readonly [workload: Workload, gpu: number])[],
  gpus: number,
  coRun: CoRun,
  moves: MoveOptions | null,
): number {
  const jobs = placed.map(([workload, gpu]): Job => {
    return { workload, gpu, held: workload.prepare, left: workload.gpu, moved: false };
  });
  let now = 0;
  let look = moves?.every ?? Number.POSITIVE_INFINITY;
  let seen = 0;
  for (;;) {
    const there = jobs.filter(({ left }) => left > 0);
    if (there.length === 0) return now;
    const rates = ratesOf(there, gpus, coRun, now);
    const next = there.map((job) => {
      if (job.held > now) return job.held;
      return now + job.left / (rates.get(job) ?? 0);
    });
    const at = Math.min(look, ...next);
    for (const job of there) {
      if (job.held > now) continue;
      job.left -= (rates.get(job) ?? 0) * (at - now);
      if (job.left < 1e-9) job.left = 0;
    }
    now = at;
    if (!moves || now < look) continue;
    look += moves.every;
    const pair = imbalance(jobs, gpus);
    seen = pair ? seen + 1 : 0;
    if (!pair || seen < moves.looks) continue;
    const { job, to } = pair;
    const held = Math.max(job.held, now + moves.cost(job.workload));
    Object.assign(job, { gpu: to, held, moved: true });
    seen = 0;
  }
}

function ratesOf(jobs: readonly Job[], gpus: number, coRun: CoRun, now: number): Map<Job, number> {
  const rates = new Map<Job, number>();
  for (let gpu = 0; gpu < gpus; gpu++) {
    const running = jobs.filter((job) => job.gpu === gpu && job.held <= now);
    const some = coRun.rates(running.map(({ workload: { name } }) => ({ name })));
    for (const [index, job] of running.entries()) rates.set(job, some[index] ?? 0);
  }
  return rates;
}

/** A function of a GPU with several that has not moved yet, and a GPU with none; of equals the first. */
function imbalance(jobs: readonly Job[], gpus: number): { job: Job; to: number } | null {
  const on = (gpu: number) => jobs.filter((job) => job.gpu === gpu && job.left > 0);
  const all = Array.from({ length: gpus }, (_, gpu) => gpu);
  const to = all.find((gpu) => on(gpu).length === 0);
  const over = all.find((gpu) => on(gpu).length > 1);
  if (to === undefined || over === undefined) return null;
  const [job] = on(over)
    .filter(({ moved }) => !moved)
    .sort((one, other) => one.left - other.left);
  return job ? { job, to } : null;
}
