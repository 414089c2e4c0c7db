// One slot's place in the pool, and for whom its process is.
import type { Slot } from './slot.js';

/** Where a process is, and after it the next one. */
export interface Place {
  slot: Slot;
  /** Bytes; 0: it is nobody's. */
  reserved: bigint;
  /** Processes in a row that could not open the device. */
  failures: number;
  problem: string;
  pause: NodeJS.Timeout | undefined;
  /** It ends, and nobody takes its place. */
  retired: boolean;
  /** A process that has served nobody is on its way, because of what this tenant wants or did. */
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

/** Also where the process has not ended yet whose session is over. Absent: whoever is the reason. */
export function isComing({ slot, reserved, comingFor }: Place, tenant?: string): boolean {
  const reason = comingFor ?? (slot.state === 'busy' ? slot.tenant : null);
  return reserved === 0n && reason !== null && reason === (tenant ?? reason);
}
