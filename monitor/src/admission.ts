// Whether a Hello asks for something this server can ever give: a pure function.
import { type Hello, wire } from '../../api-server/src/control.js';
import { OutboardError } from './errors.js';
import type { GpuState, SessionRequest } from './state.js';

/** Throws the OutboardError that the guest is refused with. */
export function admit(hello: Hello, gpus: readonly GpuState[]): SessionRequest {
  if (hello.devices > 1) throw new OutboardError('OB_TOO_MANY_GPUS', hello.devices);
  checkShare(hello);
  const { shareRequest } = hello;
  const shareLimit = hello.shareLimit || 100;
  const memory = hello.memory === 0n ? null : roundUp(hello.memory);
  const most = gpus.reduce((most, gpu) => (gpu.memory > most ? gpu.memory : most), 0n);
  if (memory !== null && memory > most) {
    throw new OutboardError('OB_TOO_MUCH_MEMORY', hello.memory, most);
  }
  return {
    tenant: '',
    name: hello.name || hello.program,
    class: hello.sessionClass === 'best-effort' ? 'best-effort' : 'latency-strict',
    gpus: 1,
    memory,
    shareRequest,
    shareLimit,
    allowed: null,
  };
}

function checkShare({ shareRequest, shareLimit }: Hello) {
  const asked = `${shareRequest}:${shareLimit}`;
  if (shareRequest > 100 || shareLimit > 100) {
    throw new OutboardError('OB_SHARE', asked, 'there are 100 percent');
  }
  if (shareLimit !== 0 && shareLimit < shareRequest) {
    throw new OutboardError('OB_SHARE', asked, 'the limit is below the request');
  }
}

function roundUp(bytes: bigint): bigint {
  return ((bytes + wire.granule - 1n) / wire.granule) * wire.granule;
}
