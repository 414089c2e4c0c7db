// What one session could have of a GPU now, for a tenant that asks without wanting a session. A pure function,
// which says the same as a session would find out.
import type { DeviceRoom } from '../../../api-server/src/control.js';
import type { PlacementParameters } from '../../policies/placement.js';
import type { GpuState } from '../../policies/state.js';

/** What bounds the session, in bytes. */
export interface RoomWanted {
  /** 0: the usual amount, but no more than usualMost. */
  asked: bigint;
  usualMost?: bigint | undefined;
  /** What its tenant's limit leaves; null: there is no limit. */
  left: bigint | null;
  /** What its tenant's limit leaves of GPU time, in percent; null: there is no limit. */
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
