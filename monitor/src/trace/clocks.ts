// How a server's clock differs from a guest's. Each message between them bounds the difference from one side,
// because it arrived after it was sent. The attach dialogue gives a bound from each side, as in NTP. So does every
// round trip after it, and those bounds are closer.
import type { Recording, TraceEvent } from './recording.js';

/** How much the server's clock is ahead of the guest's, at a moment of the server's. */
interface Knot {
  at: number;
  ahead: number;
  /** It is so exact. */
  within: number;
}

interface Bound {
  /** Of the server's clock. */
  at: number;
  least: number;
  most: number;
}

export class ClockMap {
  /** `same`: one clock; `estimated`: from messages; `none`: by the wall clocks, for want of better. */
  readonly method: 'same' | 'estimated' | 'none';
  readonly #knots: Knot[];

  constructor(method: 'same' | 'estimated' | 'none', knots: Knot[]) {
    this.method = method;
    this.#knots = knots;
  }

  /** How exact it is at the worst moment, in nanoseconds. */
  get within(): number {
    return Math.max(...this.#knots.map((knot) => knot.within));
  }

  /** The first knot's: what a person is told. */
  get ahead(): number {
    return this.#knots[0]?.ahead ?? 0;
  }

  /** A moment of the server's in the guest's time. Between knots, clocks drift evenly. */
  toGuest(at: number): number {
    const next = this.#knots.find((knot) => knot.at > at);
    const previous = this.#knots.findLast((knot) => knot.at <= at);
    if (!next || !previous) return at - (next?.ahead ?? previous?.ahead ?? 0);
    const part = (at - previous.at) / (next.at - previous.at);
    return at - (previous.ahead + (next.ahead - previous.ahead) * part);
  }
}

/** What the map is made of times since each file was opened: `ahead` is not of absolute times. */
export function compareClocks(guest: Recording, server: Recording): ClockMap {
  if (guest.clock !== '' && guest.clock === server.clock) {
    return new ClockMap('same', [{ at: 0, ahead: Number(guest.base - server.base), within: 0 }]);
  }
  return (
    estimate(boundsOf(guest, server)) ??
    new ClockMap('none', [{ at: 0, ahead: Number(guest.realtime - server.realtime), within: 1e9 }])
  );
}

/** Null when there are no messages of both directions. */
export function estimateClocks(guest: Recording, server: Recording): ClockMap | null {
  return estimate(boundsOf(guest, server));
}

function estimate(bounds: Bound[]): ClockMap | null {
  const knots: Knot[] = [];
  let least = Number.NEGATIVE_INFINITY;
  let most = Number.POSITIVE_INFINITY;
  let first = 0;
  let last = 0;
  const close = () => {
    if (!Number.isFinite(least) || !Number.isFinite(most)) return;
    const ahead = (least + most) / 2;
    knots.push({ at: (first + last) / 2, ahead, within: (most - least) / 2 });
  };
  bounds.sort((one, other) => one.at - other.at);
  for (const [index, bound] of bounds.entries()) {
    // Where clocks drift, bounds contradict each other after a while: then another knot begins.
    if (Math.max(least, bound.least) > Math.min(most, bound.most)) {
      close();
      least = Number.NEGATIVE_INFINITY;
      most = Number.POSITIVE_INFINITY;
      first = bound.at;
    }
    if (index === 0) first = bound.at;
    last = bound.at;
    least = Math.max(least, bound.least);
    most = Math.min(most, bound.most);
  }
  close();
  return knots.length > 0 ? new ClockMap('estimated', knots) : null;
}

function boundsOf(guest: Recording, server: Recording): Bound[] {
  const bounds: Bound[] = [];
  /** What the guest sent at `sent` had arrived at `arrived`. */
  const there = (sent: number | undefined, arrived: number | undefined) => {
    if (sent === undefined || arrived === undefined) return;
    bounds.push({ at: arrived, least: Number.NEGATIVE_INFINITY, most: arrived - sent });
  };
  const back = (sent: number | undefined, arrived: number | undefined) => {
    if (sent === undefined || arrived === undefined) return;
    bounds.push({ at: sent, least: sent - arrived, most: Number.POSITIVE_INFINITY });
  };
  const step = (recording: Recording, name: string) =>
    recording.events.findLast((e) => e.kind === 'attach' && e.name === name);
  there(step(guest, 'hello')?.at, step(server, 'hello')?.at);
  back(step(server, 'welcome')?.at, step(guest, 'welcome')?.at);

  const batches = guest.events
    .filter((e) => e.kind === 'send')
    .map(({ at, b, c }) => ({ at, first: b, last: c }));
  const replies = new Map<number, TraceEvent>();
  for (const event of guest.events) {
    if (event.kind === 'receive' && event.name === 'reply') replies.set(event.c, event);
  }
  const sent = new Finder(batches);
  for (const event of server.events) {
    if (event.kind === 'take') there(sent.of(event.b)?.at, event.at);
    if (event.kind !== 'command' || event.c === 0) continue;
    there(sent.of(event.a)?.at, event.at);
    back(event.c, replies.get(event.a)?.at);
  }
  return bounds;
}

/** Which of several runs of commands one of them is in. */
export class Finder<T extends { first: number; last: number }> {
  readonly #runs: T[];

  constructor(runs: T[]) {
    this.#runs = runs.toSorted((one, other) => one.first - other.first);
  }

  of(sequence: number): T | undefined {
    let low = 0;
    let high = this.#runs.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const run = this.#runs[middle] as T;
      if (sequence < run.first) high = middle - 1;
      else if (sequence > run.last) low = middle + 1;
      else return run;
    }
    return undefined;
  }
}
