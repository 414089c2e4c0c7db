// Which devices of a machine are served whose GPUs, or some of them, are in MIG mode, and what processes must see
// to have each. A process of CUDA sees one instance and nothing else, or GPUs that are not in MIG mode: so an
// instance has processes of its own, and all other GPUs are seen by all processes that have none, for they may be
// peers. A pure function.
import type { MachineGpu } from '../../../api-server/src/native.js';
import { OutboardError } from '../base/errors.js';

export interface Sights {
  /** Values of CUDA_VISIBLE_DEVICES, each for the processes of the devices that it names. */
  visible: string[];
  /** Why GPUs are left out. */
  left: OutboardError[];
  /** GPUs that may be served, before `most` of them were taken. */
  gpus: number;
}

interface Chosen {
  gpu: MachineGpu;
  /** Those of its instances that are served. */
  instances: readonly string[];
}

/**
 * `wanted`: what CUDA_VISIBLE_DEVICES says of the server itself; absent: all. It may name instances, and a GPU in MIG
 * mode stands for all that it has; numbers are NVML's. `most` GPUs are taken, with their instances; null: all.
 */
export function sightsOf(
  machine: readonly MachineGpu[],
  wanted: string | undefined,
  most: number | null,
): Sights {
  const all = wanted === undefined ? machine.map(whole) : named(machine, wanted);
  const taken = all.slice(0, most ?? all.length);
  const empty = taken.filter(({ gpu }) => gpu.mig && gpu.instances.length === 0);
  const gpus = taken.filter(({ gpu }) => !gpu.mig).map(({ gpu }) => gpu.uuid);
  const instances = taken.flatMap((one) => one.instances);
  return {
    visible: [...(gpus.length > 0 ? [gpus.join(',')] : []), ...instances],
    left: empty.map(({ gpu }) => new OutboardError('OB_MIG_EMPTY', gpu.uuid)),
    gpus: all.length,
  };
}

const whole = (gpu: MachineGpu): Chosen => ({ gpu, instances: gpu.instances });

/** As CUDA reads it, the list ends at what names nothing; but an instance that does not exist is an error. */
function named(machine: readonly MachineGpu[], wanted: string): Chosen[] {
  const chosen = new Map<MachineGpu, Chosen>();
  for (const entry of wanted.split(',').map((text) => text.trim())) {
    const one = entry.startsWith('MIG-') ? instance(machine, entry) : gpuNamed(machine, entry);
    if (!one) break;
    const before = chosen.get(one.gpu)?.instances ?? [];
    chosen.set(one.gpu, { ...one, instances: [...new Set([...before, ...one.instances])] });
  }
  return [...chosen.values()];
}

function instance(machine: readonly MachineGpu[], uuid: string): Chosen {
  const gpu = machine.find(({ instances }) => instances.includes(uuid));
  if (gpu) return { gpu, instances: [uuid] };
  const there = machine.flatMap(({ instances }) => instances).join(', ');
  throw new OutboardError('OB_MIG_UNKNOWN', uuid, there || 'none');
}

function gpuNamed(machine: readonly MachineGpu[], entry: string): Chosen | undefined {
  if (/^\d+$/.test(entry)) {
    const gpu = machine[Number(entry)];
    return gpu && whole(gpu);
  }
  const [first, ...more] = machine.filter(({ uuid }) => uuid.startsWith(entry));
  return entry.startsWith('GPU-') && first && more.length === 0 ? whole(first) : undefined;
}
