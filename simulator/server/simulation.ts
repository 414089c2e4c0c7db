// A server in simulated time: the monitor's own queue, admission, tenants' limits and placement
// policies, in the order in which the monitor calls them, on a clock that jumps from one
// event to the next. What it has no part in: connections, processes, quotas.
import { admissible, type Inadmissible } from '../../monitor/policies/admissible.js';
import {
  type PlacementParameters,
  type PlacementPolicy,
  usualParameters,
} from '../../monitor/policies/placement.js';
import { firstCome } from '../../monitor/policies/queue/first-come.js';
import type { QueuePolicy, WaitingState } from '../../monitor/policies/queue.js';
import type { EndedState, ServerState, SessionRequest } from '../../monitor/policies/state.js';
import { type Ordered, orderBy } from '../../monitor/src/queue/guarded-order.js';
import { countOvertaken } from '../../monitor/src/queue/overtaking.js';
import { Queue } from '../../monitor/src/queue/queue.js';
import { check, type Tenant, type TenantUsage } from '../../monitor/src/tenants/tenants.js';
import { Agenda } from './agenda.js';
import { type CoRun, undisturbed } from './co-run.js';
import { type GpuOptions, SimulatedGpu } from './gpu.js';
import { Tally } from './tally.js';

/** Somebody who will come. Times are seconds. */
export interface Job {
  arrives: number;
  request: SessionRequest;
  /** What it does before it needs the GPU, from its arrival on, whether it waits or not. */
  prepare: number;
  /** GPU work, in seconds of a GPU that it has for itself. */
  work: number;
  /** Leaves when it has waited so long; null: never. */
  patience: number | null;
}

/** What goes wrong, and when. */
export type Fault =
  | { at: number; kind: 'slot'; gpu: number; slot: number }
  /** The slot of whoever comes next, before the session has begun: it waits for another one. */
  | { at: number; kind: 'hand-over' }
  /** All its slots, and none comes back before so many seconds. */
  | { at: number; kind: 'gpu'; gpu: number; seconds: number };

export interface SimulationOptions {
  gpus: readonly GpuOptions[];
  policy: PlacementPolicy;
  parameters?: PlacementParameters;
  /** By name; a tenant that is not here has no limits. */
  tenants?: ReadonlyMap<string, Tenant>;
  coRun?: CoRun;
  queueMax?: number;
  /** Whether one that fits may pass others that do not. */
  queueSkip?: boolean;
  /** In which order those who wait have their turns. */
  queuePolicy?: QueuePolicy;
  /** From the choice of a slot to the beginning of the session in it. */
  handOver?: number;
  /** Until another process is warm where one was lost. */
  replace?: number;
  /** Called after each event, and at the end: for invariants. */
  after?: (simulation: Simulation) => void;
  /** Whether each outcome is kept, and the order of places; if not, only their sums are, whatever their number. */
  keep?: boolean;
}

export type Refused =
  | 'queue-full'
  | 'slot-lost'
  | Inadmissible['reason']
  | 'OB_TENANT_SESSIONS'
  | 'OB_TENANT_MEMORY'
  | 'OB_TENANT_SHARE';

/** What became of a job. */
export interface Outcome {
  id: number;
  job: Job;
  how: 'done' | 'lost' | 'left' | Refused;
  gpu: number | null;
  /** From its arrival to its place; for those who got none: to when they gave up. */
  waited: number;
  at: number;
}

interface Visitor {
  readonly id: number;
  readonly job: Job;
  readonly state: WaitingState & { overtaken: number };
  /** When it got its place; null: it waits. */
  placed: number | null;
  begun: boolean;
  lost: number;
  gpu: number;
  slot: number;
  memory: bigint;
}

type Event =
  | { kind: 'arrival'; job: Job }
  | { kind: 'begin'; visitor: Visitor; lost: number }
  | { kind: 'prepared'; visitor: Visitor }
  | { kind: 'end'; gpu: SimulatedGpu; version: number }
  | { kind: 'impatient'; visitor: Visitor }
  | { kind: 'replaced'; gpu: SimulatedGpu; slot: number }
  | { kind: 'healthy'; gpu: SimulatedGpu }
  | { kind: 'fault'; fault: Fault };

/** As in monitor/src/sessions/running.ts. */
const lostMax = 3;
const historyMax = 256;

export class Simulation {
  readonly options: Required<Omit<SimulationOptions, 'gpus'>>;
  now = 0;
  readonly gpus: readonly SimulatedGpu[];
  readonly queue: Queue<Visitor, Ordered>;
  /** Where they are kept. */
  readonly outcomes: Outcome[] = [];
  /** Ids in the order in which they got a place, where outcomes are kept. */
  readonly order: number[] = [];
  readonly tally = new Tally();
  arrived = 0;
  events = 0;
  longestQueue = 0;
  /** The most that was going to happen at once: what a run takes of memory. */
  longestAgenda = 0;
  readonly #agenda = new Agenda<Event>();
  /** Those who come beside those of the agenda, in order of arrival; and the first of them. */
  #source: Iterator<Job> | null = null;
  #coming: Job | null = null;
  /** GPUs with a free slot, by index: where nothing fits need not be looked at. */
  readonly #open: SimulatedGpu[];
  /** What can never be served, of requests that were seen before: many are one function's. */
  readonly #never = new WeakMap<SessionRequest, Inadmissible['reason'] | 'none'>();
  readonly #usual: bigint;
  readonly #history: EndedState[] = [];
  /** Those who run, by id. */
  readonly #placed = new Map<number, Visitor>();
  readonly #usage = new Map<string, TenantUsage>();
  #handOverFails = 0;

  constructor({ gpus, ...options }: SimulationOptions) {
    this.options = {
      parameters: usualParameters,
      tenants: new Map(),
      coRun: undisturbed,
      queueMax: 1000,
      queueSkip: false,
      queuePolicy: firstCome,
      handOver: 0,
      replace: 1,
      after: () => {},
      keep: true,
      ...options,
    };
    const { coRun, queuePolicy } = this.options;
    this.queue = new Queue(() => {}, orderBy(queuePolicy));
    this.gpus = gpus.map((gpu, index) => new SimulatedGpu(index, gpu, coRun));
    this.#open = [...this.gpus];
    this.#usual = this.gpus.reduce((most, { usual }) => (usual > most ? usual : most), 0n);
  }

  /** What policies see. */
  get state(): ServerState {
    return this.#stateOf(this.gpus);
  }

  #stateOf(gpus: readonly SimulatedGpu[]): ServerState {
    const { now, queue } = this;
    const history = this.#history;
    return {
      now,
      gpus,
      history,
      get queue() {
        return [...queue].map(({ state }) => state);
      },
    };
  }

  get running(): number {
    return this.#placed.size;
  }

  /** What a tenant has, running and waiting; what its limits are checked against. */
  usageOf(tenant: string): TenantUsage {
    return this.#usage.get(tenant) ?? { sessions: 0, memory: 0n, share: 0 };
  }

  get tenantsSeen(): Iterable<string> {
    return this.#usage.keys();
  }

  add(job: Job) {
    this.#agenda.enter(job.arrives, { kind: 'arrival', job });
  }

  break(fault: Fault) {
    this.#agenda.enter(fault.at, { kind: 'fault', fault });
  }

  /** Those who come, one after the other: each is asked for when the one before has come. */
  feed(jobs: Iterable<Job>) {
    this.#source = jobs[Symbol.iterator]();
    this.#advance();
  }

  #advance() {
    const next = this.#source?.next();
    this.#coming = next && !next.done ? next.value : null;
    if (this.#coming && !(this.#coming.arrives >= this.now))
      throw new Error(`one comes at ${this.#coming.arrives} s, and it is ${this.now} s already`);
  }

  /** Takes off what happens next; of what happens at one moment, who comes from `feed` is first. */
  #next(): { at: number; what: Event } | undefined {
    const job = this.#coming;
    if (job === null || (this.#agenda.first ?? Number.POSITIVE_INFINITY) < job.arrives)
      return this.#agenda.next();
    return { at: job.arrives, what: { kind: 'arrival', job } };
  }

  /** Until nothing is left to happen. */
  run(): this {
    for (let next = this.#next(); next; next = this.#next()) {
      const { what, at } = next;
      this.longestAgenda = Math.max(this.longestAgenda, this.#agenda.length);
      // Something else has changed since this was foreseen.
      if (what.kind === 'end' && what.version !== what.gpu.version) continue;
      this.now = at;
      if (what.kind === 'arrival' && what.job === this.#coming) this.#advance();
      this.#happen(what);
      this.events++;
      this.longestQueue = Math.max(this.longestQueue, this.queue.length);
      this.options.after(this);
    }
    for (const gpu of this.gpus) gpu.pass(this.now);
    return this;
  }

  #happen(event: Event) {
    switch (event.kind) {
      case 'arrival':
        return this.#arrive(event.job);
      case 'begin':
        return this.#begin(event.visitor, event.lost);
      case 'prepared':
        return this.#work(event.visitor);
      case 'end':
        return this.#end(event.gpu);
      case 'impatient':
        return this.#impatient(event.visitor);
      case 'replaced':
        return this.#replaced(event.gpu, event.slot);
      case 'healthy':
        return this.#healthy(event.gpu);
      case 'fault':
        return this.#fault(event.fault);
    }
  }

  // ---- who comes and waits ---------------------------------------------------------------------

  #arrive(job: Job) {
    if (job.request.gpus !== 1) throw new Error('a job of the simulation has one GPU');
    const id = ++this.arrived;
    const state = { id, request: job.request, arrived: this.now, overtaken: 0 };
    const nowhere = { placed: null, begun: false, lost: 0, gpu: -1, slot: -1, memory: 0n };
    const visitor: Visitor = { id, job, state, ...nowhere };
    const refused = this.#refusal(job.request);
    if (refused !== null) return this.#over(visitor, refused);
    this.#use(job.request, 1);
    if (this.#isFirst(visitor) && this.#offer(visitor)) return;
    if (this.queue.length >= this.options.queueMax) return this.#leave(visitor, 'queue-full');
    this.queue.append(visitor);
    if (job.patience !== null) {
      this.#agenda.enter(this.now + job.patience, { kind: 'impatient', visitor });
    }
  }

  /** Whether it has its turn before all who wait, or need not mind them. */
  #isFirst(visitor: Visitor): boolean {
    const { queueSkip, queuePolicy } = this.options;
    if (this.queue.length === 0 || queueSkip) return true;
    // Who comes last is never first where they are served as they come.
    return queuePolicy !== firstCome && this.queue.before(visitor).length === 0;
  }

  #refusal(request: SessionRequest): Refused | null {
    const never = this.#neverServed(request);
    if (never !== 'none') return never;
    const tenant = this.options.tenants.get(request.tenant);
    const share = request.shareRequest;
    const demand = { sessions: 1, memory: this.#memoryOf(request), share };
    const over = tenant && check(tenant, this.usageOf(request.tenant), demand);
    return over ? (over.code as Refused) : null;
  }

  #neverServed(request: SessionRequest): Inadmissible['reason'] | 'none' {
    const known = this.#never.get(request);
    if (known) return known;
    const reason = admissible(this.state, request, this.options.parameters)?.reason ?? 'none';
    this.#never.set(request, reason);
    return reason;
  }

  /** Of one that does not say, the usual; the largest, as long as it is not known where. */
  #memoryOf({ memory }: SessionRequest): bigint {
    return memory ?? this.#usual;
  }

  #use(request: SessionRequest, sign: 1 | -1) {
    const { sessions, memory, share } = this.usageOf(request.tenant);
    this.#usage.set(request.tenant, {
      sessions: sessions + sign,
      memory: memory + BigInt(sign) * this.#memoryOf(request),
      share: share + sign * request.shareRequest,
    });
  }

  #impatient(visitor: Visitor) {
    if (!this.queue.remove(visitor)) return;
    this.#leave(visitor, 'left');
    this.#serveQueue();
  }

  #serveQueue() {
    this.queue.arrange();
    if (!this.options.queueSkip) {
      for (let head = this.queue.head; head && this.#offer(head); head = this.queue.head)
        this.queue.remove(head);
      return;
    }
    for (const visitor of [...this.queue]) {
      // Nobody fits where there is no slot.
      if (this.#open.length === 0) break;
      if (this.#offer(visitor)) this.queue.remove(visitor);
    }
  }

  /** Has to be told after each change of the slots of a GPU. */
  #slotsChanged(gpu: SimulatedGpu) {
    const open = this.#open;
    let [low, high] = [0, open.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((open[middle] as SimulatedGpu).index < gpu.index) low = middle + 1;
      else high = middle;
    }
    const there = open[low] === gpu;
    const has = gpu.free.includes(true);
    if (has && !there) open.splice(low, 0, gpu);
    else if (!has && there) open.splice(low, 1);
  }

  // ---- from the queue into a slot --------------------------------------------------------------

  #offer(visitor: Visitor): boolean {
    const { policy, parameters, handOver } = this.options;
    const { request } = visitor.job;
    if (this.#open.length === 0) return false;
    const seen = policy.seesFull ? this.gpus : this.#open;
    const placement = policy.place(this.#stateOf(seen), request, parameters);
    if (!placement) return false;
    const gpu = this.#gpu(placement.gpu);
    gpu.reserve(visitor.id, request, placement);
    this.#slotsChanged(gpu);
    Object.assign(visitor, placement, { placed: this.now });
    this.#placed.set(visitor.id, visitor);
    if (this.options.keep) this.order.push(visitor.id);
    if (this.options.queuePolicy !== firstCome) {
      const waiting = this.queue.arrived.map(({ state }) => state);
      countOvertaken(waiting, { id: visitor.id, request }, [placement.gpu]);
    }
    const begin: Event = { kind: 'begin', visitor, lost: visitor.lost };
    this.#agenda.enter(this.now + handOver, begin);
    return true;
  }

  #begin(visitor: Visitor, lost: number) {
    // It was put back meanwhile, and has another place, or none.
    if (visitor.lost !== lost || visitor.placed === null) return;
    if (this.#handOverFails > 0) {
      this.#handOverFails--;
      return this.#lose(this.#gpu(visitor.gpu), visitor.slot);
    }
    visitor.begun = true;
    const { arrives, prepare } = visitor.job;
    const at = Math.max(this.now, arrives + prepare);
    this.#agenda.enter(at, { kind: 'prepared', visitor });
  }

  #work(visitor: Visitor) {
    // Lost while it prepared.
    if (this.#placed.get(visitor.id) !== visitor) return;
    const gpu = this.#gpu(visitor.gpu);
    gpu.work(visitor.id, visitor.job.request.name, visitor.job.work);
    this.#foresee(gpu);
  }

  #foresee(gpu: SimulatedGpu) {
    const { foreseen, version } = gpu;
    if (foreseen) this.#agenda.enter(foreseen.at, { kind: 'end', gpu, version });
  }

  // ---- the end of a session --------------------------------------------------------------------

  #end(gpu: SimulatedGpu) {
    const visitor = this.#placed.get(gpu.foreseen?.id ?? 0);
    if (!visitor) throw new Error("work that is nobody's");
    this.#free(visitor);
    this.#leave(visitor, 'done');
    this.#serveQueue();
  }

  #free(visitor: Visitor) {
    const gpu = this.#gpu(visitor.gpu);
    gpu.release(visitor.slot);
    this.#slotsChanged(gpu);
    this.#placed.delete(visitor.id);
    this.#foresee(gpu);
  }

  #leave(visitor: Visitor, how: Outcome['how']) {
    this.#use(visitor.job.request, -1);
    this.#over(visitor, how);
  }

  #over(visitor: Visitor, how: Outcome['how']) {
    const { id, job, placed, gpu, memory } = visitor;
    const at = this.now;
    const waited = (placed ?? at) - job.arrives;
    const outcome = { id, job, how, gpu: placed === null ? null : gpu, waited, at };
    this.tally.add(outcome);
    if (this.options.keep) this.outcomes.push(outcome);
    if (placed === null) return;
    const { tenant, name } = job.request;
    const seconds = at - placed;
    this.#history.push({ tenant, name, gpu, memory, peak: memory, waited, seconds });
    if (this.#history.length > historyMax) this.#history.shift();
  }

  // ---- what goes wrong -------------------------------------------------------------------------

  #fault(fault: Fault) {
    if (fault.kind === 'hand-over') {
      this.#handOverFails++;
      return;
    }
    const gpu = this.#gpu(fault.gpu);
    if (fault.kind === 'slot') return this.#lose(gpu, fault.slot);
    if (!gpu.healthy) return;
    gpu.healthy = false;
    for (const slot of gpu.free.keys()) this.#lose(gpu, slot);
    this.#agenda.enter(this.now + fault.seconds, { kind: 'healthy', gpu });
  }

  #lose(gpu: SimulatedGpu, slot: number) {
    if (gpu.lost[slot]) return;
    gpu.lost[slot] = true;
    gpu.free[slot] = false;
    this.#slotsChanged(gpu);
    const session = gpu.sessions.find((session) => session.slot === slot);
    const visitor = session && this.#placed.get(session.id);
    if (visitor) {
      this.#free(visitor);
      this.#rescue(visitor);
    }
    if (gpu.healthy) this.#replaceAfter(gpu, slot);
    this.#serveQueue();
  }

  /** One that has not begun waits again, in front. */
  #rescue(visitor: Visitor) {
    if (visitor.begun) return this.#leave(visitor, 'lost');
    visitor.placed = null;
    visitor.lost++;
    if (visitor.lost >= lostMax) return this.#leave(visitor, 'slot-lost');
    this.queue.putBack(visitor, (other) => other.id > visitor.id);
  }

  #replaceAfter(gpu: SimulatedGpu, slot: number) {
    this.#agenda.enter(this.now + this.options.replace, { kind: 'replaced', gpu, slot });
  }

  #replaced(gpu: SimulatedGpu, slot: number) {
    // The whole GPU has gone meanwhile: it comes back with that.
    if (!gpu.healthy || !gpu.lost[slot]) return;
    gpu.lost[slot] = false;
    gpu.free[slot] = true;
    this.#slotsChanged(gpu);
    this.#serveQueue();
  }

  #healthy(gpu: SimulatedGpu) {
    gpu.healthy = true;
    for (const [slot, lost] of gpu.lost.entries()) if (lost) this.#replaceAfter(gpu, slot);
  }

  #gpu(index: number): SimulatedGpu {
    const gpu = this.gpus[index];
    if (!gpu) throw new Error(`no GPU ${index}`);
    // Time passes there when something happens there: most events are none of most GPUs' business.
    gpu.pass(this.now);
    return gpu;
  }
}
