// What was, kept in the page: the server sends only what is. Times are seconds since 1970 on the
// server's clock, so that a page whose own clock is wrong draws the same.

/** x, then one row of values per series; null where nothing is known. uPlot takes it as it is. */
export type Columns = [number[], ...(number | null)[][]];

/** Of the values of a step that are known. */
interface Sum {
  n: number;
  sum: number;
}

/** The last `count` whole steps of `step` seconds; values of one step are averaged. */
export class Buckets {
  readonly step: number;
  readonly count: number;
  readonly #series: number;
  readonly #sums = new Map<number, Sum[]>();
  #newest = 0;

  constructor(series: number, step: number, count: number) {
    this.#series = series;
    this.step = step;
    this.count = count;
  }

  /** Null where nothing is known. */
  add(time: number, values: (number | null)[]) {
    const bucket = Math.floor(time / this.step);
    // A clock that was set back: what is in the future now never happened.
    for (const old of this.#sums.keys()) {
      if (old <= bucket - this.count || old > bucket) this.#sums.delete(old);
    }
    this.#newest = bucket;
    const sums =
      this.#sums.get(bucket) ?? Array.from({ length: this.#series }, () => ({ n: 0, sum: 0 }));
    sums.forEach((one, index) => {
      const value = values[index] ?? null;
      if (value === null) return;
      one.n++;
      one.sum += value;
    });
    this.#sums.set(bucket, sums);
  }

  /** Oldest first; x is the middle of the step. */
  columns(): Columns {
    const first = this.#newest - this.count + 1;
    const steps = Array.from({ length: this.count }, (_, index) => first + index);
    const rows = Array.from({ length: this.#series }, (_, series) =>
      steps.map((bucket) => {
        const one = this.#sums.get(bucket)?.[series];
        return one && one.n > 0 ? one.sum / one.n : null;
      }),
    );
    return [steps.map((bucket) => (bucket + 0.5) * this.step), ...rows];
  }
}

/** The last `seconds` as they came; a gap in time is a gap in the line. */
export class Recent {
  readonly seconds: number;
  readonly #gap: number;
  readonly #columns: Columns;

  constructor(series: number, seconds: number, gap = 3) {
    this.seconds = seconds;
    this.#gap = gap;
    this.#columns = [[], ...Array.from({ length: series }, () => [])];
  }

  add(time: number, values: (number | null)[]) {
    const [times] = this.#columns;
    const last = times.at(-1);
    if (last !== undefined && time <= last) {
      if (time > last - this.#gap) return; // seen already
      this.#drop(times.length); // a clock that was set back
    } else if (last !== undefined && time - last > this.#gap) {
      this.#push(last + 0.001, []);
    }
    this.#push(time, values);
    const old = times.findIndex((then) => then >= time - this.seconds);
    if (old > 0) this.#drop(old);
  }

  columns(): Columns {
    return this.#columns;
  }

  #push(time: number, values: (number | null)[]) {
    const [times, ...rows] = this.#columns;
    times.push(time);
    rows.forEach((row, index) => {
      row.push(values[index] ?? null);
    });
  }

  #drop(many: number) {
    for (const column of this.#columns) column.splice(0, many);
  }
}

/** "now 40 %, on average 38 %, at most 60 %": a line for those who do not see it. */
export function summary(row: (number | null)[] | undefined, show: (value: number) => string) {
  const known = (row ?? []).filter((value) => value !== null);
  const now = known.at(-1);
  if (now === undefined) return 'nothing known yet';
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return `now ${show(now)}, on average ${show(mean)}, at most ${show(Math.max(...known))}`;
}
