// What devices a driver library has, asked in a process of its own: a library that is not what
// its name says may take the process with it, and the monitor needs no driver in its own.
//
//   node probe.js BUILD-FOLDER LIBRARY [NVML]
//
// Answers over IPC with a Probed. Where NVML says that GPUs are in MIG mode, the driver is not asked: what
// it shows depends on CUDA_VISIBLE_DEVICES then.
import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { loadNative, type MachineGpu, type OfferedDevice } from './native.js';

/** `file`: where the loader has found the library; null: not known. */
export type Probed =
  | { devices: OfferedDevice[]; file: string | null }
  | { machine: MachineGpu[] }
  | { code: string | null; message: string };

const [build = '', library = '', nvml] = process.argv.slice(2);
process.send?.(probe(), () => process.exit(0));

function probe(): Probed {
  try {
    const native = loadNative(build);
    const machine = nvml === undefined ? null : native.machineGpus(nvml);
    if (machine?.some(({ mig }) => mig)) return { machine };
    return { devices: native.offeredDevices(library), file: fileOf(library) };
  } catch (error) {
    const { code, message } = error as Error & { code?: unknown };
    return { code: typeof code === 'string' ? code : null, message };
  }
}

/** A library without a folder was looked for by the loader, as NVIDIA's is. Null: it cannot be told. */
function fileOf(library: string): string | null {
  try {
    return findFile(library);
  } catch {
    return null;
  }
}

function findFile(library: string): string | null {
  if (library.includes('/')) return realpathSync(library);
  const [name = ''] = library.split('.so');
  const maps = readFileSync('/proc/self/maps', 'utf8');
  const files = maps.split('\n').map((line) => line.slice(line.indexOf('/')));
  return files.find((file) => path.basename(file).startsWith(`${name}.so`)) ?? null;
}
