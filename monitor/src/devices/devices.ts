// Which driver library is served, and which of its devices.
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { OfferedDevice } from '../../../api-server/src/native.js';
import type { Probed } from '../../../api-server/src/probe.js';
import { OutboardError } from '../base/errors.js';

const probeMain = fileURLToPath(new URL('../../../api-server/src/probe.js', import.meta.url));

export interface Driver {
  kind: 'nvidia' | 'software' | 'library';
  /** Path or name for dlopen. */
  library: string;
  /** The path where the loader has found it; null: not known. */
  file: string | null;
  /** Why `auto` does not serve NVIDIA's; null: it does, or was not asked. */
  instead: string | null;
  gpus: number;
  /** The devices that are served, as the driver describes them. */
  offered: OfferedDevice[];
  /** The environment of processes that load the library. */
  env: NodeJS.ProcessEnv;
  /** For dlopen: the NVML that goes with the driver; null: there is none. */
  nvml: string | null;
}

/** `choice` is auto, software, nvidia, or the path of a driver library. `gpus` null: all. */
export async function chooseDriver(
  choice: string,
  gpus: number | null,
  build: string,
): Promise<Driver> {
  const executor = path.join(build, 'api-server', 'executor.node');
  if (!existsSync(executor)) throw new OutboardError('OB_NOT_BUILT', executor);
  const env = cleanEnvironment(process.env, build);
  switch (choice) {
    case 'software':
      return software(gpus, build, env);
    case 'nvidia':
      return counted('nvidia', 'libcuda.so.1', gpus, build, env);
    case 'auto': {
      const probed = await probe('libcuda.so.1', build, env);
      if ('devices' in probed && probed.devices.length > 0) {
        return counted('nvidia', 'libcuda.so.1', gpus, build, env);
      }
      const instead = 'devices' in probed ? 'libcuda.so.1 has no device' : probed.message;
      return { ...(await software(gpus, build, env)), instead };
    }
    default: {
      const library = path.resolve(choice);
      if (!existsSync(library)) throw new OutboardError('OB_NOT_BUILT', library);
      return counted('library', library, gpus, build, env);
    }
  }
}

async function software(gpus: number | null, build: string, env: NodeJS.ProcessEnv) {
  const library = path.join(build, 'software-device', 'libcuda.so.1');
  if (!existsSync(library)) throw new OutboardError('OB_NOT_BUILT', library);
  const wanted = gpus ?? 1;
  const many = { ...env, SOFTWARE_DEVICE_GPUS: String(wanted) };
  return counted('software', library, wanted, build, many);
}

async function counted(
  kind: Driver['kind'],
  library: string,
  gpus: number | null,
  build: string,
  env: NodeJS.ProcessEnv,
): Promise<Driver> {
  const probed = await probe(library, build, env);
  if (!('devices' in probed)) {
    const { code, message } = probed;
    throw (
      OutboardError.relayed(code, message) ??
      new OutboardError('OB_DRIVER_LIBRARY', library, message)
    );
  }
  const { devices, file } = probed;
  if (devices.length === 0)
    throw new OutboardError('OB_DRIVER_LIBRARY', library, 'it has no device');
  if (gpus !== null && gpus > devices.length) {
    throw new OutboardError('OB_DEVICE_COUNT', gpus, library, devices.length);
  }
  const count = gpus ?? devices.length;
  const nvml = kind === 'nvidia' ? 'libnvidia-ml.so.1' : null;
  const offered = devices.slice(0, count);
  return { kind, library, file, instead: null, gpus: count, offered, env, nvml };
}

/**
 * The environment without our own libraries. A server that was started from `outboard run`, or with the guest
 * library preloaded, would otherwise find the guest library where it looks for NVIDIA's.
 */
export function cleanEnvironment(env: NodeJS.ProcessEnv, build: string): NodeJS.ProcessEnv {
  const ours = ['guest-lib', 'software-device'].map((part) => path.join(build, part));
  const isOurs = (entry: string) => ours.some((folder) => path.resolve(entry).startsWith(folder));
  const clean: NodeJS.ProcessEnv = { ...env };
  for (const [name, separator] of [
    ['LD_LIBRARY_PATH', ':'],
    ['LD_PRELOAD', /[ :]/],
  ] as const) {
    const entries = clean[name]?.split(separator).filter((entry) => entry && !isOurs(entry));
    if (entries?.length) clean[name] = entries.join(':');
    else delete clean[name];
  }
  return clean;
}

/** The UUID as NVIDIA's tools write it. */
export function formatUuid(bytes: Iterable<number>): string {
  const hex = Buffer.from([...bytes]).toString('hex');
  return `GPU-${hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}`;
}

/** Asks in a process of its own what devices a library has. */
function probe(library: string, build: string, env: NodeJS.ProcessEnv): Promise<Probed> {
  return new Promise((resolve) => {
    let answer: Probed | undefined;
    const child = fork(probeMain, [build, library], {
      env,
      execArgv: [],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    child.once('message', (message) => {
      answer = message as Probed;
    });
    child.once('error', ({ message }) => resolve({ code: null, message }));
    child.once('exit', (code, signal) => {
      const how = signal ? `was killed by ${signal}` : `ended with ${code}`;
      resolve(answer ?? { code: null, message: `a process that loaded it ${how}` });
    });
  });
}
