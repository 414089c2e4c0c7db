// What admission and the policies decide on: plain data, so that they are functions of it and
// nothing else, and a simulator can make it up. Bytes are bigint; percent are of one GPU's time.

/** A latency-strict session comes before a best-effort one where a policy knows the difference. */
export type SessionClass = 'latency-strict' | 'best-effort';

export interface SessionRequest {
  tenant: string;
  /** Of the function or program: sessions of one name are one function's. */
  name: string;
  class: SessionClass;
  /** How many GPUs, all different; what follows is wanted of each. */
  gpus: number;
  /** Bytes; null: the usual. */
  memory: bigint | null;
  /** What its tenant's sessions may have altogether; null or absent: there is no limit. */
  tenantMemory?: bigint | null;
  /** The same, of sessions. */
  tenantSessions?: number | null;
  /** To so much the usual is cut, because its tenant's limit leaves no more; absent: it is not. */
  usualMost?: bigint;
  /** Percent of a GPU's time promised; 0: none. */
  shareRequest: number;
  /** Percent never exceeded; 100: whatever is left over. */
  shareLimit: number;
  /** The GPUs its tenant may use, by index; null: all. */
  allowed: readonly number[] | null;
}

export interface SessionState {
  id: number;
  /** Number of the first session of its program, which has one on each of its GPUs. */
  group: number;
  tenant: string;
  name: string;
  class: SessionClass;
  slot: number;
  /** Bytes reserved, which is its limit. */
  memory: bigint;
  /** Bytes of them mapped now. */
  used: bigint;
  shareRequest: number;
  shareLimit: number;
  /** Seconds, on the clock of ServerState.now. */
  started: number;
}

export interface GpuState {
  index: number;
  /** As NVIDIA writes it: GPU-xxxxxxxx-xxxx-..., MIG-... of an instance. */
  uuid: string;
  name: string;
  /** False: nothing is placed here. */
  healthy: boolean;
  /** Bytes that sessions may have, all together. */
  memory: bigint;
  /** Of them, promised to sessions. */
  reserved: bigint;
  /** Bytes that a session gets now that does not say how much it wants. */
  usual: bigint;
  /** By slot: whether a warm API server process waits there for anybody. */
  free: readonly boolean[];
  /** Those included whose guest has not connected for them yet. */
  sessions: readonly SessionState[];
  /** Sums of their shares, where somebody keeps them; absent: they are added up when they are needed. */
  promised?: ShareSums;
}

/** In thousandths of a percent, whole numbers: sums of them are exact. */
export interface ShareSums {
  readonly requests: number;
  readonly limits: number;
}

export interface QueuedState {
  id: number;
  request: SessionRequest;
  /** Seconds, on the clock of ServerState.now. */
  arrived: number;
}

/** A session that ended lately, newest last. */
export interface EndedState {
  tenant: string;
  name: string;
  gpu: number;
  memory: bigint;
  /** The most it had mapped at once. */
  peak: bigint;
  waited: number;
  seconds: number;
}

export interface ServerState {
  /** Seconds. Policies have no clock of their own. */
  now: number;
  gpus: readonly GpuState[];
  /** Head first. */
  queue: readonly QueuedState[];
  history: readonly EndedState[];
}

export interface Placement {
  gpu: number;
  slot: number;
  /** Bytes to reserve. */
  memory: bigint;
}
