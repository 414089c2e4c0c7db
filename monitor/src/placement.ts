// Which slot gets the session at the head of the queue: a pure function. The GPU with the most
// unreserved memory that fits, so that sessions spread; of equal ones the first.
import type { GpuState, Placement, SessionRequest } from './state.js';

export function place(gpus: readonly GpuState[], request: SessionRequest): Placement | null {
  let best: Placement | null = null;
  let most = -1n;
  for (const gpu of gpus) {
    const slot = gpu.free.indexOf(true);
    const memory = request.memory ?? gpu.usual;
    const available = gpu.memory - gpu.reserved;
    if (slot < 0 || memory > available || available <= most) continue;
    best = { gpu: gpu.index, slot, memory };
    most = available;
  }
  return best;
}
