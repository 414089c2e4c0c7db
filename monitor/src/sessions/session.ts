// A session from its placement on: who it is, where it runs, what it was given and has used.
import type { Counters, SessionOffer } from '../../../api-server/src/ipc.js';
import type { EndedState, Placement, SessionState } from '../../policies/state.js';
import type { Log } from '../base/log.js';
import type { MovePhase, SessionView } from '../base/view.js';
import type { Group, Seat } from '../queue/reservations.js';
import type { Visitor } from '../queue/visitor.js';
import { spent } from '../quota/page-view.js';
import type { ShareSample } from '../quota/quota.js';
import type { Slot } from '../slots/slot.js';

function nothing(measured: boolean): ShareSample {
  const figure = measured ? 0 : null;
  const device = { received: figure, owed: figure, deviceNs: figure };
  return { ...device, gateWaits: 0, gateSeconds: 0, held: false };
}

export class Session {
  readonly id: number;
  readonly visitor: Visitor;
  placement: Placement;
  slot: Slot;
  /** What it was offered its process with; undefined until then. */
  offer: SessionOffer | undefined;
  /** The last attempt to move it. */
  move: { readonly phase: MovePhase | null } | undefined;
  /** How often it has moved. */
  moves = 0;
  /** All sessions of its program, which has one on each of its GPUs. */
  group: Group;
  /** Which of these it is, in the order of the program's GPUs; 0: the first. */
  readonly ordinal: number;
  /** Its lines name the slot that it is in. */
  log: Log;
  readonly #named: Record<string, unknown>;
  /** Milliseconds on performance's clock, as everywhere here. */
  readonly started = performance.now();
  readonly #startedAt = new Date();
  /** What it had done when idleFor last looked, and since when it has done nothing more. */
  #done = '';
  #idleSince = this.started;
  /** Whether the process has the connection for itself. */
  begun = false;
  /** By which its guest may come back after a cut; null: it may not. */
  comeback: { secret: Buffer; seconds: number; epoch: number; sealed: boolean } | null = null;
  /** Why it is being ended, once somebody wants that. */
  ending: string | null = null;
  /** When its guest has gone, or it began to be ended: what it has is given back since. Null: neither. */
  closingSince: number | null = null;
  share: { request: number; limit: number };
  /** Whether an operator has promised it more than its tenant's limit had left. */
  beyondLimit = false;
  /** Whether all its work is measured; if not, its sample says nothing of the device's time. */
  readonly measured: boolean;
  #sample: ShareSample;
  /** What of that was spent in processes that it has left. */
  #before = { deviceNs: 0, gateWaits: 0, gateSeconds: 0 };
  /**
   * Resolves when the quota page of its slot has its limit, to which the gate there holds it from then on. If the
   * quota runner fails, it resolves without that (Quota.begin).
   */
  shareInForce: Promise<void> = Promise.resolve();

  constructor(
    visitor: Visitor,
    { group, ordinal }: Seat,
    placement: Placement,
    slot: Slot,
    measured: boolean,
  ) {
    this.id = visitor.id;
    this.visitor = visitor;
    this.placement = placement;
    this.slot = slot;
    this.group = group;
    this.ordinal = ordinal;
    this.measured = measured;
    this.#sample = nothing(measured);
    const { shareRequest, shareLimit, tenant, name } = visitor.request;
    this.share = { request: shareRequest, limit: shareLimit };
    const { program } = visitor.hello;
    const memory = Number(placement.memory);
    const whose = tenant === '' ? {} : { tenant };
    const which = group.gpus.length === 1 ? {} : { group: group.id };
    this.#named = { session: this.id, ...which, ...whose, name, program, memory };
    this.log = slot.log.child(this.#named);
  }

  /** It has moved there. What it has used so far counts on. */
  goesOn(slot: Slot, placement: Placement) {
    const { deviceNs, gateWaits, gateSeconds } = this.#sample;
    this.#before = { deviceNs: deviceNs ?? 0, gateWaits, gateSeconds };
    this.slot = slot;
    this.log = slot.log.child(this.#named);
    this.placement = placement;
    this.group = { id: this.group.id, gpus: [placement.gpu] };
    this.moves++;
  }

  /** What is being done to move it; null: it is not being moved. */
  get moving(): MovePhase | null {
    return this.move?.phase ?? null;
  }

  get sample(): ShareSample {
    return this.#sample;
  }

  /** As the process says that has it now. */
  set sample({ deviceNs, gateWaits, gateSeconds, ...now }: ShareSample) {
    const before = this.#before;
    this.#sample = {
      ...now,
      deviceNs: deviceNs === null ? null : deviceNs + before.deviceNs,
      gateWaits: gateWaits + before.gateWaits,
      gateSeconds: gateSeconds + before.gateSeconds,
    };
  }

  /** Since it was placed. */
  get seconds(): number {
    return seconds(performance.now() - this.started);
  }

  /** For how many seconds its guest had waited when it was placed. */
  get waited(): number {
    return seconds(this.started - this.visitor.arrived);
  }

  /** For how many seconds it has done nothing, as the calls of this function have seen it: nothing was
   * sent or received, no work was on the device or held back. */
  idleFor(now = performance.now()): number {
    const { commands = 0n, bytesIn = 0n, bytesOut = 0n } = this.#used ?? {};
    const { deviceNs, held, inflightNs } = this.slot.quotaPage.read();
    const done = `${commands} ${bytesIn} ${bytesOut} ${deviceNs}`;
    if (!this.begun || held > 0n || inflightNs > 0n || done !== this.#done) {
      this.#done = done;
      this.#idleSince = now;
    }
    return (now - this.#idleSince) / 1000;
  }

  /** Reads from the quota page all that was spent, which the quota runner's last report may not have yet. */
  settle() {
    const counts = this.slot.quotaPage.read();
    if (counts.counted !== BigInt(this.id)) return;
    this.sample = { ...this.sample, ...spent(counts, this.measured) };
  }

  get #used(): Counters | null {
    return this.slot.counters;
  }

  /** As policies see it while it runs, and when it has ended. */
  get state(): SessionState {
    const { tenant, name, class: kind } = this.visitor.request;
    return {
      id: this.id,
      group: this.group.id,
      tenant,
      name,
      class: kind,
      slot: this.placement.slot,
      memory: this.placement.memory,
      used: this.#used?.memoryMapped ?? 0n,
      shareRequest: this.share.request,
      shareLimit: this.share.limit,
      started: this.started / 1000,
    };
  }

  get ended(): EndedState {
    const { tenant, name } = this.visitor.request;
    const { gpu, memory } = this.placement;
    const peak = this.#used?.memoryMappedPeak ?? 0n;
    return { tenant, name, gpu, memory, peak, waited: this.waited, seconds: this.seconds };
  }

  get #stage(): SessionView['state'] {
    if (this.closingSince !== null || this.ending !== null) return 'ending';
    if (this.moving !== null) return 'moving';
    return this.begun ? 'running' : 'starting';
  }

  /** Of one that ends nobody is waited for any more. */
  get #away(): SessionView['away'] {
    const { away } = this.slot;
    if (away === null || this.#stage === 'ending') return null;
    return { since: away.since.toISOString(), until: away.until.toISOString() };
  }

  /** As operators see it; `uuid` is its GPU's, `hindrances` what keeps it there. */
  view(uuid: string, hindrances: string[]): SessionView {
    const { request, hello, client } = this.visitor;
    const { gpu, slot, memory } = this.placement;
    const counters = this.#used;
    return {
      id: this.id,
      group: { session: this.group.id, ordinal: this.ordinal, gpus: [...this.group.gpus] },
      tenant: request.tenant,
      name: request.name,
      program: hello.program,
      class: request.class,
      peer: client.peer,
      host: hello.host,
      pid: hello.pid,
      gpu,
      uuid,
      slot,
      slotPid: this.slot.pid ?? null,
      state: this.#stage,
      away: this.#away,
      moving: this.moving,
      moves: this.moves,
      started: this.#startedAt.toISOString(),
      seconds: this.seconds,
      waitedSeconds: this.waited,
      memory: {
        limit: Number(memory),
        used: Number(counters?.memoryMapped ?? 0n),
        peak: Number(counters?.memoryMappedPeak ?? 0n),
      },
      share: { ...this.share, ...this.sample, beyondLimit: this.beyondLimit },
      hindrances,
      counters: numbers(counters ?? {}),
    };
  }
}

/** Those that count something, as JSON has them. */
export function numbers({ hindrances: _, ...counts }: Partial<Counters>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([name, value]) => [name, Number(value)]));
}

/** Seconds of so many milliseconds, rounded to microseconds. */
function seconds(milliseconds: number): number {
  return Math.round(milliseconds * 1000) / 1e6;
}
