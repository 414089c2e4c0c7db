// What became of all who came, in counts and a histogram: a long run has no room for each of them.
import type { SessionClass } from '../../monitor/policies/state.js';
import type { Outcome } from './simulation.js';

/** So many waits are kept as they are; beyond, each is one of a step. */
const exactMost = 65_536;
/** Below it nobody waited. */
const shortest = 1e-3;
/** Each step of the histogram is longer by this: half of it is how far a quantile may be off. */
const step = 1.005;
const steps = 1 + Math.ceil(Math.log(1e9 / shortest) / Math.log(step));

/** Seconds that were waited. */
export class Waits {
  count = 0;
  sum = 0;
  longest = 0;
  #exact: number[] | null = [];
  /** How many waited less than `shortest`, and then for each step. */
  #counts: Float64Array | null = null;

  add(seconds: number) {
    this.count++;
    this.sum += seconds;
    this.longest = Math.max(this.longest, seconds);
    if (this.#exact && this.#exact.length < exactMost) this.#exact.push(seconds);
    else this.#enter(seconds);
  }

  get mean(): number {
    return this.count === 0 ? 0 : this.sum / this.count;
  }

  /** At most for so many of them, 0 to 1; more exactly than a quarter of a percent. */
  quantile(part: number): number {
    return this.quantiles([part])[0] ?? 0;
  }

  /** For several, from the smallest on. */
  quantiles(parts: readonly number[]): number[] {
    const sorted = this.#exact?.sort((one, other) => one - other);
    return parts.map((part) => {
      const rank = Math.min(this.count - 1, Math.floor(this.count * part));
      if (sorted) return sorted[rank] ?? 0;
      return rank === this.count - 1 ? this.longest : this.#atRank(rank);
    });
  }

  #enter(seconds: number) {
    this.#counts ??= new Float64Array(steps + 1);
    const counts = this.#counts;
    const put = (one: number) => {
      const at = stepOf(one);
      counts[at] = (counts[at] ?? 0) + 1;
    };
    for (const before of this.#exact ?? []) put(before);
    this.#exact = null;
    put(seconds);
  }

  #atRank(rank: number): number {
    let before = 0;
    for (const [index, count] of (this.#counts ?? []).entries()) {
      before += count;
      if (before > rank) return index === 0 ? 0 : shortest * step ** (index - 0.5);
    }
    return this.longest;
  }
}

function stepOf(seconds: number): number {
  if (seconds < shortest) return 0;
  return Math.min(steps, 1 + Math.floor(Math.log(seconds / shortest) / Math.log(step)));
}

export class Tally {
  /** By what became of them. */
  readonly how = new Map<Outcome['how'], number>();
  /** Of those that got a place. */
  readonly waits = new Waits();
  readonly #ofClass = new Map<SessionClass, { count: number; sum: number }>();
  /** How many are told of. */
  count = 0;
  /** When the last one was over that had a place, in seconds. */
  end = 0;

  add({ how, gpu, waited, at, job }: Omit<Outcome, 'id'>) {
    this.count++;
    this.how.set(how, (this.how.get(how) ?? 0) + 1);
    if (gpu === null) return;
    this.waits.add(waited);
    const its = job.request.class;
    const before = this.#ofClass.get(its) ?? { count: 0, sum: 0 };
    this.#ofClass.set(its, { count: before.count + 1, sum: before.sum + waited });
    this.end = Math.max(this.end, at);
  }

  /** Seconds that those of a class waited on average; null: there were none. */
  waitOf(its: SessionClass): number | null {
    const found = this.#ofClass.get(its);
    return found ? found.sum / found.count : null;
  }
}
