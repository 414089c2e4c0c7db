// PROTEAN's Table 4, synthetic: strict batches of one model on a GPU, and how many are done within three times what one
// takes alone. Of the model nothing is published. So what it takes alone follows from the figure of one scheme, its part of
// the bandwidth from that of another, and a third is what then comes out.
import { eta, slicedOf } from '../../monitor/policies/cluster/slowdown.js';
import { Random } from '../server/random.js';

/** Batches a second that come to one of eight GPUs: 5,000 requests a second in batches of 128. */
const perSecond = 5000 / 128 / 8;
const batches = 20_000;
/** Of what one takes alone on a whole GPU. */
const objective = 3;

export interface Scheme {
  /** Slices of the GPU, as `4g`. */
  slices: readonly string[];
  /** How many may run on a slice at a time; others wait for it. */
  together: number;
  /** Whether a batch goes where it is slowed down least, as PROTEAN's do; else to each slice in turn. */
  least: boolean;
}

/** Time-sharing of the whole GPU. */
export const molecule: Scheme = { slices: ['7g'], together: 1, least: true };
export const protean: Scheme = {
  ...{ slices: ['4g', '3g'], together: Number.POSITIVE_INFINITY, least: true },
};
/** Slices, too, and whose turn it is gets the next batch. */
export const naive: Scheme = { slices: ['4g', '2g', '1g'], together: 1, least: false };

interface Batch {
  arrived: number;
  /** Of its work, in seconds alone on a whole GPU. */
  left: number;
}

class SliceRun {
  readonly #its: { bandwidth: number; slowdown: number };
  readonly #together: number;
  readonly #running: Batch[] = [];
  readonly #waiting: Batch[] = [];
  #at = 0;

  constructor(profile: string, bandwidth: number, together: number) {
    const table = { model: { '7g': { bandwidth, slowdown: 1 } } };
    this.#its = slicedOf(table, 'model', profile);
    this.#together = together;
  }

  /** How often longer one more would take. */
  get cost(): number {
    return this.#eta(this.#running.length + this.#waiting.length + 1);
  }

  #eta(count: number): number {
    return eta(this.#its, (count - 1) * this.#its.bandwidth);
  }

  /** Lets time pass; who ends is told of with the moment. */
  pass(until: number, ended: (batch: Batch, at: number) => void) {
    while (this.#running.length > 0) {
      const slower = this.#eta(this.#running.length);
      const next = Math.min(...this.#running.map(({ left }) => left)) * slower;
      const step = Math.min(next, until - this.#at);
      for (const one of this.#running) one.left -= step / slower;
      this.#at += step;
      if (this.#at >= until) break;
      const done = this.#running.filter(({ left }) => left <= 1e-9);
      for (const one of done) {
        this.#running.splice(this.#running.indexOf(one), 1);
        ended(one, this.#at);
        const first = this.#waiting.shift();
        if (first) this.#running.push(first);
      }
    }
    this.#at = Math.max(this.#at, until);
  }

  add(batch: Batch) {
    if (this.#running.length < this.#together) this.#running.push(batch);
    else this.#waiting.push(batch);
  }
}

/** Percent of batches that are done in time, with so many seconds alone and that part of a GPU's bandwidth. */
export function attainment(
  { slices, together, least }: Scheme,
  alone: number,
  bandwidth: number,
  seed = 1,
): number {
  const random = new Random(seed);
  const runs = slices.map((profile) => new SliceRun(profile, bandwidth, together));
  let inTime = 0;
  const ended = ({ arrived }: Batch, at: number) => {
    if (at - arrived <= objective * alone + 1e-9) inTime++;
  };
  let now = 0;
  for (let count = 0; count < batches; count++) {
    now += random.exponential(1 / perSecond);
    for (const run of runs) run.pass(now, ended);
    let [chosen] = runs;
    if (least) for (const run of runs) if (chosen && run.cost < chosen.cost) chosen = run;
    if (!least) chosen = runs[count % runs.length];
    chosen?.add({ arrived: now, left: alone });
  }
  for (const run of runs) run.pass(now + 1000 * alone, ended);
  return (100 * inTime) / batches;
}

/** Where the attainment, which falls with it, is nearest to what is wanted. */
export function fitted(wanted: number, of: (value: number) => number, least: number, most: number) {
  let [low, high] = [least, most];
  for (let step = 0; step < 24; step++) {
    const middle = (low + high) / 2;
    if (of(middle) > wanted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
