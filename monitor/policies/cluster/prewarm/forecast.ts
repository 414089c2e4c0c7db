// How many requests come in the next period: what a prewarmer asks. A histogram answers here; anything that learns from
// counts and can be stored could.

export interface Forecast<Memory> {
  name: string;
  start(): Memory;
  /** What it remembers after a period with so many requests. */
  observe(memory: Memory, requests: number): Memory;
  /** Requests in the next period; 0: none are expected. */
  next(memory: Memory): number;
}

export interface Histogram {
  /** Periods from one with requests to the next, newest last. */
  gaps: readonly number[];
  /** Requests of the last periods that had some, newest last. */
  counts: readonly number[];
  /** Periods since the last one with requests; null: there was none. */
  since: number | null;
}

export interface HistogramOptions {
  /** Gaps that are kept. */
  kept: number;
  /** Between these parts of the gaps, shortest first, requests are expected. */
  from: number;
  to: number;
  /** Periods with requests whose mean is expected. */
  averaged: number;
}

/** Shahrad et al.'s histogram policy (ATC 2020), on which SMORE's baselines HHP and LSTH build. */
export function histogram({ kept, from, to, averaged }: HistogramOptions): Forecast<Histogram> {
  return {
    name: 'histogram',
    start: () => ({ gaps: [], counts: [], since: null }),
    observe({ gaps, counts, since }, requests) {
      if (!(requests > 0)) return { gaps, counts, since: since === null ? null : since + 1 };
      return {
        gaps: since === null ? gaps : [...gaps, since + 1].slice(-kept),
        counts: [...counts, requests].slice(-averaged),
        since: 0,
      };
    },
    next({ gaps, counts, since }) {
      if (since === null) return 0;
      const gap = since + 1;
      const sorted = [...gaps].sort((one, other) => one - other);
      // After the first one nothing is known: the next is expected at once.
      const least = quantile(sorted, from) ?? 1;
      const most = quantile(sorted, to) ?? 1;
      if (gap < least || gap > most) return 0;
      return counts.reduce((sum, one) => sum + one, 0) / Math.max(1, counts.length);
    },
  };
}

function quantile(sorted: readonly number[], part: number): number | undefined {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
}
