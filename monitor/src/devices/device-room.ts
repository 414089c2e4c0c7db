// What one session could be given of a GPU at once, for a tenant that asks before it comes. A pure
// function: trying would tell the same.
import type { DeviceRoom } from '../../../api-server/src/control.js';
import type { PlacementParameters } from '../../policies/placement.js';
import type { GpuState } from '../../policies/state.js';

/** Of one session, in bytes. */
export interface RoomWanted {
  /** 0: the usual, cut to usualMost. */
  asked: bigint;
  usualMost?: bigint | undefined;
  /** Of its tenant's limit; null: there is none. */
  left: bigint | null;
  /** The same of the share, in percent. */
  shareLeft: number | null;
}

export function deviceRoom(
  gpu: GpuState,
  { omega }: PlacementParameters,
  { asked, usualMost, left, shareLeft }: RoomWanted,
): DeviceRoom {
  const slots = gpu.healthy ? gpu.free.filter(Boolean).length : 0;
  const session = asked || smaller(gpu.usual, usualMost ?? null);
  if (slots === 0) return { memory: 0n, share: 0, slots, session };
  const promised = gpu.sessions.reduce((sum, { shareRequest }) => sum + shareRequest, 0);
  const memory = smaller(gpu.memory - gpu.reserved, left);
  return {
    memory: memory > 0n ? memory : 0n,
    share: Math.max(0, Math.min(100, Math.round(omega * 100) - promised, shareLeft ?? 100)),
    slots,
    session,
  };
}

function smaller(one: bigint, other: bigint | null): bigint {
  return other !== null && other < one ? other : one;
}
