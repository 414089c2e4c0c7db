// The sessions that run: from when a program gets a process until its end, and what becomes of a
// program whose process dies under it.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { ExpectedModule, Resume } from '../../../api-server/src/control.js';
import type { Counters } from '../../../api-server/src/ipc.js';
import type { SessionEnd } from '../../../api-server/src/native.js';
import type { EndedState, GpuState, Placement } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import { withKernelNames } from '../base/kernel-name.js';
import type { Log } from '../base/log.js';
import type { Observer } from '../base/view.js';
import type { Client, DetachedConnection } from '../guests/client.js';
import { resumeSecretBytes } from '../guests/hello.js';
import type { LimitedLog } from '../network/limited-log.js';
import { addressOf } from '../network/strangers.js';
import { whyShare } from '../queue/reasons.js';
import type { Seat } from '../queue/reservations.js';
import type { Visitor } from '../queue/visitor.js';
import type { Waiting } from '../queue/waiting.js';
import type { Quota } from '../quota/quota.js';
import type { CacheFolder } from '../slots/cache-folder.js';
import { LearntCalls } from '../slots/learnt-calls.js';
import { LibraryCosts } from '../slots/library-costs.js';
import type { Pool } from '../slots/pool.js';
import type { Slot } from '../slots/slot.js';
import { type ProgramGpu, UsualModules } from '../slots/usual-modules.js';
import type { Tenants } from '../tenants/tenants.js';
import type { TraceFolder } from '../trace/folder.js';
import { Mover } from './mover.js';
import { numbers, Session } from './session.js';

/** After so many processes have died under a program it is refused: it may be what kills them. */
const lostMax = 3;
/** So many sessions that have ended are kept for policies to see. */
const historyMax = 256;

export interface RunningOptions {
  pool: Pool;
  quota: Quota;
  stopping: () => boolean;
  waiting: Waiting;
  tenants: Tenants | null;
  gated: { copies: boolean; sets: boolean };
  measure: 'always' | 'needed';
  kernelSeconds: number;
  idleSeconds: number;
  graceDisconnectedSeconds: number;
  /** Null: no session is moved by a policy, which would want to know how busy GPUs are. */
  migration: object | null;
  traces: TraceFolder | null;
  uploads: CacheFolder | null;
  observer: Observer;
  limitedLog: LimitedLog;
  log: Log;
  /** As policies see them now. */
  gpus: () => readonly GpuState[];
}

export class Running {
  readonly sessions = new Map<Slot, Session>();
  readonly history: EndedState[] = [];
  /** Told when none is left. */
  onIdle: (() => void) | undefined;
  readonly #options: RunningOptions;
  readonly #observer: Observer;
  readonly #waiting: Waiting;
  readonly #usual = new UsualModules();
  readonly #learnt = new LearntCalls();
  /** What calls of cuBLAS have cost. */
  readonly libraryCosts = new LibraryCosts();
  /** Moves sessions from one process to another. */
  readonly mover: Mover;

  constructor(options: RunningOptions) {
    this.#options = options;
    this.#observer = options.observer;
    this.#waiting = options.waiting;
    const { pool, observer, gpus, tenants } = options;
    this.mover = new Mover({
      pool,
      observer,
      gpus,
      tenants,
      onArrived: (session, slot, placement) => this.#arrived(session, slot, placement),
      onLost: (session, how) => this.#lostMoving(session, how),
    });
  }

  /**
   * Reserves the place and offers the visitor's connection to the process there, which has to be free. The
   * session begins once the process says that it is prepared (`prepared`); `declined` or `lost` come instead
   * where it cannot. `tickets`: those of the group's other sessions, for the Welcome of its first.
   */
  handOver(
    visitor: Visitor,
    seat: Seat,
    placement: Placement,
    detached: DetachedConnection,
    tickets: readonly string[] = [],
  ) {
    this.#options.pool.reserve(placement);
    const slot = this.#options.pool.slot(placement);
    const beside = this.#options.pool.beside(placement.gpu);
    const session = new Session(
      visitor,
      seat,
      placement,
      slot,
      this.#measures(visitor, placement.gpu),
    );
    this.sessions.set(slot, session);
    session.shareInForce = this.#options.quota.begin(session);
    visitor.decisions.add('quota', this.whyShare(session));
    session.comeback = this.#comeback(visitor, seat);
    const { windowBases, windowSize, takesGranularity } = visitor.hello;
    session.offer = {
      type: 'offer',
      session: BigInt(session.id),
      memoryLimit: placement.memory,
      pinnedLimit: beside.pinned,
      moduleLimit: beside.modules,
      stackLimit: beside.stacks,
      tenant: visitor.request.tenant,
      group: seat.group.gpus.length > 1 ? BigInt(seat.group.id) : 0n,
      uploadCache: this.#keepsUploads(visitor.request.tenant),
      expected: visitor.hello.expectsModules ? this.#usual.of(programOf(session)) : [],
      learnt: visitor.hello.takesLearnt ? this.#learnt.of(programOf(session)) : new Uint8Array(),
      windowBases,
      windowSize,
      takesGranularity,
      leftover: detached.leftover,
      tls: detached.tls,
      gated: this.#options.gated,
      measured: session.measured,
      mostKernel: this.#mostKernel(visitor.request.tenant),
      tickets,
      trace:
        this.#options.traces?.begin(session.id, {
          arrived: visitor.arrived,
          placed: session.started,
        }) ?? null,
      comeback: session.comeback && {
        secret: session.comeback.secret,
        seconds: session.comeback.seconds,
      },
      arrives: false,
    };
    slot.offer(session.offer, detached.handle);
    // Whoever has it can read what is sent.
    session.offer.tls = null;
    session.log.debug('offered');
  }

  /**
   * The process is ready for the session. Once the quota runner has written the session's limit into the
   * slot's quota page, the monitor lets go of the connection and tells the process to begin.
   */
  async prepared(slot: Slot) {
    if (this.mover.prepared(slot)) return;
    const session = this.sessions.get(slot);
    if (!session) return;
    await session.shareInForce;
    // The process may have ended meanwhile.
    if (this.sessions.get(slot) !== session) return;
    const { visitor, log } = session;
    const { client, hello } = visitor;
    this.#waiting.release(visitor);
    slot.begin();
    session.begun = true;
    if (session.ordinal === 0) this.#waiting.reservations.open(session.group);
    if (session.ending !== null) slot.end(session.ending);
    const attach = (performance.now() - visitor.arrived) / 1000;
    const { host, pid } = hello;
    const { class: kind } = visitor.request;
    const wants = { class: kind, share: session.share };
    const times = { waited: session.waited, attach: Math.round(attach * 1e6) / 1e6 };
    log.info({ peer: client.peer, host, pid, ...times, ...wants }, 'session begins');
    this.#observer.began(this.view(session), attach, session.waited, hello.traceparent);
  }

  /** A program with several GPUs ends with any of its connections. */
  #comeback({ hello, client, request: { tenant } }: Visitor, { group }: Seat) {
    const { graceDisconnectedSeconds: usual } = this.#options;
    const seconds = this.#limitsOf(tenant)?.graceDisconnectedSeconds ?? usual;
    // A Unix socket is cut by nobody but this server; large copies go past it, through shared memory.
    if (client.local || seconds === 0 || !hello.resumes || group.gpus.length > 1) return null;
    const { sealed } = client;
    return { secret: randomBytes(resumeSecretBytes), seconds, epoch: 0, sealed };
  }

  /**
   * Gives a session the connection on which its guest has come back after a cut: the process has it then, or it is
   * closed. Throws OB_RESUME, which says no more to who names a session that is another's.
   */
  comesBack(client: Client, resume: Resume, tenant: string) {
    const session = [...this.sessions.values()].find(({ id }) => BigInt(id) === resume.session);
    const comeback = session?.comeback;
    const known =
      comeback &&
      session.visitor.request.tenant === tenant &&
      // Not in the clear what was sealed.
      comeback.sealed === client.sealed &&
      timingSafeEqual(comeback.secret, resume.secret);
    if (!known) throw new OutboardError('OB_RESUME', "it has ended, or never was this program's");
    if (session.ending !== null) throw new OutboardError('OB_RESUME', session.ending);
    if (resume.epoch <= comeback.epoch)
      throw new OutboardError('OB_RESUME', 'a later connection of this program has taken it up');
    const detached = client.detach();
    if (!detached) return;
    const { session: id, epoch, received } = resume;
    comeback.epoch = epoch;
    // What a guest sends before it was answered is none of the stream.
    const taken =
      detached.leftover.length === 0 &&
      session.slot.resume(
        { type: 'resume', session: id, epoch, received, tls: detached.tls },
        detached.handle,
      );
    const { peer } = client;
    const fields = { session: session.id, peer, epoch, taken };
    this.#options.limitedLog.write(
      'info',
      addressOf(peer),
      fields,
      'a guest comes back after a cut',
    );
    client.release();
  }

  /**
   * Whether all launches of a session are measured. That is needed where others can come to its GPU, whether or not
   * they are there when it launches; for its own limits; and for the times of a recording. Where it gets a limit of
   * its share later, launches are measured from then on, for the limit's sake only.
   */
  #measures({ request: { tenant, shareLimit } }: Visitor, gpu: number): boolean {
    const { measure, pool, quota, traces, migration } = this.#options;
    if (migration !== null) return true;
    if (measure === 'always' || traces !== null || pool.slotsMost(gpu) > 1) return true;
    if (shareLimit < 100 || quota.countsAll) return true;
    return this.#kernelSeconds(tenant) > 0 || this.#idleSeconds(tenant) > 0;
  }

  #kernelSeconds(tenant: string): number {
    return this.#limitsOf(tenant)?.kernelSeconds ?? this.#options.kernelSeconds;
  }

  #idleSeconds(tenant: string): number {
    return this.#limitsOf(tenant)?.idleSeconds ?? this.#options.idleSeconds;
  }

  #mostKernel(tenant: string) {
    const seconds = this.#kernelSeconds(tenant);
    if (seconds === 0) return null;
    return { seconds, sentence: new OutboardError('OB_KERNEL_SECONDS', seconds).message };
  }

  #limitsOf(tenant: string) {
    return this.#options.tenants?.named(tenant)?.limits;
  }

  /** Ends a session from the server's side, and tells its guest `message`. `ended` or `lost` follows. */
  end(session: Session, message: string) {
    if (session.ending !== null) return;
    session.log.warn(message);
    session.ending = message;
    if (session.begun) session.slot.end(message);
  }

  /** Ends sessions that have done nothing for too long. To be called about once a second. */
  endIdle() {
    // A program that works on one of its GPUs keeps the others, too.
    const idle = new Map<number, number>();
    for (const session of this.sessions.values()) {
      const least = idle.get(session.group.id) ?? Number.POSITIVE_INFINITY;
      idle.set(session.group.id, Math.min(least, session.idleFor()));
    }
    for (const session of this.sessions.values()) {
      const { tenant } = session.visitor.request;
      // Of one that began without a limit nobody may know whether it works.
      const seconds = session.measured ? this.#idleSeconds(tenant) : 0;
      if (seconds === 0 || (idle.get(session.group.id) ?? 0) <= seconds) continue;
      const { code, message } = new OutboardError('OB_IDLE_TIMEOUT', seconds);
      session.log.warn({ code }, 'the session does nothing');
      this.end(session, message);
    }
  }

  #keepsUploads(tenant: string): boolean {
    const { uploads, tenants } = this.#options;
    return uploads !== null && (tenants === null || tenants.named(tenant)?.uploadCache === true);
  }

  view(session: Session) {
    const uuid = this.#options.pool.uuid(session.placement.gpu);
    return session.view(uuid, this.mover.hindrances(session));
  }

  /** The process cannot take the session: the guest is refused with the code that the process gives. */
  declined(slot: Slot, code: string | null, message: string) {
    if (this.mover.declined(slot, message)) return;
    const session = this.#free(slot);
    if (session) {
      const { client, request } = session.visitor;
      client.takeBack();
      const error = OutboardError.relayed(code, message);
      this.#waiting.refuse(
        client,
        error ?? new OutboardError('OB_INTERNAL', message),
        request.tenant,
      );
    }
  }

  /** The session has used the module. It is noted at once: the program's next one may begin before this ends. */
  used(slot: Slot, id: bigint, module: ExpectedModule) {
    const session = this.sessions.get(slot);
    if (session && BigInt(session.id) === id) this.#usual.add(programOf(session), module);
  }

  /** The session is about to end: what it has will be free. */
  closing(slot: Slot) {
    const session = this.sessions.get(slot);
    if (session) session.closingSince ??= performance.now();
  }

  ended(slot: Slot, end: SessionEnd, counters: Counters) {
    const moved = end.reason === 'moved';
    if (this.mover.over(slot, end.message, moved ? 'moved' : 'ended')) return;
    const session = this.sessions.get(slot);
    if (session) {
      session.settle();
      const { reason, message, reusable } = end;
      const level = reason === 'closed' || reason === 'stopped' ? 'info' : 'warn';
      const { deviceNs } = session.sample;
      const device = deviceNs === null ? {} : { deviceSeconds: deviceNs / 1e9 };
      const times = { seconds: session.seconds, ...device };
      session.log[level](
        { reason, ...times, ...numbers(counters), slotReusable: reusable },
        `session ends: ${withKernelNames(message)}`,
      );
      this.#usual.learn(programOf(session), end.modules);
      this.#learnt.learn(programOf(session), end.learnt);
      this.#learnLibraryCost(session, end, counters);
      this.#over(session, reason, withKernelNames(message));
    }
    this.#free(slot);
  }

  /** Of a whole session that did some work; of several GPUs the first one stands for all. */
  #learnLibraryCost(session: Session, { reason, learnt }: SessionEnd, counters: Counters) {
    const { launches = 0n, roundTrips = 0n, bytesIn = 0n, bytesOut = 0n } = counters;
    const refused = (counters.librariesRefused ?? 0n) > 0n;
    if (reason !== 'closed' || session.ordinal > 0) return;
    if (!refused && (session.moves > 0 || !launches)) return;
    const way = refused || learnt.length > 0 ? 'remote' : 'guest';
    const cost = { roundTrips, bytes: bytesIn + bytesOut };
    this.libraryCosts.learn(programOf(session), way, refused ? null : cost);
  }

  /** It is in another process now, which has been told to begin. */
  #arrived(session: Session, slot: Slot, placement: Placement) {
    const { quota } = this.#options;
    session.settle();
    quota.end(session);
    this.sessions.delete(session.slot);
    session.goesOn(slot, placement);
    this.sessions.set(slot, session);
    session.shareInForce = quota.begin(session);
    const { gpu, slot: index } = placement;
    session.visitor.decisions.add('placement', `moved to slot ${gpu}.${index}`);
    session.visitor.decisions.add('quota', this.whyShare(session));
    if (session.ending !== null) slot.end(session.ending);
  }

  #lostMoving(session: Session, how: string) {
    session.log.error({ seconds: session.seconds }, `session lost while it moved: ${how}`);
    this.#options.quota.end(session);
    this.#over(session, 'lost', how);
    this.sessions.delete(session.slot);
    if (this.sessions.size === 0) this.onIdle?.();
  }

  /** What the quota policy holds it to, beside those that are on its GPU. */
  whyShare({ id, placement: { gpu }, share }: Session): string {
    let others = 0;
    for (const other of this.sessions.values())
      if (other.id !== id && other.placement.gpu === gpu) others += other.share.request;
    return whyShare(this.#options.quota.policy, gpu, share, others);
  }

  #over(session: Session, reason: string, message: string) {
    const { visitor, seconds } = session;
    // How a connection went, the message says: not every one was closed.
    const what = reason === 'closed' ? 'over' : reason;
    this.#waiting.gone.add(visitor, `${what} after ${seconds.toFixed(3)} seconds: ${message}`);
    this.history.push(session.ended);
    if (this.history.length > historyMax) this.history.shift();
    this.#observer.ended(this.view(session), reason);
  }

  /** The process has ended. If its session had not begun, the monitor still has the client, which gets another. */
  lost(slot: Slot, how: string) {
    this.#options.quota.slotEnded(slot);
    if (this.mover.over(slot, how, 'exit')) return;
    const session = this.#free(slot);
    session?.settle();
    if (session) this.#rescue(session, how);
  }

  #rescue(session: Session, how: string) {
    const { visitor, log } = session;
    if (session.begun && session.ending !== null) {
      log.warn(
        { seconds: session.seconds },
        `session ends: ${session.ending}; its process: ${how}`,
      );
      return this.#over(session, 'stopped', session.ending);
    }
    if (session.begun) {
      log.error(
        { seconds: session.seconds },
        `session lost: its API server process ended (${how})`,
      );
      return this.#over(session, 'lost', `its API server process ended (${how})`);
    }
    const { client } = visitor;
    const { tenant } = visitor.request;
    client.takeBack();
    visitor.lost++;
    if (this.#options.stopping()) {
      this.#waiting.refuse(client, new OutboardError('OB_SHUTDOWN'), tenant);
    } else if (session.ending !== null) {
      this.#waiting.refuse(client, new OutboardError('OB_KILLED', session.ending), tenant);
    } else if (visitor.lost >= lostMax) {
      this.#waiting.refuse(client, new OutboardError('OB_SLOT_LOST', visitor.lost), tenant);
    } else if (session.ordinal > 0) {
      // The other sessions of its group go on where they are, and the place of this one is kept.
      log.warn(`its API server process ended (${how}): waits for the next one there`);
      visitor.decisions.add('queue', `its process ended (${how}): it waits for the next one there`);
      const { group, ordinal, placement } = session;
      this.#waiting.reservations.again(visitor, { group, ordinal }, placement);
    } else {
      log.warn(`its API server process ended (${how}): waits for another`);
      visitor.decisions.add(
        'queue',
        `its process ended (${how}): it waits for another, where it was`,
      );
      this.#waiting.putBack(visitor);
    }
  }

  #free(slot: Slot): Session | undefined {
    const session = this.sessions.get(slot);
    if (session) {
      this.#options.quota.end(session);
      this.#options.pool.release(session.placement);
      if (session.ordinal === 0) this.#waiting.reservations.dropUnclaimed(session.group);
    }
    this.sessions.delete(slot);
    if (this.sessions.size === 0) this.onIdle?.();
    return session;
  }
}

function programOf({ visitor, ordinal }: Session): ProgramGpu {
  const { tenant, name } = visitor.request;
  return { tenant, name, ordinal };
}
