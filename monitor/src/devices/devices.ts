// Which driver library is served, and which of its devices.
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { MachineGpu, OfferedDevice } from '../../../api-server/src/native.js';
import type { Probed } from '../../../api-server/src/probe.js';
import { programs } from '../../../bin/paths.mjs';
import { OutboardError } from '../base/errors.js';
import { sightsOf } from './sights.js';

const probeMain = path.join(programs, 'api-server', 'src', 'probe.js');

/** CUcomputemode. */
export const exclusiveProcess = 3;
const prohibited = 2;

/** How many processes open libraries at a time to see what they have. */
const probesAtOnce = 8;

/** A device, and how a process comes to it: by its UUID, among those that it sees. */
export interface ServedDevice extends OfferedDevice {
  /** Its number among them when it was looked for. */
  ordinal: number;
  /** What CUDA_VISIBLE_DEVICES must be for such a process; null: what it is for the server. */
  visible: string | null;
}

export interface Driver {
  kind: 'nvidia' | 'software' | 'library';
  /** Path or name for dlopen. */
  library: string;
  /** The path where the loader has found it; null: not known. */
  file: string | null;
  /** Why `auto` does not serve NVIDIA's; null: it does, or was not asked. */
  instead: string | null;
  gpus: number;
  /** The devices that are served, as the driver describes them: GPUs, and instances of GPUs in MIG mode. */
  offered: ServedDevice[];
  /** Why other devices of the machine are not. */
  left: OutboardError[];
  /** The environment of processes that load the library. */
  env: NodeJS.ProcessEnv;
  /** What the software device does as NVIDIA's driver does: SOFTWARE_DEVICE_TRAITS; null: nothing. */
  traits: string | null;
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
      refuseTraits('libcuda.so.1', env);
      return counted('nvidia', 'libcuda.so.1', gpus, build, env);
    case 'auto': {
      const probed = await probe('libcuda.so.1', build, env, nvmlOf('nvidia', build));
      if ('machine' in probed || ('devices' in probed && probed.devices.length > 0)) {
        refuseTraits('libcuda.so.1', env);
        return counted('nvidia', 'libcuda.so.1', gpus, build, env);
      }
      const instead = 'devices' in probed ? 'libcuda.so.1 has no device' : probed.message;
      // As where only GPUs are served (`npm run package:images`).
      if (!existsSync(softwareDevice(build)))
        throw new OutboardError('OB_DRIVER_LIBRARY', 'libcuda.so.1', instead);
      return { ...(await software(gpus, build, env)), instead };
    }
    default: {
      const library = path.resolve(choice);
      if (!existsSync(library)) throw new OutboardError('OB_NOT_BUILT', library);
      return counted('library', library, gpus, build, env);
    }
  }
}

const softwareDevice = (build: string) => path.join(build, 'software-device', 'libcuda.so.1');

async function software(gpus: number | null, build: string, env: NodeJS.ProcessEnv) {
  const library = softwareDevice(build);
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
  const asked = { library, build, env };
  const probed = await probe(library, build, env, nvmlOf(kind, build));
  const { devices, file, left } =
    'machine' in probed
      ? await inSight(asked, probed.machine, gpus)
      : all(devicesOf(probed, library), gpus, library);
  const [offered, closed] = usable(devices);
  left.push(...closed);
  const [why] = left;
  if (offered.length === 0)
    throw why ?? new OutboardError('OB_DRIVER_LIBRARY', library, 'it has no device');
  const nvml = kind === 'nvidia' ? nvmlOf(kind, build) : null;
  const traits = kind === 'software' ? traitsOf(env) : null;
  const found = { kind, library, file, instead: null, gpus: offered.length };
  return { ...found, offered, left, env, traits, nvml };
}

/** What says which GPUs and instances there are. That of the software device says nothing else. */
function nvmlOf(kind: Driver['kind'], build: string): string | null {
  if (kind === 'nvidia') return 'libnvidia-ml.so.1';
  if (kind === 'library') return null;
  return path.join(build, 'software-device', 'software-device-nvml.so');
}

interface Asked {
  library: string;
  build: string;
  env: NodeJS.ProcessEnv;
}

type Devices = Extract<Probed, { devices: OfferedDevice[] }>;

/** Throws why it has none. */
function devicesOf(probed: Found, library: string): Devices {
  if ('devices' in probed) return probed;
  if (probed.said !== '') throw new OutboardError('OB_SOFTWARE_DEVICE', probed.said);
  const { code, message } =
    'message' in probed ? probed : { code: null, message: 'it was not asked' };
  throw (
    OutboardError.relayed(code, message) ?? new OutboardError('OB_DRIVER_LIBRARY', library, message)
  );
}

/** Where no GPU is in MIG mode: all processes see the same. */
function all({ devices, file }: Devices, gpus: number | null, library: string) {
  if (gpus !== null && gpus > devices.length && devices.length > 0)
    throw new OutboardError('OB_DEVICE_COUNT', gpus, library, devices.length);
  const taken = devices.slice(0, gpus ?? devices.length);
  const left: OutboardError[] = [];
  return { devices: taken.map((one, ordinal) => ({ ...one, ordinal, visible: null })), file, left };
}

/** Where some are: asks a process for each instance, and one for all other GPUs. */
async function inSight(asked: Asked, machine: readonly MachineGpu[], gpus: number | null) {
  const { library, build, env } = asked;
  const sights = sightsOf(machine, env['CUDA_VISIBLE_DEVICES'], gpus);
  if (gpus !== null && gpus > sights.gpus)
    throw new OutboardError('OB_DEVICE_COUNT', gpus, library, sights.gpus);
  const found: Found[] = [];
  for (let i = 0; i < sights.visible.length; i += probesAtOnce) {
    const some = sights.visible.slice(i, i + probesAtOnce);
    const asking = some.map((visible) =>
      probe(library, build, { ...env, CUDA_VISIBLE_DEVICES: visible }, null),
    );
    found.push(...(await Promise.all(asking)));
  }
  let file: string | null = null;
  const devices = found.flatMap((one, i) => {
    try {
      const seen = devicesOf(one, library);
      file ??= seen.file;
      const visible = sights.visible[i] ?? null;
      return seen.devices.map((device, ordinal) => ({ ...device, ordinal, visible }));
    } catch (error) {
      // One that has gone meanwhile is no reason not to serve the others.
      if (!(error instanceof OutboardError)) throw error;
      sights.left.push(error);
      return [];
    }
  });
  return { devices, file, left: sights.left };
}

/** Those that processes may use, and why not the others. */
function usable(devices: ServedDevice[]): [ServedDevice[], OutboardError[]] {
  const closed = devices.filter(({ computeMode }) => computeMode === prohibited);
  return [
    devices.filter((one) => !closed.includes(one)),
    closed.map((one) => new OutboardError('OB_DEVICE_PROHIBITED', uuidOf(one))),
  ];
}

const traitsOf = (env: NodeJS.ProcessEnv) => env['SOFTWARE_DEVICE_TRAITS'] || null;

/** Whoever sets traits means the software device. */
function refuseTraits(library: string, env: NodeJS.ProcessEnv) {
  const traits = traitsOf(env);
  if (traits !== null) throw new OutboardError('OB_DRIVER_TRAITS', traits, library);
}

/**
 * The environment without our own libraries. A server that was started from `outboard run`, or with the guest
 * library preloaded, would otherwise find the guest library where it looks for NVIDIA's.
 */
function cleanEnvironment(env: NodeJS.ProcessEnv, build: string): NodeJS.ProcessEnv {
  const ours = ['guest-lib', 'libraries', 'software-device'].map((part) => path.join(build, part));
  const isOurs = (entry: string) => ours.some((folder) => path.resolve(entry).startsWith(folder));
  const clean: NodeJS.ProcessEnv = { ...env };
  for (const [name, separator] of [
    ['LD_AUDIT', ':'],
    ['LD_LIBRARY_PATH', ':'],
    ['LD_PRELOAD', /[ :]/],
  ] as const) {
    const entries = clean[name]?.split(separator).filter((entry) => entry && !isOurs(entry));
    if (entries?.length) clean[name] = entries.join(':');
    else delete clean[name];
  }
  return clean;
}

/** Its UUID as NVIDIA's tools write it: GPU-..., of an instance MIG-... */
export function uuidOf(device: {
  uuid: Iterable<number>;
  gpuUuid?: Iterable<number> | null;
}): string {
  const hex = Buffer.from([...device.uuid]).toString('hex');
  const kind = device.gpuUuid && Buffer.from([...device.gpuUuid]).length > 0 ? 'MIG' : 'GPU';
  return `${kind}-${hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')}`;
}

/** `said`: the errors that the software device has told of on stderr, if it was that. */
type Found = Probed & { said: string };

/** Asks in a process of its own what devices a library has, or, where GPUs are in MIG mode, NVML what the machine has. */
function probe(
  library: string,
  build: string,
  env: NodeJS.ProcessEnv,
  nvml: string | null,
): Promise<Found> {
  return new Promise((resolve) => {
    let answer: Probed | undefined;
    const child = fork(probeMain, [build, library, ...(nvml === null ? [] : [nvml])], {
      env,
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let stderr = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const found = (probed: Probed) => {
      const lines = stderr.matchAll(/^software-device: error: (.*)$/gm);
      resolve({ ...probed, said: [...lines].map(([, line]) => line).join('; ') });
    };
    child.once('message', (message) => {
      answer = message as Probed;
    });
    child.once('error', ({ message }) => found({ code: null, message }));
    child.once('close', (code, signal) => {
      const how = signal ? `was killed by ${signal}` : `ended with ${code}`;
      found(answer ?? { code: null, message: `a process that loaded it ${how}` });
    });
  });
}
