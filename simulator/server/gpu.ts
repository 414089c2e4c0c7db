// One GPU of the simulation: its slots and reservations, as policies see them, and the work that
// goes on, which they do not.
import { milli } from '../../monitor/policies/placement/candidates.js';
import type {
  GpuState,
  Placement,
  SessionRequest,
  SessionState,
} from '../../monitor/policies/state.js';
import type { CoRun } from './co-run.js';

export interface GpuOptions {
  /** Bytes that sessions may have. */
  memory: bigint;
  slots: number;
  /** Bytes for those that do not say; an equal part for each slot. */
  usual?: bigint;
}

type Shares = Pick<SessionRequest, 'shareRequest' | 'shareLimit'>;

/** Work on the GPU: of a session whose preparation is over. */
interface Running {
  id: number;
  name: string;
  /** Seconds of it left, if nobody else is there. */
  left: number;
  rate: number;
}

export class SimulatedGpu implements GpuState {
  readonly index: number;
  readonly uuid: string;
  readonly name = 'simulated';
  readonly memory: bigint;
  readonly usual: bigint;
  healthy = true;
  reserved = 0n;
  readonly free: boolean[];
  readonly sessions: SessionState[] = [];
  readonly promised = { requests: 0, limits: 0 };
  /** Slots whose process has gone, and is not back yet. */
  readonly lost: boolean[];
  /** Goes up whenever work begins or ends, so that what was foreseen before is known to be stale. */
  version = 0;
  readonly #coRun: CoRun;
  readonly #running: Running[] = [];
  #at = 0;
  /** Integrals over time: byte seconds reserved, slot seconds taken, seconds with any work. */
  readonly spent = { memory: 0, slots: 0, busy: 0 };

  constructor(index: number, { memory, slots, usual }: GpuOptions, coRun: CoRun) {
    this.index = index;
    this.uuid = `GPU-${index}`;
    this.memory = memory;
    this.usual = usual ?? memory / BigInt(slots);
    this.free = Array.from({ length: slots }, () => true);
    this.lost = this.free.map(() => false);
    this.#coRun = coRun;
  }

  /** Lets time pass, up to `now`, with everything as it is. */
  pass(now: number) {
    const seconds = now - this.#at;
    if (seconds <= 0) return;
    this.#at = now;
    for (const running of this.#running) running.left -= running.rate * seconds;
    this.spent.memory += Number(this.reserved) * seconds;
    this.spent.slots += this.sessions.length * seconds;
    if (this.#running.length > 0) this.spent.busy += seconds;
  }

  reserve(id: number, request: SessionRequest, { slot, memory }: Placement) {
    const { tenant, name, class: kind, shareRequest, shareLimit } = request;
    const share = { shareRequest, shareLimit };
    const started = this.#at;
    this.sessions.push({
      id,
      group: id,
      tenant,
      name,
      class: kind,
      slot,
      memory,
      used: 0n,
      ...share,
      started,
    });
    this.reserved += memory;
    this.free[slot] = false;
    this.#promise(request, 1);
  }

  #promise({ shareRequest, shareLimit }: Shares, sign: 1 | -1) {
    this.promised.requests += sign * milli(shareRequest);
    this.promised.limits += sign * milli(shareLimit);
  }

  /** The session that was there; undefined: none. Its slot is free again, unless it is lost. */
  release(slot: number): SessionState | undefined {
    const index = this.sessions.findIndex((session) => session.slot === slot);
    const [session] = index < 0 ? [] : this.sessions.splice(index, 1);
    if (!session) return undefined;
    this.reserved -= session.memory;
    this.#promise(session, -1);
    this.free[slot] = !this.lost[slot];
    this.#stop(session.id);
    return session;
  }

  work(id: number, name: string, seconds: number) {
    this.#running.push({ id, name, left: seconds, rate: 0 });
    this.#changed();
  }

  #stop(id: number) {
    const index = this.#running.findIndex((running) => running.id === id);
    if (index < 0) return;
    this.#running.splice(index, 1);
    this.#changed();
  }

  #changed() {
    this.version++;
    const rates = this.#coRun.rates(this.#running);
    for (const [index, running] of this.#running.entries()) running.rate = rates[index] ?? 0;
  }

  /** Whose work will be over first, and when, if nothing changes. */
  get foreseen(): { id: number; at: number } | null {
    let first: { id: number; at: number } | null = null;
    for (const { id, left, rate } of this.#running) {
      const at = this.#at + Math.max(0, left) / rate;
      if (first === null || at < first.at) first = { id, at };
    }
    return first;
  }
}
