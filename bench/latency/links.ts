// The networks that programs are run over, and what a program should take over one.
import type { Link } from '../src/link.js';

/** Same rate, longer ways; then the same way, narrower. */
export const byRoundTrip: readonly Link[] = [0.1, 1, 5, 30, 100].map((roundTrip) => ({
  roundTrip,
  rate: 10,
}));
export const byRate: readonly Link[] = [10, 1, 0.1].map((rate) => ({ roundTrip: 1, rate }));

export interface Travel {
  /** Times that the program waited for an answer; attaching is one. */
  roundTrips: number;
  bytesSent: number;
  bytesReceived: number;
}

/**
 * Seconds. `near` is what the program takes with no network between. Connecting takes a round trip
 * of its own; bytes up and down seldom travel at the same time, so they are added.
 */
export function expected(near: number, travel: Travel, link: Link): number {
  const seconds = link.roundTrip / 1e3;
  const bits = (travel.bytesSent + travel.bytesReceived) * 8;
  return near + (travel.roundTrips + 1) * seconds + bits / (link.rate * 1e9);
}
