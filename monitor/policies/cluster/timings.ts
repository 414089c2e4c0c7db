// How long a function's batches take with parts of a device: what was measured, and between measurements a line.

/** By function and "batch,sm", [time, latency] by time: thousandths and milliseconds. Plain data. */
export type Timings = Readonly<
  Record<string, Readonly<Record<string, readonly (readonly [number, number])[]>>>
>;

export interface Timed {
  name: string;
  batch: number;
  sm: number;
  time: number;
  latency: number;
}

/** The table with one more; what makes no sense is left out. */
export function withTiming(timings: Timings, { name, batch, sm, time, latency }: Timed): Timings {
  if (!(latency > 0) || !Number.isFinite(latency) || !(time > 0) || !(sm > 0)) return timings;
  const of = timings[name] ?? {};
  const key = `${batch},${sm}`;
  const others = (of[key] ?? []).filter(([at]) => at !== time);
  const row = [...others, [time, latency] as const].sort(([one], [other]) => one - other);
  return { ...timings, [name]: { ...of, [key]: row } };
}

/** The parts of SMs with which the function was timed in such batches, smallest first. */
export function timedSms(timings: Timings, name: string, batch: number): number[] {
  return Object.keys(timings[name] ?? {})
    .map((key) => key.split(',').map(Number))
    .filter(([its]) => its === batch)
    .map(([, sm = 0]) => sm)
    .sort((one, other) => one - other);
}

/**
 * Milliseconds of a batch; null: it was never timed with so many SMs, or with less time than that, so that nothing can be
 * said. `exact`: only what was measured counts.
 */
export function latencyOf(
  timings: Timings,
  { name, batch, sm, time }: Omit<Timed, 'latency'>,
  exact = false,
): number | null {
  const row = timings[name]?.[`${batch},${sm}`];
  if (!row) return null;
  const at = row.findIndex(([one]) => one >= time);
  const [above, below] = [row[at], row[at - 1]];
  if (above?.[0] === time) return above[1];
  if (exact) return null;
  if (at < 0) return row.at(-1)?.[1] ?? null;
  if (!above || !below) return null;
  // Between two shares of time the rate is closer to a line than the time is.
  const part = (time - below[0]) / (above[0] - below[0]);
  return 1 / ((1 - part) / below[1] + part / above[1]);
}
