// One slot's place in the pool: which process is there, and which tenant may have it.
import type { Slot } from './slot.js';

/** Has one process at a time: when that has ended, the next one. */
export interface Place {
  slot: Slot;
  /** Slot.addresses of its next process; its GPU's number, but for a session that moves here. */
  addresses: number;
  /** Bytes of device memory promised to the session that has the place; 0: no session has it. */
  reserved: bigint;
  /** Processes in a row that could not open the device. */
  failures: number;
  problem: string;
  /** Whether the problem is one of its GPU alone, without which the others are served. */
  bearable: boolean;
  pause: NodeJS.Timeout | undefined;
  /** Its process ends, and no other one follows. */
  retired: boolean;
  /** The tenant for which, or because of whose sessions, a new process is being started; null: none is. */
  comingFor: string | null;
}

export function isOf({ slot }: Place, tenant: string): boolean {
  return slot.tenant === tenant;
}

export function isFor({ tenant }: Slot, wanted: string): boolean {
  return tenant === null || tenant === wanted;
}

export function isFree({ slot, reserved, retired }: Place): boolean {
  return slot.state === 'free' && reserved === 0n && !retired;
}

/**
 * Whether a new process comes because of `tenant`, or of anybody where that is absent. It is so, too,
 * where the session is over and its process has not ended yet.
 */
export function isComing({ slot, reserved, comingFor }: Place, tenant?: string): boolean {
  const reason = comingFor ?? (slot.state === 'busy' ? slot.tenant : null);
  return reserved === 0n && reason !== null && reason === (tenant ?? reason);
}
