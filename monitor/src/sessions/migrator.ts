// Has sessions moved without anybody's asking: off GPUs that are being emptied, and where a policy says so. Policies see
// what each GPU has done since they were asked last; what they propose, the mover tries.
import { drain } from '../../policies/migration/drain.js';
import type {
  MigrationGpu,
  MigrationPolicy,
  MigrationSession,
  MigrationState,
  Move,
} from '../../policies/migration.js';
import type { GpuState } from '../../policies/state.js';
import { guardedDecision, type PolicyFailure } from '../queue/guard.js';
import type { Mover } from './mover.js';
import type { Session } from './session.js';

export interface MigratorOptions {
  mover: Pick<Mover, 'move' | 'hindrances'>;
  sessions: () => Iterable<Session>;
  /** As policies see them now. */
  gpus: () => readonly GpuState[];
  /** The GPUs, by index, whose sessions are to leave them. */
  leaving: () => ReadonlySet<number>;
  /** Beside those GPUs; null: nobody is moved for another reason. */
  policy: MigrationPolicy<unknown> | null;
  failed(policy: string, why: PolicyFailure, what: string): void;
}

/** One whose move has failed is let alone for so long: it may have hindered what will be over. */
const restMs = 10_000;

interface Running {
  readonly policy: MigrationPolicy<unknown>;
  memory: unknown;
}

/** What a session had done when it was looked at last. */
interface Seen {
  launches: bigint;
  deviceNs: bigint;
}

export class Migrator {
  readonly #options: MigratorOptions;
  readonly #own: Running | null;
  readonly #drain: Running = { policy: drain as MigrationPolicy<unknown>, memory: drain.begin() };
  #timer: NodeJS.Timeout | undefined;
  #stepped = performance.now();
  /** By number of the session. */
  #seen = new Map<number, Seen>();
  readonly #rests = new Map<number, { until: number; why: string }>();
  /** How many moves are under way. */
  #moving = 0;

  constructor(options: MigratorOptions) {
    this.#options = options;
    const { policy } = options;
    this.#own = policy && { policy, memory: policy.begin() };
  }

  /** From now on, as long as there is anything to decide. To be called again once a GPU is being emptied. */
  start() {
    if (this.#timer || (!this.#own && this.#options.leaving().size === 0)) return;
    this.#stepped = performance.now();
    this.#seen = new Map();
    const { periodMs } = this.#own?.policy ?? drain;
    this.#timer = setInterval(() => this.#step(performance.now()), periodMs);
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Why the last move of the session failed, where it has not been tried again since; null: none did. */
  whyFailed({ id }: Session): string | null {
    return this.#rests.get(id)?.why ?? null;
  }

  #step(now: number) {
    const leaving = this.#options.leaving();
    if (!this.#own && leaving.size === 0) return this.stop();
    const state = this.#look(now, leaving);
    if (leaving.size > 0 && this.#moving === 0) this.#ask(this.#drain, state);
    if (this.#own) this.#ask(this.#own, state);
  }

  #ask(running: Running, state: MigrationState) {
    const { policy } = running;
    const stays = { moves: [], memory: running.memory };
    const { moves, memory } = guardedDecision(
      policy.name,
      () => policy.step(state, running.memory),
      () => stays,
      this.#options.failed,
    );
    running.memory = memory;
    for (const move of moves) void this.#move(policy.name, move);
  }

  async #move(policy: string, { session: id, to }: Move) {
    const session = [...this.#options.sessions()].find((one) => one.id === id);
    if (!session) return;
    session.visitor.decisions.add('placement', `${policy} wants it on GPU ${to}`);
    this.#moving++;
    try {
      await this.#options.mover.move(session, { gpu: to });
      this.#rests.delete(id);
    } catch (error) {
      const { message } = error as Error;
      session.log.warn({ policy, to }, message);
      session.visitor.decisions.add('placement', message);
      this.#rests.set(id, { until: performance.now() + restMs, why: message });
    }
    this.#moving--;
  }

  /** What has been since the last look. */
  #look(now: number, leaving: ReadonlySet<number>): MigrationState {
    const passed = now - this.#stepped;
    this.#stepped = now;
    const before = this.#seen;
    this.#seen = new Map();
    const busy = new Map<number, number>();
    const sessions = new Map<number, MigrationSession>();
    for (const session of this.#options.sessions()) {
      const { id } = session;
      const seen = seenOf(session);
      this.#seen.set(id, seen);
      const old = before.get(id) ?? seen;
      // In another process it counts from the beginning.
      const ns = Number(seen.deviceNs - old.deviceNs);
      const gpu = session.placement.gpu;
      busy.set(gpu, (busy.get(gpu) ?? 0) + Math.max(0, ns));
      sessions.set(id, {
        ...session.state,
        allowed: session.visitor.request.allowed,
        hindrances: this.#hindrances(session, now),
        moves: session.moves,
        launched: seen.launches !== old.launches,
      });
    }
    for (const id of this.#rests.keys()) if (!sessions.has(id)) this.#rests.delete(id);
    const gpus = this.#options.gpus().map((gpu): MigrationGpu => {
      const used = Math.min(100, (busy.get(gpu.index) ?? 0) / passed / 1e4);
      return {
        ...gpu,
        busy: Number.isFinite(used) ? used : 0,
        leaving: leaving.has(gpu.index),
        // Whose guest has not connected yet is a promise, and no session that could be moved.
        sessions: gpu.sessions.map((one) => sessions.get(one.id) ?? promised(one)),
      };
    });
    return { now, gpus };
  }

  #hindrances(session: Session, now: number): string[] {
    const rests = this.#rests.get(session.id);
    return [
      ...this.#options.mover.hindrances(session),
      ...(!session.begun || session.ending !== null || session.closingSince !== null
        ? ['ends']
        : []),
      ...(session.moving === null ? [] : ['moves']),
      ...(rests && now < rests.until ? ['failed'] : []),
    ];
  }
}

function seenOf({ id, slot }: Session): Seen {
  const counts = slot.quotaPage.read();
  if (counts.counted !== BigInt(id)) return { launches: 0n, deviceNs: 0n };
  return {
    launches: counts.launches,
    deviceNs: counts.deviceNs,
  };
}

function promised(session: GpuState['sessions'][number]): MigrationSession {
  return { ...session, allowed: null, hindrances: ['ends'], moves: 0, launched: false };
}
