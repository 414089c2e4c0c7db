// Numbers that look random and are the same in each run: a seed is a whole day, written down.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, below 1. The generator is Steele's and Vigna's SplitMix, of 32 bits. */
  uniform(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  }

  between(least: number, most: number): number {
    return least + (most - least) * this.uniform();
  }

  /** From 0 to count - 1. */
  below(count: number): number {
    return Math.floor(this.uniform() * count);
  }

  exponential(mean: number): number {
    return -Math.log(1 - this.uniform()) * mean;
  }

  /** Half of them are below `median`; the larger `spread`, the longer the few long ones. */
  logNormal(median: number, spread: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return median * Math.exp(spread * radius * Math.cos(2 * Math.PI * this.uniform()));
  }

  pick<T>(among: readonly T[]): T {
    const one = among[this.below(among.length)];
    if (one === undefined) throw new Error('nothing to pick from');
    return one;
  }

  /** By weight. */
  choose<T extends { weight: number }>(among: readonly T[]): T {
    let left = this.uniform() * among.reduce((sum, { weight }) => sum + weight, 0);
    for (const one of among) {
      left -= one.weight;
      if (left < 0) return one;
    }
    return this.pick(among);
  }

  /** In place. */
  shuffle<T>(values: T[]): T[] {
    for (let last = values.length - 1; last > 0; last--) {
      const other = this.below(last + 1);
      [values[last], values[other]] = [values[other] as T, values[last] as T];
    }
    return values;
  }
}
