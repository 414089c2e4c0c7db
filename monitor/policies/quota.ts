// What a quota policy is: a pure function that is called once in each of its periods, for one GPU,
// and says up to which count of quota tokens each session may start work. What it wants to remember is
// handed back to it as `memory`.
//
// Counts are cumulative and never go down: a session may start work while `charged` (what it has
// used since it began, work in flight included) is below its limit. A kernel longer than what was
// left is a debt, which the policy sees as charged > limit.
import type { SessionClass } from './state.js';

/**
 * device-time: nanoseconds of the device's time, measured. blocks: thread blocks launched.
 * host-time: nanoseconds of wall time during which the session was launching (HAS-GPU's own way).
 * none: nothing is counted for the gate, which stays open.
 */
export type QuotaUnit = 'none' | 'device-time' | 'blocks' | 'host-time';

/** What policies may need to know of a GPU, and are told of its server. */
export interface QuotaParameters {
  /** Blocks that the GPU runs in 5 ms when it is full, measured. For policies that count blocks. */
  maxBlocks: number;
  /** Milliseconds: what a limit is a part of. For policies that count time. */
  windowMs: number;
}

export const usualQuotaParameters: QuotaParameters = { maxBlocks: 10_000_000, windowMs: 40 };

/** Two periods of the slowest policy that counts time, and what nobody waits for patiently. */
export const windowBounds = { least: 10, most: 10_000 } as const;

export interface QuotaSession {
  id: number;
  /** Whose it is; absent or empty: nobody's in particular. */
  tenant?: string;
  class: SessionClass;
  /** Percent of the GPU promised; 0: none. */
  shareRequest: number;
  /** Percent never exceeded. */
  shareLimit: number;
  /** Percent of the SMs that its kernels run on; absent: all. */
  sm?: number;
  /** Quota tokens used since the session began. */
  charged: bigint;
  /** What that was when the policy first had to do with it; absent: what it is now. */
  began?: bigint;
  /** Whether work of it is held back now, or waits on the device. */
  wants: boolean;
  /** Whether work of it that may start waits for another session's to end. Absent: it does not. */
  queued?: boolean;
}

export interface QuotaInput<Memory> {
  /** Nanoseconds since some moment: only differences mean something. */
  now: bigint;
  sessions: readonly QuotaSession[];
  /** Those that have ended since the last step, as they were then. */
  ended?: readonly QuotaSession[];
  memory: Memory;
}

export interface QuotaOutput<Memory> {
  /** By session: charged may reach this; null: no limit. */
  limits: ReadonlyMap<number, bigint | null>;
  memory: Memory;
}

export interface QuotaPolicy<Memory> {
  /** As the configuration names it. */
  name: string;
  /** One line, for `outboard policies`. */
  summary: string;
  /** What it is good for and what it costs, in whole sentences, for `outboard policies NAME`. Those of index.ts have it. */
  about?: string;
  unit: QuotaUnit;
  periodMs: number;
  start(): Memory;
  step(input: QuotaInput<Memory>): QuotaOutput<Memory>;
}
