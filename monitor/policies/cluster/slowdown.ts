// PROTEAN's model of what sharing a slice costs: each uses a part of its bandwidth (its fractional bandwidth
// requirement, FBR), and where these add up to more than all of it everybody takes so much longer.

export interface Sliced {
  /** Part of the slice's bandwidth that it uses. */
  bandwidth: number;
  /** How often longer it takes there alone than on a whole GPU (resource deficiency factor, RDF). */
  slowdown: number;
}

/** By function and slice. Plain data, to be stored with a policy's memory. */
export type SliceTable = Readonly<Record<string, Readonly<Record<string, Sliced>>>>;

/** Of a whole GPU, what a slice has: of its compute in sevenths, of its memory and bandwidth in eighths. */
export interface Slice {
  profile: string;
  sevenths: number;
  eighths: number;
}

/** An A100's, smallest first. Other GPUs have the same parts under other names. */
export const slices: readonly Slice[] = [
  { profile: '1g', sevenths: 1, eighths: 1 },
  { profile: '2g', sevenths: 2, eighths: 2 },
  { profile: '3g', sevenths: 3, eighths: 4 },
  { profile: '4g', sevenths: 4, eighths: 4 },
  { profile: '7g', sevenths: 7, eighths: 8 },
];

/** Returns the part by its profile, as `1g` or `1g.5gb`; null is the whole GPU. Throws where there is none of that name. */
export function sliceOf(profile: string | null): Slice {
  const name = profile === null ? '7g' : (profile.split('.')[0] ?? '');
  const found = slices.find((one) => one.profile === name);
  if (!found)
    throw new RangeError(`there is no slice ${profile}: expected one of 1g, 2g, 3g, 4g, 7g`);
  return found;
}

/**
 * What is known of a function on a slice; what was not measured there follows from the whole GPU: so much less bandwidth,
 * so that it uses a larger part, and half as slow as its part of the SMs would make it.
 */
export function slicedOf(table: SliceTable, name: string, profile: string | null): Sliced {
  const { profile: short, sevenths, eighths } = sliceOf(profile);
  const known = table[name]?.[short];
  if (known) return known;
  const whole = table[name]?.['7g'] ?? { bandwidth: 0.25, slowdown: 1 };
  const slowdown = whole.slowdown * (1 + (7 / sevenths - 1) / 2);
  return { bandwidth: Math.min(1, (whole.bandwidth * 8) / (eighths * slowdown)), slowdown };
}

/** How often longer one takes that uses `own` of the bandwidth, beside others that use `others` of it together. */
export function eta({ bandwidth, slowdown }: Sliced, others: number): number {
  return slowdown * Math.max(bandwidth + others, 1);
}

/**
 * Bandwidths by least squares from times of functions that ran together, [names, how often longer]. Only those with a sum
 * above 1 tell anything: below it nobody is slowed down. A function that is in none of them is not in the result.
 */
export function fitBandwidths(
  together: readonly (readonly [names: readonly string[], longer: number])[],
): ReadonlyMap<string, number> {
  const telling = together.filter(([, longer]) => longer > 1.02);
  const names = [...new Set(telling.flatMap(([some]) => some))].sort();
  const size = names.length;
  // Normal equations, with a little weight on 0 so that they have one solution.
  const matrix = names.map((_, row) => names.map((_, column) => (row === column ? 1e-6 : 0)));
  const right = names.map(() => 0);
  for (const [some, longer] of telling) {
    const counts = names.map((name) => some.filter((one) => one === name).length);
    for (let row = 0; row < size; row++) {
      right[row] = (right[row] as number) + (counts[row] as number) * longer;
      for (let column = 0; column < size; column++) {
        const cells = matrix[row] as number[];
        cells[column] =
          (cells[column] as number) + (counts[row] as number) * (counts[column] as number);
      }
    }
  }
  const solved = solve(matrix, right);
  return new Map(names.map((name, index) => [name, Math.max(0, solved[index] ?? 0)]));
}

/** Gauss with pivots; the matrix is changed. */
function solve(matrix: number[][], right: number[]): number[] {
  const size = right.length;
  for (let step = 0; step < size; step++) {
    let pivot = step;
    for (let row = step + 1; row < size; row++) {
      if (Math.abs(at(matrix, row, step)) > Math.abs(at(matrix, pivot, step))) pivot = row;
    }
    [matrix[step], matrix[pivot]] = [matrix[pivot] as number[], matrix[step] as number[]];
    [right[step], right[pivot]] = [right[pivot] as number, right[step] as number];
    for (let row = step + 1; row < size; row++) {
      const factor = at(matrix, row, step) / at(matrix, step, step);
      for (let column = step; column < size; column++) {
        (matrix[row] as number[])[column] =
          at(matrix, row, column) - factor * at(matrix, step, column);
      }
      right[row] = (right[row] as number) - factor * (right[step] as number);
    }
  }
  const solved = right.map(() => 0);
  for (let row = size - 1; row >= 0; row--) {
    let value = right[row] as number;
    for (let column = row + 1; column < size; column++) {
      value -= at(matrix, row, column) * (solved[column] as number);
    }
    solved[row] = value / at(matrix, row, row);
  }
  return solved;
}

function at(matrix: readonly (readonly number[])[], row: number, column: number): number {
  return matrix[row]?.[column] ?? 0;
}
