// The monitor puts ports, queue and slots together. A connection goes from a listener to a Client, which reads
// its Hello (arrivals.ts), through admit, the queue and the placement policy to a slot, which gets the
// connection itself.
import { encodeAnswer, encodeHello } from '../../../api-server/src/control.js';
import type { Warm } from '../../../api-server/src/ipc.js';
import { none as noAdmission } from '../../policies/admission/none.js';
import type { AdmissionPolicy, FunctionsTable } from '../../policies/admission.js';
import type { MigrationPolicy } from '../../policies/migration.js';
import { worstFit } from '../../policies/placement/worst-fit.js';
import type { PlacementParameters, PlacementPolicy } from '../../policies/placement.js';
import { firstCome } from '../../policies/queue/first-come.js';
import type { QueuePolicy } from '../../policies/queue.js';
import type { GpuState, ServerState } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { Observer, WhyView } from '../base/view.js';
import type { Driver } from '../devices/devices.js';
import type { BesideWanted } from '../devices/memory.js';
import { formatMemoryRule, type MemoryRule } from '../devices/memory-rule.js';
import { HelloReader } from '../guests/hello.js';
import { LimitedLog } from '../network/limited-log.js';
import { formatListen, type Listen, Listeners } from '../network/listeners.js';
import type { StrangersMost } from '../network/strangers.js';
import { admit } from '../queue/admission.js';
import type { PolicyFailure } from '../queue/guard.js';
import { admissionBy } from '../queue/guarded-admission.js';
import type { Ordered } from '../queue/guarded-order.js';
import { guarded } from '../queue/guarded-placement.js';
import { Placer } from '../queue/placer.js';
import type { Queue } from '../queue/queue.js';
import type { Reservation } from '../queue/reservations.js';
import type { Visitor } from '../queue/visitor.js';
import { Waiting } from '../queue/waiting.js';
import { Quota, type QuotaOptions } from '../quota/quota.js';
import { Migrator } from '../sessions/migrator.js';
import { Running } from '../sessions/running.js';
import { selfWaiting, suspectSeconds } from '../sessions/self-waiting.js';
import type { Session } from '../sessions/session.js';
import { Turns } from '../sessions/turns.js';
import type { CacheFolder } from '../slots/cache-folder.js';
import { Pool } from '../slots/pool.js';
import type { Sandbox } from '../slots/sandbox.js';
import type { Slot } from '../slots/slot.js';
import { requireLocal, type Tenants } from '../tenants/tenants.js';
import type { TraceFolder } from '../trace/folder.js';
import { Arrivals } from './arrivals.js';
import { DeviceQueries } from './device-queries.js';
import { checkAccess, driverFor, type Isolation, isolate } from './isolation.js';
import { whyOf } from './why.js';

export interface ServerOptions {
  listen: readonly Listen[];
  build: string;
  driver: Driver;
  /** Warm processes from the start on, and how many there can be where more are wanted. */
  serversPerGpu: number;
  serversMost: number;
  /** How long a slot that was made later stays with nothing to do. */
  slotIdleSeconds: number;
  memoryRule: MemoryRule;
  beside: BesideWanted;
  /** For images of modules in each process; absent or null: what suits the machine. */
  imageMemory?: bigint | null;
  /** The folder of cuBLAS and cuBLASLt for sessions that call those whole; absent, null: none. */
  libraries?: string | null;
  /** What processes that wait have ready; absent: handles, too. */
  warm?: Warm;
  /** Null: everybody on this machine may come, and nobody else can reach the server. */
  tenants: Tenants | null;
  helloSeconds: number;
  /** How many connections there may be that have not said who they are. */
  strangers: StrangersMost;
  /** How long the other GPUs of a program are kept for it to connect. */
  claimSeconds: number;
  /** How many programs may wait, of all and of one tenant, and how long; whether one that fits may pass others. */
  queueMax: number;
  queueMaxOfTenant: number;
  queueSeconds: number;
  queueSkip: boolean;
  /** In which order they have their turns. */
  queuePolicy: QueuePolicy;
  placement: PlacementPolicy;
  /** Who may join whom on a GPU, and what is known of functions. */
  admission: AdmissionPolicy;
  functions: FunctionsTable;
  /** Which sessions are moved while they run; null: none. */
  migration: MigrationPolicy<unknown> | null;
  quota: QuotaOptions;
  /** What is held back and measured beside kernels. */
  gated: { copies: boolean; sets: boolean };
  /** Whether work is measured that nothing holds back where nobody needs to know what it costs. */
  measure: 'always' | 'needed';
  /** Where sessions are recorded; null: they are not. */
  traces: TraceFolder | null;
  /** Where modules are kept on disk; null: nowhere. */
  modules: CacheFolder | null;
  /** Where uploads are kept of tenants that want that, and without tenants everybody's; null: nowhere. */
  uploads: CacheFolder | null;
  /** How long a kernel may run, and a session may do nothing; 0: for ever. A tenant may have its own. */
  kernelSeconds: number;
  idleSeconds: number;
  /** For how long a session is kept whose connection was cut; 0: it ends with that. */
  graceDisconnectedSeconds: number;
  /** Whether a process serves one tenant only; auto: where there are tenants and it costs little. */
  newProcess: 'auto' | 'tenant' | 'never';
  /** The sandbox of slots' processes; null: there is none. */
  sandbox: Sandbox | null;
  /** Whether tenants are served by GPUs whose kernels reach all memory of a process. */
  allowPageable: boolean;
  parameters: PlacementParameters;
  /** How long sessions may take to end by themselves when the server is told to stop. */
  graceSeconds: number;
  /** How long they may take after that, when they have been told to end. */
  stopSeconds: number;
  /** A slot's process that gives no sign of life for so long is killed. */
  hangSeconds: number;
}

export class Server {
  readonly options: ServerOptions;
  readonly pool: Pool;
  readonly quota: Quota;
  readonly running: Running;
  /** Has sessions moved without anybody's asking. */
  readonly migrator: Migrator;
  /** Decides who is served when. */
  readonly turns: Turns;
  /** Takes connections. */
  readonly arrivals: Arrivals;
  /** Answers what devices do. */
  readonly queries: DeviceQueries;
  /** What keeps tenants apart, once the slots are warm. */
  isolation: Isolation = { newProcess: false };
  /** Why nobody new is taken; null: everybody is. Who stops never takes anybody again. */
  closed: 'draining' | 'stopping' | null = null;
  /** Where guests connect, as people write it. */
  listening: string[] = [];
  /** Those of them that are no TLS. */
  open: readonly Listen[] = [];
  readonly #log: Log;
  readonly #observer: Observer;
  readonly #listeners: Listeners;
  readonly #limitedLog: LimitedLog;
  readonly #waiting: Waiting;
  readonly #placer: Placer;
  #ids = 0;
  #expiring: NodeJS.Timeout | undefined;
  #hurry: (() => void) | undefined;
  /** Of the first stop(), which all others wait for, too. */
  #end: Promise<void> | undefined;

  constructor(given: ServerOptions, observer: Observer, log: Log) {
    this.#observer = observer;
    this.#log = log;
    this.#limitedLog = new LimitedLog(log);
    const policyFailed =
      (instead: string) => (policy: string, why: PolicyFailure, what: string) => {
        // Nobody is kept out: the usual policy decides.
        this.#limitedLog.write('warn', policy, { policy, why, instead }, what);
        observer.policyFailed(policy, why);
      };
    const failed = policyFailed(noAdmission.name);
    const admission = admissionBy(given.admission, given.functions, failed);
    const options = { ...given, parameters: { ...given.parameters, admission } };
    this.options = options;
    const driver = driverFor(options);
    const { functions } = options.functions;
    const smOf = (name: string) => functions.get(name)?.sm ?? null;
    this.quota = new Quota({ ...options.quota, smOf }, log);
    this.pool = new Pool(
      { ...options, driver },
      {
        onStarted: (slot) => this.quota.slotStarted(slot),
        onLate: (gpu) => checkAccess(options, gpu, log),
        onRetired: (slot) => {
          this.quota.slotEnded(slot);
          // Its memory is free again.
          this.#serveQueue();
        },
        onReady: (slot) => this.#ready(slot),
        onPrepared: (slot) => this.running.prepared(slot),
        onDeclined: (slot, code, message) => {
          this.running.declined(slot, code, message);
          this.#serveQueue();
        },
        onUsed: (slot, session, module) => this.running.used(slot, session, module),
        onClosing: (slot) => this.running.closing(slot),
        onArrived: (slot) => {
          this.running.mover.arrived(slot);
          this.#serveQueue();
        },
        onMoved: (slot, stoppedMs) => this.running.mover.moved(slot, stoppedMs),
        onStays: (slot, why) => {
          this.running.mover.stays(slot, why);
          this.#serveQueue();
        },
        onEnded: (slot, end, counters) => {
          this.running.ended(slot, end, counters);
          this.#serveQueue();
        },
        onExit: (slot, how) => this.#lost(slot, how),
        onUnable: () => this.#giveUp(),
      },
      log,
    );
    this.#waiting = new Waiting(
      this.pool,
      options.claimSeconds,
      observer,
      (reservation) => this.#unclaimed(reservation),
      options.queuePolicy,
      policyFailed(firstCome.name),
    );
    const placement = guarded(options.placement, worstFit, (policy, why, what) => {
      policyFailed(worstFit.name)(policy, why, what);
      const failure = why === 'threw' ? `threw: ${what}` : what;
      this.#placer.failed(`placement ${policy}: ${failure}; ${worstFit.name} decides instead`);
    });
    this.#placer = new Placer({ ...options, placement, instead: worstFit }, this.pool, (gpus) =>
      this.#with(gpus),
    );
    const { pool, quota } = this;
    const stopping = () => this.stopping;
    const waiting = this.#waiting;
    const gpus = () => this.state.gpus;
    const limitedLog = this.#limitedLog;
    const own = { pool, quota, waiting, stopping, observer, log, limitedLog, gpus };
    this.running = new Running({ ...options, ...own });
    this.migrator = new Migrator({
      mover: this.running.mover,
      sessions: () => this.sessions.values(),
      gpus,
      leaving: () => pool.leaving,
      policy: options.migration,
      failed: policyFailed('no move'),
    });
    const state = () => this.state;
    const newId = () => ++this.#ids;
    this.turns = new Turns({
      skip: options.queueSkip,
      pool,
      waiting,
      placer: this.#placer,
      running: this.running,
      state,
      newId,
    });
    this.queries = new DeviceQueries(this, driver.nvml);
    this.arrivals = new Arrivals({
      ...options,
      pool,
      waiting,
      turns: this.turns,
      queries: this.queries,
      running: this.running,
      closed: () => this.closed,
      state,
      newId,
      onLeft: () => this.#serveQueue(),
      log,
      limitedLog: this.#limitedLog,
    });
    this.#listeners = new Listeners((socket, peer) =>
      this.arrivals.accept(socket, { peer, certificate: null }),
    );
  }

  get sessions(): ReadonlyMap<Slot, Session> {
    return this.running.sessions;
  }

  get queue(): Queue<Visitor, Ordered> {
    return this.#waiting.queue;
  }

  get stopping(): boolean {
    return this.closed === 'stopping';
  }

  /** What admission and policies see. */
  get state(): ServerState {
    return this.#with(this.pool.state);
  }

  #with(pool: GpuState[]): ServerState {
    const now = performance.now() / 1000;
    const gpus = pool.map((gpu) => ({
      ...gpu,
      sessions: [...this.sessions.values()]
        .filter(({ placement }) => placement.gpu === gpu.index)
        .map((session) => session.state)
        .concat(this.#waiting.reservations.statesOn(gpu.index, now)),
    }));
    const queue = [...this.queue].map((visitor) => visitor.state);
    return { now, gpus, queue, history: this.running.history };
  }

  /** Opens the devices, then the ports. Throws when that fails, or stop() comes before its end. */
  async start() {
    try {
      await this.pool.start();
      checkMaxBlocks(this.options.quota, this.pool.count);
      this.isolation = isolate(this.options, this.pool, this.#log);
      this.#placer.newProcess = this.isolation.newProcess;
      for (const { slots } of this.pool.devices) {
        for (const { gpu, startSeconds } of slots) this.#observer.slotReady(gpu, startSeconds ?? 0);
      }
      this.#rehearse();
      const listening = await this.#listeners.open(this.options.listen);
      if (!this.options.tenants) requireLocal(listening, formatListen);
      if (this.stopping) throw new OutboardError('OB_SHUTDOWN');
      this.open = listening;
      this.listening = listening.map(formatListen);
      this.#announce();
      this.migrator.start();
    } catch (error) {
      await this.stop('the server cannot start');
      throw error;
    }
  }

  /**
   * Takes nobody any more, lets sessions end, then ends them and the processes, and resolves when
   * all are gone. Called again, it does not wait for sessions any longer.
   */
  stop(why = 'the server is being shut down'): Promise<void> {
    this.#hurry?.();
    this.#end ??= this.#stop(why);
    return this.#end;
  }

  async #stop(why: string) {
    this.closed = 'stopping';
    clearInterval(this.#expiring);
    this.migrator.stop();
    this.#waiting.dismissAll(new OutboardError('OB_SHUTDOWN'));
    await this.#graceOver();
    for (const session of this.sessions.values()) session.ending ??= why;
    const closed = this.#listeners.close();
    this.arrivals.dismissStrangers(new OutboardError('OB_SHUTDOWN'));
    await this.pool.stop(why, this.options.stopSeconds);
    await closed;
    await this.quota.stop();
    this.#limitedLog.tell();
    this.#log.info('stopped');
  }

  /** Resolves when no session runs, the grace is over, or somebody is in a hurry. */
  async #graceOver() {
    const { graceSeconds } = this.options;
    const running = this.sessions.size;
    if (running === 0 || graceSeconds === 0) return;
    this.#log.info({ sessions: running, graceSeconds }, 'stopping: sessions may end by themselves');
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceSeconds * 1000);
      this.running.onIdle = this.#hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.running.onIdle = this.#hurry = undefined;
  }

  /** Takes nobody new until resume(); those who wait are refused, those who run go on. */
  drain() {
    if (this.closed !== null) return;
    this.closed = 'draining';
    this.#log.info({ sessions: this.sessions.size, queued: this.queue.length }, 'draining');
    this.#waiting.dismissQueue(new OutboardError('OB_DRAINING'));
  }

  resume() {
    if (this.closed !== 'draining') return;
    this.closed = null;
    this.#log.info('takes sessions again');
  }

  /** Places nobody new on the GPU until resumeGpu(); its sessions go on there, or elsewhere if they are `moved`. */
  drainGpu(gpu: number, moved: boolean) {
    this.#log.info({ gpu, moved }, 'the GPU is being emptied');
    this.pool.drain(gpu, moved ? 'moves' : 'waits');
    this.migrator.start();
  }

  resumeGpu(gpu: number) {
    this.pool.drain(gpu, null);
    this.#log.info({ gpu }, 'the GPU takes sessions again');
    this.#serveQueue();
  }

  /** Throws OB_NO_SESSION. */
  kill(id: number, why: string) {
    const visitor = this.#waiting.numbered(id);
    if (visitor) {
      this.#waiting.leave(visitor);
      const error = new OutboardError('OB_KILLED', why);
      this.#waiting.refuse(visitor.client, error, visitor.request.tenant);
      return this.#serveQueue();
    }
    const session = this.session(id);
    const { message } = new OutboardError('OB_KILLED', why);
    this.running.end(session, message);
  }

  /** In effect within a period of the policy. What has become free may be another's now. */
  setShare(session: Session, share: { request: number; limit: number }) {
    session.log.info({ before: session.share, share }, 'share changed');
    const { request, limit } = session.share;
    session.share = share;
    this.quota.setShare(session);
    const why = `an operator changed its share of ${request}:${limit}`;
    session.visitor.decisions.add('quota', `${why}: ${this.running.whyShare(session)}`);
    this.#serveQueue();
  }

  /** Throws OB_NO_SESSION. */
  session(id: number): Session {
    for (const session of this.sessions.values()) if (session.id === id) return session;
    throw new OutboardError('OB_NO_SESSION', id);
  }

  /** What was decided about one that waits, runs or has gone lately, and why. Throws OB_NO_DECISIONS. */
  why(id: number): WhyView {
    return whyOf(this, this.#waiting, this.#placer, id);
  }

  view(session: Session) {
    return this.running.view(session);
  }

  /** At once: sessions end without a word. */
  destroy() {
    this.arrivals.destroy();
    this.pool.kill();
  }

  #announce() {
    const { driver, memoryRule } = this.options;
    for (const { index, name, uuid, memory, usual, beside, slots } of this.pool.devices) {
      const bytes = {
        memory: Number(memory),
        usualMemory: Number(usual),
        pinnedMemory: Number(beside.pinned),
        moduleMemory: Number(beside.modules),
        stackMemory: Number(beside.stacks),
      };
      this.#log.info({ gpu: index, name, uuid, slots: slots.length, ...bytes }, 'GPU');
    }
    const listen = this.listening.join(',');
    const { kind, library, gpus, traits } = driver;
    const slots = this.pool.devices.reduce((sum, { slots }) => sum + slots.length, 0);
    const sessionMemory = formatMemoryRule(memoryRule);
    const facts = { listen, device: kind, library, traits, gpus, slots, sessionMemory };
    this.#log.info(facts, 'listening');
    this.#expiring = setInterval(() => this.#expire(), 1000);
  }

  // ---- who waits --------------------------------------------------------------------------------

  /** Ends sessions that do nothing for too long, and refuses visitors who have waited for too long. */
  #expire() {
    this.running.endIdle();
    this.#warnSelfWaiting();
    const { queueSeconds } = this.options;
    if (queueSeconds > 0 && this.#waiting.dismissLate(queueSeconds)) this.#serveQueue();
  }

  /** Warns the first of the queue, and those that may be passed, if they may be waiting for themselves. */
  #warnSelfWaiting() {
    for (const visitor of this.queue) {
      this.#warnIfSelfWaiting(visitor);
      if (visitor.waitsFor === 'others') break;
    }
  }

  #warnIfSelfWaiting(visitor: Visitor) {
    const { id, client, hello, arrived } = visitor;
    if (performance.now() - arrived < suspectSeconds * 1000) return;
    const text = selfWaiting(visitor, [...this.sessions.values()]);
    if (text === null || !client.warn(text)) return;
    this.#log.warn({ session: id, peer: client.peer, program: hello.program }, text);
  }

  /** A place was kept in vain: within the time no connection has come, or no process was ready for it. */
  #unclaimed({ id, seat, placement, visitor }: Reservation) {
    const { claimSeconds } = this.options;
    const where = { session: id, group: seat.group.id, gpu: placement.gpu };
    const what = visitor ? 'no process is ready' : 'nobody has come';
    this.#log.warn(where, `${what} after ${claimSeconds} seconds: the GPU is given back`);
    if (visitor) {
      const error = new OutboardError('OB_SLOT_LOST', Math.max(1, visitor.lost));
      this.#waiting.refuse(visitor.client, error, visitor.request.tenant);
    }
    this.#serveQueue();
  }

  #serveQueue() {
    if (!this.stopping) this.turns.serveQueue();
  }

  // ---- slots ----------------------------------------------------------------------------------

  #ready(slot: Slot) {
    this.#observer.slotReady(slot.gpu, slot.startSeconds ?? 0);
    const reservation = this.#waiting.reservations.at(slot.gpu, slot.index);
    if (reservation) this.turns.fillReservation(reservation);
    this.#serveQueue();
  }

  /** The process is gone. */
  #lost(slot: Slot, how: string) {
    this.running.lost(slot, how);
    if (!this.stopping && !slot.renewed) this.#observer.slotLost(slot.gpu);
    this.#giveUp();
    // Its memory is free, and a guest that waits again because of it may fit elsewhere.
    this.#serveQueue();
  }

  /** Nobody waits for what will not come. */
  #giveUp() {
    const { hopeless } = this.pool;
    if (hopeless !== null) this.#waiting.dismissAll(new OutboardError('OB_NO_SLOT', hopeless));
  }

  /** Goes the way of a Hello once, without a guest, so that the first guest finds compiled code. */
  #rehearse() {
    const arrived = new HelloReader().push(encodeHello({ program: 'rehearsal', windowBases: [] }));
    const { parameters } = this.options;
    if (arrived) this.#placer.place(admit(arrived.hello, this.state, parameters));
    encodeAnswer({ queued: { position: 1 } });
  }
}

/** Whether there is one number for each GPU, where there are several numbers. */
function checkMaxBlocks({ parameters = [] }: QuotaOptions, gpus: number) {
  const { length } = parameters;
  if (length > 1 && length !== gpus) throw new OutboardError('OB_MAX_BLOCKS', length, gpus);
}
