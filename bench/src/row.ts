// One figure's row of bench/results: what was measured, against what, and whether that is enough.
import type { Bound, Figure } from './figures.js';
import type { Machine } from './machine.js';
import type { Samples } from './sample.js';

export interface Row {
  name: string;
  what: string;
  unit: string;
  /** Median; min and max are of the same repetitions. */
  value: number;
  min: number;
  max: number;
  repetitions: number;
  comparedWith: string;
  /** Median. */
  comparedValue: number;
  /** Median of value / comparedValue, each pair measured one right after the other. */
  ratio: number;
  /** Median of the same program natively on the same driver library. */
  native: number;
  mark: Judged | null;
  goal: Judged | null;
  date: string;
  machine: Machine;
}

export type Judged = Bound & { met: boolean };

export function row(figure: Figure, samples: Samples, date: string, machine: Machine): Row {
  const { name, what, unit, from, counterpart, comparedWith, mark, goal } = figure;
  const values = samples.of(from, 'cuda');
  const compared = samples.of(from, counterpart);
  if (values.length === 0 || compared.length !== values.length) {
    throw new Error(`${name}: ${values.length} values, but ${compared.length} to compare with`);
  }
  const ratio = median(values.map((value, i) => value / (compared[i] ?? Number.NaN)));
  const value = median(values);
  const judge = (bound: Bound | undefined): Judged | null =>
    bound ? { ...bound, met: meets(bound, bound.of === 'value' ? value : ratio) } : null;
  return {
    name,
    what,
    unit,
    value: short(value),
    min: short(Math.min(...values)),
    max: short(Math.max(...values)),
    repetitions: values.length,
    comparedWith,
    comparedValue: short(median(compared)),
    ratio: short(ratio),
    native: short(median(samples.of(from, 'native'))),
    mark: judge(mark),
    goal: judge(goal),
    date,
    machine,
  };
}

export function meets({ most = Infinity, least = -Infinity }: Bound, reached: number): boolean {
  return reached <= most && reached >= least;
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = Number.NaN, high = Number.NaN] = [sorted[middle - 1], sorted[middle]];
  return sorted.length % 2 === 1 ? high : (low + high) / 2;
}

/** Four digits are more than repeat. */
export function short(value: number): number {
  return Number(value.toPrecision(4));
}

export function table(rows: Row[]): string {
  const bound = (judged: Judged | null) => {
    if (!judged) return '';
    const limit = judged.most === undefined ? `>= ${judged.least}` : `<= ${judged.most}`;
    return `${judged.of} ${limit}: ${judged.met ? 'met' : 'NOT met'}`;
  };
  const cells = rows.map((r) => [
    r.name,
    `${r.value} ${r.unit}`,
    `${r.min} - ${r.max}`,
    String(r.comparedValue),
    String(r.ratio),
    String(r.native),
    bound(r.mark),
    bound(r.goal),
  ]);
  const head = ['figure', 'median', 'min - max', 'compared', 'ratio', 'native', 'mark', 'goal'];
  const widths = head.map((_, i) => Math.max(...[head, ...cells].map((c) => c[i]?.length ?? 0)));
  return [head, ...cells]
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
