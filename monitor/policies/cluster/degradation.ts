// SMORE's prediction of how much slower each of several functions on one device is than alone: a table for pairs, and
// weights for more than two that are learned from what is measured (its multi-way model). As a part: 0.1 is 10 %.

/** Plain data, to be stored with a policy's memory. Rows and columns are functions, by their place in `names`. */
export interface Degradations {
  names: readonly string[];
  /** [i][j]: what j costs i where the two are alone; null: not measured. */
  pairs: readonly (readonly (number | null)[])[];
  /** By "i,j,k", where k others are there: the weight of that pair, and how often it was learned. */
  weights: Readonly<Record<string, readonly [weight: number, learned: number]>>;
}

export const nothingKnown: Degradations = { names: [], pairs: [], weights: {} };

export interface LearningParameters {
  /** Of a pair that was never measured: what is assumed of it, as a part. */
  unknown: number;
  /** Weights at first, where more than one other is there. */
  safety: number;
  /** What part of an error is learned. */
  rate: number;
}

/** Weights beyond this are not believed. */
const weightMost = 20;
/** So often a weight has to be learned before those of more neighbours begin with it. */
const enough = 5;
/** More neighbours than this share weights. */
const mostOthers = 32;

/** The model with what one measurement of a pair says. */
export function withPair(
  model: Degradations,
  name: string,
  beside: string,
  degradation: number,
): Degradations {
  if (!Number.isFinite(degradation)) return model;
  const known = withName(withName(model, name), beside);
  const i = known.names.indexOf(name);
  const j = known.names.indexOf(beside);
  // Faster than alone is noise: SMORE's own plots set it to 0.
  const value = Math.max(0, degradation);
  const pairs = known.pairs.map((row, at) =>
    at === i ? row.map((old, column) => (column === j ? value : old)) : row,
  );
  return { ...known, pairs };
}

function withName(model: Degradations, name: string): Degradations {
  if (model.names.includes(name)) return model;
  const names = [...model.names, name];
  const pairs = model.pairs.map((row) => [...row, null]);
  return { ...model, names, pairs: [...pairs, names.map(() => null)] };
}

/** Predicts; made once for each decision, since names are looked up by a table. */
export class Predictor {
  readonly #model: Degradations;
  readonly #parameters: LearningParameters;
  readonly #index = new Map<string, number>();
  /** By i * names + j and then k: weights that were learned. */
  readonly #weights = new Map<number, [number, number][]>();

  constructor(model: Degradations, parameters: LearningParameters) {
    this.#model = model;
    this.#parameters = parameters;
    for (const [at, name] of model.names.entries()) this.#index.set(name, at);
    for (const [key, [weight, learned]] of Object.entries(model.weights)) {
      const [i = 0, j = 0, k = 0] = key.split(',').map(Number);
      const at = i * model.names.length + j;
      const of = this.#weights.get(at) ?? [];
      of[k] = [weight, learned];
      this.#weights.set(at, of);
    }
  }

  /** The function's place in the table; -1: nothing is known of it. */
  indexOf(name: string): number {
    return this.#index.get(name) ?? -1;
  }

  pair(i: number, j: number): number {
    return this.#model.pairs[i]?.[j] ?? this.#parameters.unknown;
  }

  weight(i: number, j: number, k: number): number {
    const of =
      this.#weights.size > 0 ? this.#weights.get(i * this.#model.names.length + j) : undefined;
    const own = of?.[Math.min(k, mostOthers)];
    if (own) return own[0];
    for (let fewer = Math.min(k, mostOthers) - 1; of && fewer >= 1; fewer--) {
      const near = of[fewer];
      if (near && near[1] >= enough) return near[0];
    }
    return k <= 1 ? 1 : this.#parameters.safety;
  }

  /** What the others do to the function at `self`, of those that share a device. */
  degradation(all: ArrayLike<number>, self: number): number {
    const i = all[self] as number;
    const k = all.length - 1;
    let sum = 0;
    for (let at = 0; at <= k; at++) {
      if (at === self) continue;
      const j = all[at] as number;
      sum += this.weight(i, j, k) * this.pair(i, j);
    }
    return sum;
  }
}

/**
 * The model with what was measured of a function among several: weights of its pairs move so that part of the error goes,
 * each by what it had to do with it (normalised least mean squares). Measurements that are no numbers change nothing.
 */
export function learned(
  model: Degradations,
  name: string,
  beside: readonly string[],
  measured: number,
  parameters: LearningParameters,
): Degradations {
  const k = Math.min(beside.length, mostOthers);
  if (k === 0 || !Number.isFinite(measured)) return model;
  const known = [name, ...beside].reduce(withName, model);
  const predictor = new Predictor(known, parameters);
  const i = predictor.indexOf(name);
  const others = beside.map((one) => predictor.indexOf(one));
  const predicted = predictor.degradation([i, ...others], 0);
  // What a weight is multiplied by: like neighbours share one.
  const parts = new Map<number, number>();
  for (const j of others) parts.set(j, (parts.get(j) ?? 0) + predictor.pair(i, j));
  const power = [...parts.values()].reduce((sum, part) => sum + part ** 2, 1e-6);
  const step = (parameters.rate * (Math.max(0, measured) - predicted)) / power;
  const weights = { ...known.weights };
  for (const [j, part] of parts) {
    const key = `${i},${j},${k}`;
    const weight = predictor.weight(i, j, beside.length) + step * part;
    const times = (weights[key]?.[1] ?? 0) + 1;
    weights[key] = [Math.min(weightMost, Math.max(0, weight)), times];
  }
  return { ...known, weights };
}
