// How long a session's bursts of work take (Dilu's kernel launch cycle): a burst is samples of 5 ms
// in a row in which it launched something.

export interface Bursts {
  /** Samples of the burst that goes on; 0: none. */
  readonly current: number;
  /** Of the last one that ended. */
  readonly last: number;
  /** The shortest; null: not known yet. */
  readonly shortest: number | null;
  /** The newest ones, oldest first; kept only where the shortest is of these. */
  readonly history: readonly number[];
}

export const noBursts: Bursts = { current: 0, last: 0, shortest: null, history: [] };

/** Shorter bursts tell nothing: a sample is 5 ms. */
const tellingAbove = 6;
const historyLength = 20;

/** `ages`: the shortest is of the last 20 bursts, so that one fast one is forgotten again. */
export function measure(before: Bursts, launched: boolean, ages: boolean): Bursts {
  if (launched) return { ...before, current: before.current + 1 };
  const ended = before.current;
  if (ended === 0) return before;
  const after = { ...before, current: 0, last: ended };
  if (ended <= tellingAbove) return after;
  if (!ages) return { ...after, shortest: Math.min(before.shortest ?? ended, ended) };
  const history = [...before.history, ended].slice(-historyLength);
  return { ...after, history, shortest: Math.min(...history) };
}

/** By how much the burst takes longer than the shortest one: 0.6 is 1.6 times as long. */
export function slowdown({ current, last, shortest }: Bursts): number {
  if (shortest === null) return 0;
  // One that goes on has taken at least this long already.
  return (Math.max(current, last) - shortest) / shortest;
}
