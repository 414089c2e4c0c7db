// Dilu's profiling: how much of a GPU a function is to be promised, found with few trials. A trial costs half a minute of a
// GPU, so that each is made once.

/** What a trial with so many percent of SMs and so large a batch came to. */
export interface Trial {
  /** Milliseconds of a batch. */
  latency: number;
  /** Requests (or samples) a second. */
  throughput: number;
}

/** Runs a trial; called once at most with the same numbers. */
export type Measure = (sm: number, batch: number) => Trial;

export interface Profile {
  /** Percent of SMs. */
  request: number;
  limit: number;
  batch: number;
  trials: number;
}

class Trials {
  readonly #measure: Measure;
  readonly #known = new Map<string, Trial>();

  constructor(measure: Measure) {
    this.#measure = measure;
  }

  get count(): number {
    return this.#known.size;
  }

  get(sm: number, batch: number): Trial {
    const key = `${sm},${batch}`;
    const known = this.#known.get(key);
    if (known) return known;
    const trial = this.#measure(sm, batch);
    if (!(trial.latency > 0 && trial.throughput > 0)) {
      throw new RangeError(`a trial with ${sm} % of SMs and batches of ${batch} gave no time`);
    }
    this.#known.set(key, trial);
    return trial;
  }

  /** Throughput for each percent of SMs. */
  efficiency(sm: number, batch: number): number {
    return this.get(sm, batch).throughput / sm;
  }
}

const step = 10;
const batchMost = 1024;
/** By so much throughput per percent may fall at a step, in Dilu's code; it is absolute there. */
const tolerated = 0.2;

/**
 * Dilu's hybrid growth search for inference: larger batches as long as half the SLO (milliseconds) is kept, and more SMs
 * where that helps. Null: no part of the GPU keeps it. `further`: at its end more SMs are tried with the batch it has, as
 * long as each does more: the paper's search stops short of that.
 */
export function hybridGrowth(measure: Measure, slo: number, further = false): Profile | null {
  const trials = new Trials(measure);
  const feasible = (sm: number, batch: number) => trials.get(sm, batch).latency <= slo / 2;
  let sm = step;
  let batch = 1;
  while (!feasible(sm, batch)) {
    sm += step;
    if (sm > 100) return null;
  }
  while (batch < batchMost) {
    const last = trials.efficiency(sm, batch);
    if (feasible(sm, 2 * batch)) {
      batch *= 2;
      continue;
    }
    const more = sm + step;
    if (more > 100 || !feasible(more, 2 * batch)) break;
    if (trials.efficiency(more, 2 * batch) < last - tolerated) break;
    sm = more;
    batch *= 2;
  }
  while (further && sm + step <= 100) {
    if (trials.efficiency(sm + step, batch) <= trials.efficiency(sm, batch)) break;
    sm += step;
  }
  return { request: sm, limit: Math.min(100, 2 * sm), batch, trials: trials.count };
}

/**
 * Percent of SMs with which training keeps 80 % (the request) and all (the limit) of its throughput, 2 % less allowed:
 * each the least on a grid of 5 %, by halving. It is taken to be faster the more it has; with all it keeps all.
 */
export function bisect(measure: Measure, batch = 1): Profile {
  const trials = new Trials(measure);
  const whole = trials.get(100, batch).throughput;
  const least = (part: number) => {
    let [low, high] = [0, 20];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (trials.get(5 * middle, batch).throughput >= (part - 0.02) * whole) high = middle;
      else low = middle;
    }
    return 5 * high;
  };
  const [request, limit] = [least(0.8), least(1)];
  return { request, limit, batch, trials: trials.count };
}
