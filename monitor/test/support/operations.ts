// A server as the HTTP API sees one, in memory: two GPUs of two slots, made of plain data that tests
// change as they like.
import { OutboardError } from '../../src/base/errors.js';
import type {
  GpuDrainView,
  GpuView,
  KernelView,
  LogLine,
  Operations,
  QueueView,
  SensorsView,
  SessionView,
  ShareChange,
  TenantView,
  View,
  WhyView,
} from '../../src/base/view.js';

const GiB = 2 ** 30;

export function gpu(index: number, more: Partial<GpuView> = {}): GpuView {
  const slot = (slot: number) => ({
    gpu: index,
    index: slot,
    state: slot === 0 ? ('busy' as const) : ('free' as const),
    pid: 1000 + 10 * index + slot,
    startSeconds: 0.25,
    hostMemory: 100e6,
    idleCpu: slot === 0 ? null : 0.001,
    served: 3,
    contextMemory: null,
  });
  return {
    index,
    uuid: `GPU-00000000-0000-0000-0000-00000000000${index}`,
    name: 'Software Device',
    pciBusId: `0000:0${index}:00.0`,
    healthy: true,
    problem: null,
    draining: null,
    memory: {
      ...{ total: 8 * GiB, sessions: 7 * GiB, reserved: 2 * GiB, used: GiB, overhead: GiB },
      usual: GiB,
      beside: { pinned: GiB / 4, modules: GiB / 8, stacks: GiB / 8 },
    },
    share: { requested: 30, busy: 55 },
    slots: [slot(0), slot(1)],
    ...more,
  };
}

export function session(id: number, more: Partial<SessionView> = {}): SessionView {
  return {
    id,
    group: { session: id, ordinal: 0, gpus: [0] },
    tenant: 'acme',
    name: 'resize',
    program: 'python3',
    class: 'latency-strict',
    peer: '192.0.2.7:40000',
    host: 'worker-7',
    pid: 4242,
    gpu: 0,
    uuid: 'GPU-00000000-0000-0000-0000-000000000000',
    slot: 0,
    slotPid: 1000,
    state: 'running',
    started: '2026-01-02T03:04:05.000Z',
    away: null,
    moving: null,
    moves: 0,
    seconds: 12.5,
    waitedSeconds: 0.25,
    memory: { limit: 2 * GiB, used: GiB, peak: 1.5 * GiB },
    share: {
      request: 30,
      limit: 60,
      received: 28.5,
      owed: 30,
      deviceNs: 4e9,
      gateWaits: 7,
      gateSeconds: 0.5,
      held: false,
      beyondLimit: false,
    },
    hindrances: [],
    counters: {
      commands: 1000,
      roundTrips: 10,
      bytesIn: 5000,
      bytesOut: 6000,
      launches: 400,
      faults: 0,
      violations: 0,
    },
    ...more,
  };
}

export function waiting(id: number, position: number): QueueView {
  return {
    id,
    position,
    tenant: 'acme',
    name: 'train',
    program: 'train',
    class: 'best-effort',
    peer: '192.0.2.8:40001',
    gpus: 1,
    memory: null,
    shareRequest: 0,
    shareLimit: 100,
    waitedSeconds: 3.5,
  };
}

export function tenant(name: string): TenantView {
  return {
    name,
    priority: 'best-effort',
    limits: { sessions: 4, memory: 4 * GiB, share: 100, gpus: [0] },
    moves: true,
    expires: null,
    sessions: 1,
    queued: 1,
    memory: 2 * GiB,
    share: 30,
  };
}

const isOf =
  (tenant: string) =>
  ({ name }: { name: string }) =>
    name === tenant;

export class MemoryOperations implements Operations {
  gpus: GpuView[] = [gpu(0), gpu(1)];
  sessions: SessionView[] = [session(1)];
  /** Those that do not stay on a GPU that is emptied. */
  readonly leaves = new Set<number>();
  queue: QueueView[] = [waiting(2, 1)];
  tenants: TenantView[] = [tenant('acme')];
  draining = false;
  listen = ['127.0.0.1:4460'];
  traits: string | null = null;
  readonly killed: [number, string][] = [];
  readonly lines: LogLine[] = [];
  readonly #listeners = new Set<(line: LogLine) => void>();
  /** Until then a session that is to move does. */
  moved: Promise<void> = Promise.resolve();

  view(): View {
    return {
      server: {
        version: '0.1.0',
        pid: 99,
        host: 'gpu-1',
        started: '2026-01-02T03:00:00.000Z',
        now: new Date().toISOString(),
        listen: this.listen,
        device: 'software',
        traits: this.traits,
        placement: 'worst-fit',
        admission: 'none',
        queuePolicy: 'first-come',
        migration: 'none',
        quota: 'none',
        sessionMemory: 'auto',
        draining: this.draining,
        tenants: true,
      },
      gpus: this.gpus,
      sessions: this.sessions,
      queue: this.queue,
      tenants: this.tenants,
    };
  }

  kill(id: number, why: string) {
    const all = [...this.sessions, ...this.queue];
    if (!all.some((one) => one.id === id)) throw new OutboardError('OB_NO_SESSION', id);
    this.killed.push([id, why]);
    this.sessions = this.sessions.filter((session) => session.id !== id);
    this.queue = this.queue.filter((one) => one.id !== id);
  }

  async sensors(): Promise<SensorsView[]> {
    return this.gpus.map(({ index, uuid }) => ({
      gpu: index,
      uuid,
      computeCapability: '9.0',
      driver: '580.65.06',
      // The second GPU is on a machine that says nothing of it.
      temperature: index === 0 ? 45 : null,
      power: index === 0 ? 123_456 : null,
      powerLimit: index === 0 ? 700_000 : null,
      fanSpeed: null,
    }));
  }

  async kernels(id: number): Promise<KernelView[]> {
    const found = this.sessions.some((session) => session.id === id);
    if (!found) throw new OutboardError('OB_NO_SESSION', id);
    return [{ name: '_Z4stepPf', launches: 400, blocks: 51_200, seconds: 1.25 }];
  }

  why(id: number): WhyView {
    const found = this.sessions.find((session) => session.id === id);
    if (!found) throw new OutboardError('OB_NO_DECISIONS', id);
    const time = '2026-01-02T03:04:05.678Z';
    const one = { time, last: time, times: 1 };
    return {
      ...{ session: id, tenant: found.tenant, name: found.name, state: 'running' },
      now: ['it is on GPU 0, with a share of 30:60'],
      decisions: [
        { ...one, kind: 'admission', text: 'everybody may come in\u001b[2J' },
        { ...one, kind: 'queue', text: 'it waits', times: 3, last: '2026-01-02T03:04:09.000Z' },
      ],
      leftOut: 0,
    };
  }

  setShare(id: number, { request, limit, beyondLimit = false }: ShareChange) {
    const found = this.sessions.find((session) => session.id === id);
    if (!found) throw new OutboardError('OB_NO_SESSION', id);
    if (limit < request) {
      const why = 'the limit is below the request';
      throw new OutboardError('OB_QUOTA', id, `${request}:${limit}`, why);
    }
    const { name = '', share = 0, limits } = this.tenants.find(isOf(found.tenant)) ?? {};
    const others = share - found.share.request;
    const most = limits?.share ?? Number.POSITIVE_INFINITY;
    const over = others + request > most;
    if (over && !beyondLimit) {
      throw new OutboardError('OB_QUOTA_TENANT', id, request, name, most, others);
    }
    found.share = { ...found.share, request, limit, beyondLimit: over };
  }

  async move(id: number, { gpu = 1 }: { gpu?: number | undefined }) {
    const found = this.sessions.find((session) => session.id === id);
    if (!found) throw new OutboardError('OB_NO_SESSION', id);
    if (gpu === found.gpu) throw new OutboardError('OB_MOVE', id, `it is on GPU ${gpu} already`);
    const from = { gpu: found.gpu, slot: found.slot };
    await this.moved;
    found.moving = null;
    found.gpu = gpu;
    return { session: id, from, to: { gpu, slot: 0 }, seconds: 0.5, stoppedSeconds: 0.012 };
  }

  drainGpu(gpu: number, moved: boolean) {
    const found = this.#gpu(gpu);
    found.draining = moved ? 'moves' : 'waits';
  }

  resumeGpu(gpu: number) {
    this.#gpu(gpu).draining = null;
  }

  gpuDrain(gpu: number): GpuDrainView {
    const { draining } = this.#gpu(gpu);
    const there = this.sessions.filter((one) => one.gpu === gpu);
    const why = 'it has arrays\u001b[2J';
    const stays = there.filter(({ id }) => draining === 'moves' && !this.leaves.has(id));
    const staying = stays.map(({ id }) => ({ session: id, why }));
    return { gpu, draining, sessions: there.length, staying };
  }

  #gpu(gpu: number): GpuView {
    const found = this.gpus[gpu];
    if (!found) throw new OutboardError('OB_NO_GPU', gpu, this.gpus.length - 1);
    return found;
  }

  drain() {
    this.draining = true;
  }

  resume() {
    this.draining = false;
  }

  logs(lines: number): LogLine[] {
    return this.lines.slice(-lines);
  }

  followLogs(listener: (line: LogLine) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get followers(): number {
    return this.#listeners.size;
  }

  log(line: LogLine) {
    this.lines.push(line);
    for (const listener of this.#listeners) listener(line);
  }
}
