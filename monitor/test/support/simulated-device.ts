// A device with one engine and the gate in front of it, as functions of simulated time: kernels are
// not preempted, sessions that have work on the device take turns kernel by kernel. The gate is the
// executor's: work may start while what is charged, with what was given back since the limit was
// given, is below that; work in flight is charged as predicted (as long as the kernel before) and
// corrected when measured, and no more than 2 ms of it, or one kernel, is in flight.
import type { QuotaPolicy, QuotaSession } from '../../policies/quota.js';
import type { SessionClass } from '../../policies/state.js';

const inflightMost = 2e6;

export interface Load {
  id: number;
  class?: SessionClass;
  shareRequest: number;
  shareLimit?: number;
  /** Nanoseconds that the nth kernel takes. */
  kernel: (n: number) => number;
  /** The part of that which is charged: a device that counts processor time has less than the wall; 1. */
  counted?: number;
  /** Blocks of the nth kernel; 1. */
  blocks?: (n: number) => number;
  /** Whether it launches at this moment (nanoseconds); always. */
  active?: (now: number) => boolean;
  /** Waits for each kernel and then about this long before the next launch, in nanoseconds. */
  gap?: number;
}

interface Released {
  actual: number;
  predicted: number;
}

class Guest {
  readonly load: Load;
  shareRequest: number;
  shareLimit: number;
  limit: bigint | null = null;
  charged = 0;
  givenBack = 0;
  served = 0;
  launched = 0;
  inflightNs = 0;
  readonly inflight: Released[] = [];
  /** It launches again at this moment. */
  ready = 0;
  /** Times that work was held back by the limit. */
  held = 0;
  #last = 0;

  constructor(load: Load) {
    this.load = load;
    this.shareRequest = load.shareRequest;
    this.shareLimit = load.shareLimit ?? 100;
  }

  hasWork(now: number): boolean {
    const { gap, active } = this.load;
    if (active && !active(now)) return false;
    return gap === undefined || (this.inflight.length === 0 && now >= this.ready);
  }

  get open(): boolean {
    return this.limit === null || BigInt(Math.round(this.charged + this.givenBack)) < this.limit;
  }

  release(now: number, unit: 'time' | 'blocks') {
    while (this.hasWork(now)) {
      const room = this.#last > 0 && this.inflightNs + this.#last <= inflightMost;
      if (this.inflight.length > 0 && !room) return;
      if (!this.open) {
        this.held++;
        return;
      }
      const actual = this.load.kernel(this.launched);
      const predicted = this.#last;
      this.charged += unit === 'time' ? predicted : (this.load.blocks?.(this.launched) ?? 1);
      this.launched++;
      this.inflightNs += predicted;
      this.inflight.push({ actual, predicted });
    }
  }

  finish(now: number, unit: 'time' | 'blocks') {
    const { actual, predicted } = this.inflight.shift() as Released;
    this.inflightNs -= predicted;
    const cost = actual * (this.load.counted ?? 1);
    if (unit === 'time') {
      this.charged += cost - predicted;
      this.givenBack += Math.max(0, predicted - cost);
    }
    this.#last = cost;
    // From half to one and a half, so that nothing keeps in step with the policy.
    this.ready = now + Math.round((this.load.gap ?? 0) * (0.5 + ((this.launched * 0.618034) % 1)));
  }
}

/** Nanoseconds of device time by session since the beginning, at the moment of each step. */
export interface Sample {
  now: number;
  served: ReadonlyMap<number, number>;
  limits: ReadonlyMap<number, bigint | null>;
  charged: ReadonlyMap<number, number>;
}

export class SimulatedDevice<Memory> {
  readonly samples: Sample[] = [];
  readonly #policy: QuotaPolicy<Memory>;
  readonly #guests: Guest[];
  readonly #unit: 'time' | 'blocks';
  readonly #launchGap: number;
  #memory: Memory;
  #now = 0;
  #turn = 0;
  #running: { guest: Guest; started: number; ends: number } | undefined;
  #restsUntil = 0;
  #step = 0;

  /** `launchGap`: nanoseconds after each kernel in which the device does nothing. */
  constructor(policy: QuotaPolicy<Memory>, loads: readonly Load[], launchGap = 0) {
    this.#policy = policy;
    this.#launchGap = launchGap;
    this.#guests = loads.map((load) => new Guest(load));
    this.#unit = policy.unit === 'blocks' ? 'blocks' : 'time';
    this.#memory = policy.start();
  }

  setShare(id: number, request: number, limit: number) {
    const guest = this.#guest(id);
    guest.shareRequest = request;
    guest.shareLimit = limit;
  }

  /** How often work of it was held back by its limit. */
  held(id: number): number {
    return this.#guest(id).held;
  }

  /** Goes on until this moment, in nanoseconds. */
  runUntil(end: number) {
    const period = this.#policy.periodMs * 1e6;
    while (true) {
      const due = this.#step * period;
      const device = this.#running?.ends ?? (this.#restsUntil > this.#now ? this.#restsUntil : due);
      const next = Math.min(due, device, this.#nextReady());
      if (next > end) break;
      this.#now = next;
      if (this.#running && next === this.#running.ends) this.#finish();
      if (next === due) this.#takeStep();
      else for (const guest of this.#guests) guest.release(this.#now, this.#unit);
      this.#start();
    }
  }

  /** Percent of the device between two moments that are steps. */
  received(id: number, from: number, to: number): number {
    const at = (moment: number) => this.#sampleAt(moment).served.get(id) ?? 0;
    return (100 * (at(to) - at(from))) / (to - from);
  }

  #sampleAt(moment: number): Sample {
    const sample = this.samples[Math.round(moment / (this.#policy.periodMs * 1e6))];
    if (sample?.now !== moment) throw new Error(`there is no step at ${moment} ns`);
    return sample;
  }

  #nextReady(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { load, inflight, ready } of this.#guests) {
      if (load.gap === undefined || inflight.length > 0 || ready <= this.#now) continue;
      next = Math.min(next, ready);
    }
    return next;
  }

  #takeStep() {
    this.#step++;
    // What could start before the step has started.
    for (const guest of this.#guests) guest.release(this.#now, this.#unit);
    const sessions = this.#guests.map((guest): QuotaSession => {
      const { load, shareRequest, shareLimit, charged, inflight } = guest;
      const wants = inflight.length > 0 || guest.hasWork(this.#now);
      return {
        id: load.id,
        class: load.class ?? 'latency-strict',
        shareRequest,
        shareLimit,
        charged: BigInt(Math.round(charged)),
        wants,
        queued: inflight.length > 0 && this.#running !== undefined && this.#running.guest !== guest,
      };
    });
    const now = BigInt(this.#now) + 1_000_000_000_000n;
    const { limits, memory } = this.#policy.step({ now, sessions, memory: this.#memory });
    this.#memory = memory;
    for (const guest of this.#guests) {
      guest.limit = limits.get(guest.load.id) ?? null;
      guest.givenBack = 0;
      guest.release(this.#now, this.#unit);
    }
    const by = <T>(value: (guest: Guest) => T) =>
      new Map(this.#guests.map((guest) => [guest.load.id, value(guest)]));
    this.samples.push({
      now: this.#now,
      served: by((guest) => guest.served + this.#runsSince(guest)),
      limits,
      charged: by(({ charged }) => charged),
    });
  }

  #runsSince(guest: Guest): number {
    return this.#running?.guest === guest ? this.#now - this.#running.started : 0;
  }

  #finish() {
    if (!this.#running) return;
    const { guest, started, ends } = this.#running;
    guest.served += ends - started;
    guest.finish(this.#now, this.#unit);
    this.#running = undefined;
    this.#restsUntil = this.#now + this.#launchGap;
  }

  #start() {
    if (this.#running || this.#now < this.#restsUntil) return;
    const count = this.#guests.length;
    for (let offset = 1; offset <= count; offset++) {
      const index = (this.#turn + offset) % count;
      const guest = this.#guests[index] as Guest;
      const first = guest.inflight[0];
      if (!first) continue;
      this.#turn = index;
      this.#running = { guest, started: this.#now, ends: this.#now + first.actual };
      return;
    }
  }

  #guest(id: number): Guest {
    const found = this.#guests.find(({ load }) => load.id === id);
    if (!found) throw new Error(`no session ${id}`);
    return found;
  }
}
