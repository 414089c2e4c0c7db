// The server as an operator sees it: plain data that goes through JSON as it is. The HTTP API, the
// live WebSocket, the commands and the web page show this and nothing else. Bytes and seconds are
// numbers; moments are ISO 8601.
import type { SessionClass } from '../../policies/state.js';

/** reserved: it waits, warm, for the next connection of a program with several GPUs. */
export type SlotState = 'starting' | 'free' | 'reserved' | 'busy' | 'ended';

export interface SlotView {
  gpu: number;
  index: number;
  state: SlotState;
  pid: number | null;
  /** From the start of the process until its context was warm. */
  startSeconds: number | null;
  /** Resident memory of the process; null: not known yet. */
  hostMemory: number | null;
  /** Processor time it used since it is warm and free, per second of that; null: not known yet. */
  idleCpu: number | null;
  /** Sessions it has served. */
  served: number;
  /** Device memory its context takes while no session runs; null: not known. */
  contextMemory: number | null;
}

export interface GpuView {
  index: number;
  uuid: string;
  name: string;
  pciBusId: string;
  healthy: boolean;
  /** Why not healthy. */
  problem: string | null;
  /** It is being emptied: its sessions are moved, or waited for; null: it is not. */
  draining: 'moves' | 'waits' | null;
  memory: {
    /** Of the device. */
    total: number;
    /** What sessions may have, all together. */
    sessions: number;
    reserved: number;
    /** What a session gets here now that does not say how much it wants. */
    usual: number;
    used: number;
    /** Contexts, and what is kept back for what sessions have beside their memory. */
    overhead: number;
    /** What each session may have beside it: of pinned memory that kernels reach, modules, and stacks of kernels. */
    beside: { pinned: number; modules: number; stacks: number };
  };
  share: {
    /** Sum of what its sessions are promised, in percent. */
    requested: number;
    /** Percent of the last second in which work of sessions was on the device; null: not measured. */
    busy: number | null;
  };
  slots: SlotView[];
}

/** What the driver and the NVML of its machine say of a GPU now; null: nothing. */
export interface SensorsView {
  gpu: number;
  uuid: string;
  /** As 9.0. */
  computeCapability: string | null;
  /** NVIDIA's own number of its driver. */
  driver: string | null;
  /** Degrees Celsius. */
  temperature: number | null;
  /** Milliwatts. */
  power: number | null;
  powerLimit: number | null;
  /** Percent. */
  fanSpeed: number | null;
}

/** A process is started for it; that is offered the session; what the session has goes there. */
export type MovePhase = 'starting' | 'preparing' | 'transferring';

export interface MoveView {
  session: number;
  from: { gpu: number; slot: number };
  to: { gpu: number; slot: number };
  /** From when it was asked for. */
  seconds: number;
  /** For which its commands were not carried out; 0: its old process has not said. */
  stoppedSeconds: number;
}

/** How far a GPU is with being emptied. */
export interface GpuDrainView {
  gpu: number;
  draining: 'moves' | 'waits' | null;
  /** That are there still. */
  sessions: number;
  /** Those of them that stay, until they end or what keeps them does, where they are to be moved. */
  staying: { session: number; why: string }[];
}

export interface SessionView {
  id: number;
  /** A program has a session on each of its GPUs. */
  group: {
    /** Number of the first of them. */
    session: number;
    /** Which of those on this server it is, in the order of the program's devices, from 0. */
    ordinal: number;
    /** The GPUs of all of them, in that order. */
    gpus: number[];
  };
  tenant: string;
  name: string;
  program: string;
  class: SessionClass;
  peer: string;
  host: string;
  /** In the guest's own numbering. */
  pid: number;
  gpu: number;
  uuid: string;
  slot: number;
  slotPid: number | null;
  state: 'starting' | 'running' | 'moving' | 'ending';
  /** Its guest's connection was cut: since when, and until when the session is kept for it; null: the guest is there. */
  away: { since: string; until: string } | null;
  /** What is being done to move it to another process; null: it is not being moved. */
  moving: MovePhase | null;
  /** How often it has moved. */
  moves: number;
  started: string;
  seconds: number;
  waitedSeconds: number;
  memory: { limit: number; used: number; peak: number };
  share: {
    request: number;
    limit: number;
    /** Percent of the last second; null, here and in the next two: its work is not measured. */
    received: number | null;
    /** Percent of the last second it had a right to. */
    owed: number | null;
    /** Nanoseconds of device time since it began. */
    deviceNs: number | null;
    /** How often work was held back, and for how long altogether. */
    gateWaits: number;
    gateSeconds: number;
    /** Whether work is held back now. */
    held: boolean;
    /** Whether an operator has promised it more than its tenant's limit had left. */
    beyondLimit: boolean;
  };
  /** What keeps it from going on on another GPU, by the names of docs/moving.md. */
  hindrances: string[];
  /** The executor's counters (api-server/src/native.ts). */
  counters: Record<string, number>;
}

export interface QueueView {
  id: number;
  position: number;
  tenant: string;
  name: string;
  program: string;
  class: SessionClass;
  peer: string;
  /** How many, each with the memory and share that follow. */
  gpus: number;
  memory: number | null;
  shareRequest: number;
  shareLimit: number;
  waitedSeconds: number;
}

export interface TenantView {
  name: string;
  priority: SessionClass;
  /** Limits; null: none. */
  limits: {
    sessions: number | null;
    memory: number | null;
    share: number | null;
    gpus: number[] | null;
  };
  /** Whether its sessions may be moved. */
  moves: boolean;
  expires: string | null;
  /** What its sessions take now. */
  sessions: number;
  queued: number;
  memory: number;
  share: number;
}

export interface ServerView {
  version: string;
  pid: number;
  host: string;
  started: string;
  now: string;
  /** Where guests connect. */
  listen: string[];
  device: string;
  /** Of the software device, what it does as NVIDIA's driver does; null: nothing. */
  traits: string | null;
  placement: string;
  queuePolicy: string;
  /** The policy that says who may join whom on a GPU. */
  admission: string;
  /** Which moves sessions while they run; none: none does. */
  migration: string;
  quota: string;
  /** The rule for sessions that do not say how much memory they want: auto, 25%, 4 GiB. */
  sessionMemory: string;
  /** No new sessions are taken. */
  draining: boolean;
  /** Whether a tenants file is in force. */
  tenants: boolean;
}

export interface View {
  server: ServerView;
  gpus: GpuView[];
  sessions: SessionView[];
  queue: QueueView[];
  tenants: TenantView[];
}

/** What launches of one kernel have cost a session. */
export interface KernelView {
  /** As the module has it, mangled. */
  name: string;
  launches: number;
  blocks: number;
  /** Of the GPU's time; null: not all launches were measured. */
  seconds: number | null;
}

/** One decision about a session. */
export interface DecisionView {
  /** When it was made first, and when the same was decided again last, with nothing else between. */
  time: string;
  last: string;
  times: number;
  /** policy: one has failed at a decision, and the usual one decided instead. */
  kind: 'admission' | 'queue' | 'placement' | 'policy' | 'quota' | 'end';
  /** With its reasons. */
  text: string;
}

/** Why a session waits, or is where it is. */
export interface WhyView {
  session: number;
  tenant: string;
  name: string;
  state: 'waiting' | 'running' | 'ended';
  /** Why it is so at this moment. */
  now: string[];
  /** Oldest first. */
  decisions: DecisionView[];
  /** How many are missing in the middle of them, as there were too many. */
  leftOut: number;
}

/** Percent of a GPU. */
export interface ShareChange {
  request: number;
  limit: number;
  /** Whether its tenant's sessions may come to be promised more than the tenant's limit. */
  beyondLimit?: boolean;
}

/** What an operator may do. All throw an OutboardError that says why not. */
export interface Operations {
  view(): View;
  /** Ends a session, or takes one that waits out of the queue; both are told `why`. */
  kill(session: number, why: string): void;
  /** Of each GPU; asks its machine's NVML, where there is one. */
  sensors(): Promise<SensorsView[]>;
  /** The dearest kernels of a session that runs, dearest first, at most 100. */
  kernels(session: number): Promise<KernelView[]>;
  /** What was decided about a session that waits, runs or has ended lately, and why. */
  why(session: number): WhyView;
  setShare(session: number, share: ShareChange): void;
  /** Resolves once it is there; throws OB_MOVE where it stays. */
  move(
    session: number,
    wish: { gpu?: number | undefined; within?: boolean | undefined },
  ): Promise<MoveView>;
  /** The GPU gets nobody new, and its sessions leave it if they are `moved`. Undone by `resumeGpu`. */
  drainGpu(gpu: number, moved: boolean): void;
  resumeGpu(gpu: number): void;
  /** How far that is. */
  gpuDrain(gpu: number): GpuDrainView;
  /** From now on nobody new is taken; who waits is refused. Undone by `resume`. */
  drain(): void;
  resume(): void;
  /** The newest lines of the log, oldest first. */
  logs(lines: number): LogLine[];
  /** Calls `listener` with each line to come, until what it returns is called. */
  followLogs(listener: (line: LogLine) => void): () => void;
}

export interface LogLine {
  /** Milliseconds since 1970. */
  time: number;
  level: string;
  msg: string;
  [field: string]: unknown;
}

/** What happens, for metrics and traces. Called in the moment; must not throw. */
export interface Observer {
  refused(code: string, tenant: string | null): void;
  /**
   * `attachSeconds`: from the arrival of the Hello until the API server has the connection.
   * `traceparent`: of the guest's environment (W3C Trace Context), or empty.
   */
  began(
    session: SessionView,
    attachSeconds: number,
    waitedSeconds: number,
    traceparent: string,
  ): void;
  ended(session: SessionView, reason: string): void;
  slotReady(gpu: number, startSeconds: number): void;
  slotLost(gpu: number): void;
  /** A session was to move: it has, it stays where it was, or it was lost with both processes. */
  moved(how: 'moved' | 'stayed' | 'lost', seconds: number): void;
  /** A policy failed at a decision, which the usual one has made instead. */
  policyFailed(policy: string, why: 'threw' | 'slow'): void;
}

export const noObserver: Observer = {
  refused() {},
  began() {},
  ended() {},
  slotReady() {},
  slotLost() {},
  moved() {},
  policyFailed() {},
};
