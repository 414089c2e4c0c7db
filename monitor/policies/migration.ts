// What a migration policy is: a pure function that is called once in each of its periods and says
// which sessions go to which other GPU now. What it wants to remember is handed back to it as
// `memory`. It never looks at a clock, draws or waits; equal choices go to the lowest number.
//
// It only proposes: whoever carries a move out may fail, and then the session is where it was.
import type { GpuState, SessionState } from './state.js';

export interface MigrationSession
  extends Pick<SessionState, 'id' | 'memory' | 'used' | 'shareRequest'> {
  /** The GPUs its tenant may use, by index; null: all. */
  allowed: readonly number[] | null;
  /** What keeps it from being moved (docs/moving.md); empty: nothing that is known. */
  hindrances: readonly string[];
  /** How often it has been moved already. */
  moves: number;
  /** Whether it has launched a kernel in the last period. */
  launched: boolean;
}

export interface MigrationGpu
  extends Pick<GpuState, 'index' | 'name' | 'healthy' | 'memory' | 'reserved' | 'free'> {
  /** Percent of the last period in which work was on it. */
  busy: number;
  /** Whether an operator has it emptied: nothing goes there, and its sessions are to leave. */
  leaving: boolean;
  sessions: readonly MigrationSession[];
}

export interface MigrationState {
  /** Milliseconds since some moment: only differences mean something. */
  now: number;
  gpus: readonly MigrationGpu[];
}

export interface Move {
  session: number;
  /** Index of the GPU that it goes to. */
  to: number;
}

export interface MigrationPolicy<Memory> {
  /** As the configuration would name it. */
  name: string;
  /** One line. */
  summary: string;
  /** What it is good for and what it costs, in whole sentences, for `outboard policies NAME`. Those of index.ts have it. */
  about?: string;
  periodMs: number;
  /** What it remembers before its first period. */
  begin(): Memory;
  step(state: MigrationState, memory: Memory): { moves: readonly Move[]; memory: Memory };
}

/**
 * Why a session cannot go to a GPU now, in words for an operator; null: it can. `from` is the GPU that it is on. Guests
 * answer attributes of the device by themselves, so the other one has to be of the same model.
 */
export function whyNot(
  session: MigrationSession,
  from: MigrationGpu,
  to: MigrationGpu,
): string | null {
  const { allowed, hindrances, memory, shareRequest } = session;
  if (hindrances.length > 0) return `the session is hindered: ${hindrances.join(', ')}`;
  if (to.index === from.index) return 'the session is there already';
  if (!to.healthy) return 'the GPU takes no sessions';
  if (to.leaving) return 'the GPU is being emptied';
  if (to.name !== from.name) return `the GPU is ${to.name}, and the session has seen ${from.name}`;
  if (allowed !== null && !allowed.includes(to.index)) return 'its tenant may not use the GPU';
  if (!to.free.includes(true)) return 'no slot is free there';
  if (memory > to.memory - to.reserved) return 'there is not so much memory left there';
  const promised = to.sessions.reduce((sum, other) => sum + other.shareRequest, 0);
  if (promised + shareRequest > 100) return 'its time is promised to others there';
  return null;
}

/** Where a session goes if nobody says where: to the fewest sessions, then to the most memory; null: nowhere. */
export function bestTarget(
  session: MigrationSession,
  from: MigrationGpu,
  gpus: readonly MigrationGpu[],
): MigrationGpu | null {
  const left = ({ memory, reserved }: MigrationGpu) => memory - reserved;
  const better = (one: MigrationGpu, other: MigrationGpu) =>
    one.sessions.length - other.sessions.length ||
    (left(one) === left(other) ? 0 : left(one) > left(other) ? -1 : 1) ||
    one.index - other.index;
  const fitting = gpus.filter((gpu) => whyNot(session, from, gpu) === null);
  return fitting.sort(better)[0] ?? null;
}

/** The sessions of a GPU by what a move of them costs: the least memory in use first. */
export function cheapestFirst({ sessions }: MigrationGpu): MigrationSession[] {
  return [...sessions].sort((one, other) =>
    one.used === other.used ? one.id - other.id : one.used < other.used ? -1 : 1,
  );
}
