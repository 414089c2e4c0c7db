// A server with work: GPUs, sessions, a queue, tenants and a log, as plain data. Nothing in it is
// random, so that two pictures of it are the same picture.
import type { HistoryView } from '../../../src/api/schemas.js';
import type { QueueView, SessionView, TenantView } from '../../../src/base/view.js';
import { gpu, type MemoryOperations, session, waiting } from '../../support/operations.js';

const GiB = 2 ** 30;
const names = ['resnet-infer', 'bert-embed', 'kmeans', 'whisper', 'thumbnail', 'train-lora'];
const tenants = ['acme', 'globex', 'initech'];

interface Size {
  gpus?: number;
  /** On each GPU. */
  sessions?: number;
  queued?: number;
}

export function fill(operations: MemoryOperations, { gpus = 2, sessions = 3, queued = 4 }: Size) {
  const running = Array.from({ length: gpus * sessions }, (_, index) =>
    sceneSession(index, index % gpus, Math.floor(index / gpus), sessions),
  );
  operations.sessions = running;
  operations.gpus = Array.from({ length: gpus }, (_, index) => {
    const own = running.filter((one) => one.gpu === index);
    const sum = (of: (one: SessionView) => number) =>
      own.reduce((total, one) => total + of(one), 0);
    return gpu(index, {
      uuid: uuid(index),
      name: 'NVIDIA H200',
      memory: {
        total: 141 * GiB,
        sessions: 136 * GiB,
        reserved: sum(({ memory }) => memory.limit),
        usual: 68 * GiB,
        used: sum(({ memory }) => memory.used),
        overhead: 5 * GiB,
        beside: { pinned: GiB / 4, modules: GiB / 2, stacks: GiB },
      },
      share: {
        requested: sum(({ share }) => share.request),
        busy: Math.min(
          100,
          sum(({ share }) => share.received ?? 0),
        ),
      },
      slots: Array.from({ length: sessions + 1 }, (_, slot) => ({
        gpu: index,
        index: slot,
        state: slot < sessions ? 'busy' : index === 0 ? 'free' : 'starting',
        pid: 2000 + 100 * index + slot,
        startSeconds: slot === sessions && index > 0 ? null : 0.31 + slot / 100,
        hostMemory: 118e6 + slot * 1e6,
        idleCpu: slot < sessions ? null : 0.0004,
        served: 17 + slot,
        contextMemory: 412 * 2 ** 20,
      })),
    });
  });
  operations.queue = Array.from({ length: queued }, (_, index) => sceneWaiting(index));
  operations.tenants = tenants.map((name) => sceneTenant(name, running, operations.queue));
}

function uuid(index: number): string {
  return `GPU-7f3a91c${index}-52d0-4e8b-9c1f-0a6be45d21${String(index).padStart(2, '0')}`;
}

function sceneSession(index: number, gpuIndex: number, slot: number, perGpu: number): SessionView {
  const name = names[index % names.length] ?? '';
  const request = Math.floor(90 / perGpu);
  const received = request * (0.4 + ((index * 37) % 80) / 100);
  const limit = Math.floor((130 / perGpu) * (0.6 + ((index * 13) % 5) / 10)) * GiB;
  return session(101 + index, {
    tenant: tenants[index % tenants.length] ?? '',
    name,
    program: index % 2 === 0 ? 'python3' : `/usr/bin/${name}`,
    class: index % 3 === 0 ? 'latency-strict' : 'best-effort',
    peer: `10.4.0.${10 + index}:5${100 + index}`,
    host: `worker-${10 + index}`,
    pid: 4000 + index,
    gpu: gpuIndex,
    group: { session: 101 + index, ordinal: 0, gpus: [gpuIndex] },
    uuid: uuid(gpuIndex),
    slot,
    slotPid: 2000 + 100 * gpuIndex + slot,
    state: 'running',
    seconds: 12.5 + index * 97,
    memory: {
      limit,
      used: limit * (0.3 + ((index * 29) % 60) / 100),
      peak: limit * 0.95,
    },
    share: {
      request,
      limit: Math.min(100, request * 2),
      received,
      owed: request,
      deviceNs: 4e9 * (index + 1),
      gateWaits: index * 211,
      gateSeconds: index * 0.7,
      held: index % 5 === 3,
      beyondLimit: false,
    },
  });
}

export function sceneWaiting(index: number): QueueView {
  return {
    ...waiting(1000 + index, index + 1),
    name: names[(index * 5) % names.length] ?? '',
    tenant: tenants[index % tenants.length] ?? '',
    memory: index % 3 === 0 ? null : (8 + (index % 4) * 8) * GiB,
    shareRequest: index % 2 === 0 ? 20 : 0,
    waitedSeconds: Math.max(0.2, 64.4 - index * 9.7),
  };
}

function sceneTenant(name: string, sessions: SessionView[], queue: QueueView[]): TenantView {
  const own = sessions.filter(({ tenant }) => tenant === name);
  return {
    name,
    priority: name === 'acme' ? 'latency-strict' : 'best-effort',
    limits: {
      sessions: name === 'initech' ? null : 32,
      memory: name === 'globex' ? 160 * GiB : null,
      share: name === 'acme' ? 200 : null,
      gpus: name === 'globex' ? [0, 1] : null,
    },
    moves: true,
    expires: name === 'initech' ? '2027-03-31T00:00:00.000Z' : null,
    sessions: own.length,
    queued: queue.filter(({ tenant }) => tenant === name).length,
    memory: own.reduce((sum, { memory }) => sum + memory.limit, 0),
    share: own.reduce((sum, { share }) => sum + share.request, 0),
  };
}

/** The five minutes before `now` (milliseconds), in which what is now came and went in waves. */
export function fiveMinutes({ gpus, sessions }: MemoryOperations, now: number): HistoryView {
  const seconds = 300;
  const steps = Array.from({ length: seconds }, (_, index) => index);
  /** Near `level`, between nothing and twice of it. */
  const wave = (level: number, step: number, phase: number) =>
    level * (1 + 0.45 * Math.sin(step / 17 + phase) + 0.25 * Math.sin(step / 5 + 2 * phase));
  return {
    times: steps.map((step) => now - (seconds - step) * 1000),
    gpus: gpus.map(({ index, uuid, memory, share }) => ({
      index,
      uuid,
      reserved: steps.map((step) => memory.reserved * Math.min(1, 0.4 + Math.ceil(step / 60) / 5)),
      used: steps.map((step) => {
        const most = memory.reserved * Math.min(1, 0.4 + Math.ceil(step / 60) / 5);
        return Math.min(most, wave(memory.used * 0.8, step, index));
      }),
      requested: steps.map(() => share.requested),
      busy: steps.map((step) => Math.min(100, wave(share.busy ?? 0, step, index + 1))),
    })),
    sessions: sessions.map(({ id, memory, share }) => ({
      id,
      from: 0,
      used: steps.map(() => memory.used),
      received: steps.map((step) => Math.min(share.limit, wave(share.received ?? 0, step, id))),
      owed: steps.map(() => share.owed),
    })),
  };
}

export function writeLog(operations: MemoryOperations, now: number) {
  const line = (ago: number, level: string, msg: string, fields: object = {}) =>
    operations.log({ time: now - ago * 1000, level, msg, ...fields });
  line(95, 'info', 'listening', { address: '0.0.0.0:4460', gpus: 2 });
  line(90, 'info', 'session begins', { session: 101, tenant: 'acme', gpu: 0, slot: 0 });
  line(71, 'debug', 'placed', { session: 102, policy: 'worst-fit', gpu: 1 });
  line(70, 'info', 'session begins', { session: 102, tenant: 'globex', gpu: 1, slot: 0 });
  line(44, 'warn', 'refused', {
    code: 'OB_TOO_MUCH_MEMORY',
    remedy: 'Ask for less with OUTBOARD_MEMORY, or use a server with larger GPUs.',
  });
  line(12, 'error', 'an API server process ended', { slotPid: 2101, signal: 'SIGSEGV' });
  line(11, 'info', 'slot ready', { gpu: 1, slot: 1, startSeconds: 0.31 });
}
