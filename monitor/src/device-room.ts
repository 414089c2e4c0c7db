// What one session could be given of a GPU at once, for a tenant that asks before it comes. A pure
// function: trying would tell the same.
import type { DeviceRoom } from '../../api-server/src/control.js';
import type { PlacementParameters } from '../policies/placement.js';
import type { GpuState } from './state.js';

/** `asked`: bytes; 0: the usual. */
export function deviceRoom(
  gpu: GpuState,
  { omega }: PlacementParameters,
  asked: bigint,
): DeviceRoom {
  const slots = gpu.healthy ? gpu.free.filter(Boolean).length : 0;
  const session = asked || gpu.usual;
  if (slots === 0) return { memory: 0n, share: 0, slots, session };
  const promised = gpu.sessions.reduce((sum, { shareRequest }) => sum + shareRequest, 0);
  const memory = gpu.memory - gpu.reserved;
  return {
    memory: memory > 0n ? memory : 0n,
    share: Math.max(0, Math.min(100, Math.round(omega * 100) - promised)),
    slots,
    session,
  };
}
