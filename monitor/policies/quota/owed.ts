// Who has a right to how much: requests first, the rest by weight up to limits (water filling).
import type { SessionClass } from '../state.js';

/** All amounts in one unit, whichever. */
export interface Claim {
  /** Promised: given first. If all of them are more than there is, each gets the same part of it. */
  request: number;
  /** Its part of what is left then. */
  weight: number;
  /** Never more than this. */
  most: number;
  /** What is left goes to claims of rank 0 first, then to rank 1. */
  rank: number;
}

/** What each claim gets of `amount`; together all of it, unless all have their most. */
export function fill(amount: number, claims: readonly Claim[]): number[] {
  const given = claims.map(({ request, most }) => Math.max(0, Math.min(request, most)));
  const promised = sum(given);
  if (promised >= amount) {
    const part = promised > 0 ? Math.max(0, amount) / promised : 0;
    return given.map((one) => one * part);
  }
  let left = amount - promised;
  for (const rank of [0, 1]) left = pour(left, claims, given, rank);
  return given;
}

/** Adds to `given`; returns what nobody could take. */
function pour(amount: number, claims: readonly Claim[], given: number[], rank: number): number {
  let left = amount;
  let open: number[] = [];
  claims.forEach((claim, index) => {
    if (claim.rank === rank && claim.most > (given[index] ?? 0)) open.push(index);
  });
  while (open.length > 0 && left > 0) {
    const level = left / sum(open.map((index) => claims[index]?.weight ?? 0));
    const still: number[] = [];
    let poured = 0;
    for (const index of open) {
      const { weight, most } = claims[index] as Claim;
      const had = given[index] ?? 0;
      const now = Math.min(most, had + weight * level);
      given[index] = now;
      poured += now - had;
      if (now < most) still.push(index);
    }
    // Nobody was full: all of it is given.
    if (still.length === open.length) return 0;
    left -= poured;
    open = still;
  }
  return left;
}

export interface Entitled {
  id: number;
  class: SessionClass;
  shareRequest: number;
  shareLimit: number;
  wants: boolean;
}

/** Whether a class comes before another when what is left over is given away. */
export type Ranking = (one: Pick<Entitled, 'class'>) => 0 | 1;
export const sameRank: Ranking = () => 0;
export const strictFirst: Ranking = (one) => (one.class === 'latency-strict' ? 0 : 1);

/**
 * What is left over is divided in proportion to requests. A session that was promised nothing
 * counts like one percent, so that it does not starve beside others; among its like all are equal.
 */
export function weightOf({ shareRequest }: Pick<Entitled, 'shareRequest'>): number {
  return Math.max(1, shareRequest);
}

/** Percent of the GPU's time that each session has a right to now, by id. */
export function owedShares(
  sessions: readonly Entitled[],
  rank: Ranking = sameRank,
): ReadonlyMap<number, number> {
  const claims = sessions.map((session) => ({
    request: session.shareRequest,
    weight: weightOf(session),
    most: session.wants ? Math.min(100, session.shareLimit) : 0,
    rank: rank(session),
  }));
  const shares = fill(100, claims);
  return new Map(sessions.map(({ id }, index) => [id, shares[index] ?? 0]));
}

export function sum(values: readonly number[]): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
