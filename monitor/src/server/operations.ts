// What an operator sees and may do, made from the live server.
import { hostname } from 'node:os';
import { version } from '../../../api-server/src/version.js';
import type { ServerState } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { RecentLog } from '../base/log.js';
import type {
  GpuDrainView,
  GpuView,
  KernelView,
  Operations,
  SensorsView,
  ShareChange,
  SlotState,
  SlotView,
  TenantView,
  View,
} from '../base/view.js';
import { besideBytes } from '../devices/memory.js';
import { formatMemoryRule } from '../devices/memory-rule.js';
import { usageOf } from '../queue/admission.js';
import type { Session } from '../sessions/session.js';
import type { Slot } from '../slots/slot.js';
import { gpusOf, type Tenant } from '../tenants/tenants.js';
import type { Server } from './server.js';

export class LiveOperations implements Operations {
  readonly #server: Server;
  readonly #recent: RecentLog;
  readonly #started = new Date();

  constructor(server: Server, recent: RecentLog) {
    this.#server = server;
    this.#recent = recent;
  }

  view(): View {
    const server = this.#server;
    const { options, state } = server;
    const { tenants } = options;
    return {
      server: {
        version,
        pid: process.pid,
        host: hostname(),
        started: this.#started.toISOString(),
        now: new Date().toISOString(),
        listen: server.listening,
        device: options.driver.kind,
        traits: options.driver.traits,
        placement: options.placement.name,
        admission: options.admission.name,
        queuePolicy: options.queuePolicy.name,
        migration: options.migration?.name ?? 'none',
        quota: server.quota.policy,
        sessionMemory: formatMemoryRule(options.memoryRule),
        draining: server.closed !== null,
        tenants: tenants !== null,
      },
      gpus: this.#gpus(state),
      sessions: [...server.sessions.values()].map((session) => server.view(session)),
      queue: [...server.queue].map((visitor, index) => visitor.view(index + 1)),
      tenants: tenants ? tenants.content.tenants.map((tenant) => tenantView(tenant, state)) : [],
    };
  }

  #gpus(state: ServerState): GpuView[] {
    const { pool } = this.#server;
    return pool.devices.map((device) => {
      const gpu = state.gpus[device.index];
      const sessions = gpu?.sessions ?? [];
      const { pinned, modules, stacks } = device.beside;
      const kept = BigInt(device.slots.length) * besideBytes(device.beside);
      return {
        index: device.index,
        uuid: device.uuid,
        name: device.name,
        pciBusId: device.pciBusId,
        // One that is being emptied takes no sessions, and is well.
        healthy: gpu?.healthy || (device.draining !== null && device.problem === null),
        problem: device.problem,
        draining: device.draining,
        memory: {
          total: Number(device.total),
          sessions: Number(device.memory),
          reserved: Number(gpu?.reserved ?? 0n),
          usual: Number(device.usual),
          used: sessions.reduce((sum, { used }) => sum + Number(used), 0),
          overhead: Number(device.contexts + kept),
          beside: { pinned: Number(pinned), modules: Number(modules), stacks: Number(stacks) },
        },
        share: {
          requested: sessions.reduce((sum, { shareRequest }) => sum + shareRequest, 0),
          busy: this.#server.quota.busy(device.index),
        },
        slots: device.slots.map((slot) =>
          slotView(
            slot,
            gpu?.free[slot.index] ?? false,
            device.contexts / BigInt(device.slots.length),
          ),
        ),
      };
    });
  }

  kill(session: number, why: string) {
    this.#server.kill(session, why);
  }

  sensors(): Promise<SensorsView[]> {
    return this.#server.queries.sensors();
  }

  async kernels(id: number): Promise<KernelView[]> {
    const kernels = await this.#server.session(id).slot.kernels();
    return kernels.map(({ name, launches, blocks, ns, unmeasured }) => ({
      name,
      launches: Number(launches),
      blocks: Number(blocks),
      seconds: unmeasured > 0n ? null : Number(ns) / 1e9,
    }));
  }

  why(id: number) {
    return this.#server.why(id);
  }

  setShare(id: number, { request, limit, beyondLimit = false }: ShareChange) {
    const session = this.#server.session(id);
    const asked = request === limit ? `${request}` : `${request}:${limit}`;
    if (!(request >= 0 && request <= 100 && limit > 0 && limit <= 100)) {
      throw new OutboardError('OB_QUOTA', id, asked, 'a GPU has 100 percent');
    }
    if (limit < request) {
      throw new OutboardError('OB_QUOTA', id, asked, 'the limit is below the request');
    }
    const { state } = this.#server;
    const others = (state.gpus[session.placement.gpu]?.sessions ?? [])
      .filter((other) => other.id !== id)
      .reduce((sum, other) => sum + other.shareRequest, 0);
    if (others + request > 100) {
      const left = `the other sessions of its GPU are promised ${others} percent already`;
      throw new OutboardError('OB_QUOTA', id, asked, left);
    }
    const over = this.#beyond(session, request, state);
    // Who has too much already may have less, and the same.
    if (over && !beyondLimit && request > session.share.request) throw over;
    session.beyondLimit = over !== null;
    this.#server.setShare(session, { request, limit });
  }

  /** Why its tenant may not be promised this for it; null: it may. */
  #beyond(session: Session, request: number, state: ServerState): OutboardError | null {
    const { tenants } = this.#server.options;
    const tenant = tenants?.named(session.visitor.request.tenant);
    const most = tenant?.limits.share ?? null;
    if (!tenant || most === null) return null;
    const others = usageOf(tenant.name, state).share - session.share.request;
    return others + request > most
      ? new OutboardError('OB_QUOTA_TENANT', session.id, request, tenant.name, most, others)
      : null;
  }

  move(id: number, wish: { gpu?: number | undefined; within?: boolean | undefined }) {
    return this.#server.running.mover.move(this.#server.session(id), wish);
  }

  drainGpu(gpu: number, moved: boolean) {
    this.#requireGpu(gpu);
    this.#server.drainGpu(gpu, moved);
  }

  resumeGpu(gpu: number) {
    this.#requireGpu(gpu);
    this.#server.resumeGpu(gpu);
  }

  gpuDrain(gpu: number): GpuDrainView {
    this.#requireGpu(gpu);
    const { pool, sessions, running, migrator } = this.#server;
    const draining = pool.devices[gpu]?.draining ?? null;
    const there = [...sessions.values()].filter(({ placement }) => placement.gpu === gpu);
    const staying = there.flatMap((session) => {
      if (draining !== 'moves' || session.moving !== null) return [];
      const why = running.mover.whyStays(session) ?? migrator.whyFailed(session);
      return why === null ? [] : [{ session: session.id, why }];
    });
    return { gpu, draining, sessions: there.length, staying };
  }

  /** Throws OB_NO_GPU. */
  #requireGpu(gpu: number) {
    const { count } = this.#server.pool;
    if (gpu >= count) throw new OutboardError('OB_NO_GPU', gpu, count - 1);
  }

  drain() {
    this.#server.drain();
  }

  resume() {
    this.#server.resume();
  }

  logs(lines: number) {
    return this.#recent.last(lines);
  }

  followLogs(listener: Parameters<Operations['followLogs']>[0]) {
    return this.#recent.follow(listener);
  }
}

function slotState({ state }: Slot, free: boolean): SlotState {
  if (state === 'leaving') return 'starting';
  return state === 'free' && !free ? 'reserved' : state;
}

function slotView(slot: Slot, free: boolean, contextMemory: bigint): SlotView {
  const { memory, idleCpu } = slot.usage();
  return {
    gpu: slot.gpu,
    index: slot.index,
    state: slotState(slot, free),
    pid: slot.pid ?? null,
    startSeconds: slot.startSeconds,
    hostMemory: memory,
    idleCpu,
    served: slot.served,
    contextMemory: Number(contextMemory),
  };
}

function tenantView(tenant: Tenant, state: ServerState): TenantView {
  const { name, class: priority, moves, limits, expires } = tenant;
  const { sessions, memory, share } = usageOf(name, state);
  const queued = state.queue.filter(({ request }) => request.tenant === name).length;
  return {
    name,
    priority,
    limits: {
      sessions: limits.sessions,
      memory: limits.memory === null ? null : Number(limits.memory),
      share: limits.share,
      gpus: gpusOf(tenant, state.gpus),
    },
    moves,
    expires: expires === null ? null : new Date(expires).toISOString(),
    sessions: sessions - queued,
    queued,
    memory: Number(memory),
    share,
  };
}
