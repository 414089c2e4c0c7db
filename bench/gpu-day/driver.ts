// The driver of the day: where it lies, whether it can be used, and the environment of programs that use it.
import { statSync } from 'node:fs';
import path from 'node:path';
import { build } from '../../bin/paths.mjs';
import { DayError } from './day-error.js';
import { type Answers, probe } from './probe.js';
import type { Processes } from './processes.js';

/** CUDA 12.4, as cuDriverGetVersion says it. */
const oldest = 12_040;
const oldestText = '550 (CUDA 12.4)';

/** Where container runtimes and distributions put it without telling the loader. */
const places = [
  '/usr/local/nvidia/lib64',
  '/usr/local/nvidia/lib',
  '/usr/lib/wsl/lib',
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/x86_64-linux-gnu/nvidia/current',
  '/usr/lib64',
  '/usr/lib64/nvidia',
  '/usr/lib/nvidia',
  '/run/nvidia/driver/usr/lib/x86_64-linux-gnu',
  '/run/nvidia/driver/usr/lib64',
  '/run/opengl-driver/lib',
  '/opt/nvidia/lib64',
  '/home/kubernetes/bin/nvidia/lib64',
];

const exclusiveProcess = 3;
const prohibited = 2;

export interface DayDriver {
  kind: 'nvidia' | 'software' | 'library';
  /** For dlopen. */
  library: string;
  /** The folder that programs must look in first; null: the loader finds it. */
  folder: string | null;
  /** For `outboard serve`. */
  serve: string;
  /** As cuDriverGetVersion says it. */
  version: number;
  /** What its first device says of itself. */
  facts: Answers;
  /** One process at a time has the device. */
  exclusive: boolean;
  /** Its first device is an instance in MIG mode: CUDA_VISIBLE_DEVICES for that one, natively and served; null: it is a GPU. */
  instance: string | null;
  /** Of the software device. */
  traits: string | null;
}

interface Candidate {
  library: string;
  folder: string | null;
}

/** Some of these places are a user's on machines of another kind. */
function isOfRoot(library: string): boolean {
  return statSync(library, { throwIfNoEntry: false })?.uid === 0;
}

export function candidates(choice: string): Candidate[] {
  const software = path.join(build, 'software-device', 'libcuda.so.1');
  if (choice === 'software') return [{ library: software, folder: path.dirname(software) }];
  if (choice !== 'nvidia') {
    const library = path.resolve(choice);
    return [{ library, folder: path.dirname(library) }];
  }
  const elsewhere = places
    .map((folder) => ({ library: path.join(folder, 'libcuda.so.1'), folder }))
    .filter(({ library }) => isOfRoot(library));
  return [{ library: 'libcuda.so.1', folder: null }, ...elsewhere];
}

export async function findDriver(choice: string, processes: Processes): Promise<DayDriver> {
  const kind = choice === 'nvidia' || choice === 'software' ? choice : 'library';
  let reason = '';
  for (const { library, folder } of candidates(choice)) {
    const environment = { ...cleanEnvironment(kind), ...searching(folder) };
    const facts = await probe(processes, 'facts', library, environment);
    if (facts['what'] === 'library') {
      reason ||= `${facts['error']}`;
      continue;
    }
    mustBeUsable(library, facts);
    const alive = await probe(processes, 'alive', library, environment);
    const version = Number(facts['version']);
    const exclusive = facts['compute mode'] === exclusiveProcess;
    mustBeFree(facts, alive);
    const traits = kind === 'software' ? (process.env['SOFTWARE_DEVICE_TRAITS'] ?? null) : null;
    const serve = kind === 'library' ? library : kind;
    const instance = instanceOf(facts);
    return { kind, library, folder, serve, version, facts, exclusive, instance, traits };
  }
  throw new DayError(
    choice === 'nvidia'
      ? `There is no NVIDIA driver here: ${reason || 'no libcuda.so.1'}.`
      : `${choice} is no driver library: ${reason}.`,
    choice === 'nvidia'
      ? `Run this where a GPU and NVIDIA's driver ${oldestText} or a newer one are (in a container: with --gpus all); ` +
          'name the library with --device PATH if it lies in an unusual place; or see it work without a GPU: ' +
          'SOFTWARE_DEVICE_TRAITS=nvidia-like and --device software.'
      : 'Name a libcuda.so.1, or nvidia, or software.',
  );
}

/** Null: it is a GPU. */
export function instanceOf(facts: Answers): string | null {
  return / MIG \d/.test(`${facts['name']}`) ? `MIG-${facts['UUID']}` : null;
}

/** Throws what is wrong with the driver, by what it says of itself. */
export function mustBeUsable(library: string, facts: Answers) {
  const version = Number(facts['version'] ?? 0);
  const cuda = `CUDA ${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`;
  if (version && version < oldest) {
    throw new DayError(
      `The driver ${library} is of ${cuda}, which is too old.`,
      `Install NVIDIA's driver ${oldestText} or a newer one.`,
    );
  }
  if (facts['error'] === undefined) return;
  const remedy: Record<string, string> = {
    symbols: `Install NVIDIA's driver ${oldestText} or a newer one.`,
    init: 'See `nvidia-smi` and the kernel log: the driver is there, and finds no GPU that it can use.',
    device: 'Give this machine or container a GPU (`--gpus all`), and see CUDA_VISIBLE_DEVICES.',
  };
  throw new DayError(
    `The driver ${library} cannot be used: ${facts['error']}.`,
    remedy[`${facts['what']}`] ?? 'See `nvidia-smi` and the kernel log (dmesg, Xid).',
  );
}

/** Throws why the device does not run a first kernel, where it did not. */
export function mustBeFree(facts: Answers, alive: Answers) {
  if (alive['error'] === undefined) return;
  const mode = facts['compute mode'];
  const taken = alive['error'] === 'CUDA_ERROR_DEVICE_UNAVAILABLE';
  if (mode === prohibited) {
    throw new DayError(
      `${facts['name']} is in compute mode "prohibited": nobody may use it.`,
      'Its administrator can change that (`nvidia-smi -c 0`); this command changes no GPU.',
    );
  }
  if (taken) {
    throw new DayError(
      `${facts['name']} is in exclusive mode and somebody else has it.`,
      'See who in `nvidia-smi`, wait until that process is done, or choose another GPU with CUDA_VISIBLE_DEVICES.',
    );
  }
  throw new DayError(
    `${facts['name']} does not run a first kernel: ${alive['error']}.`,
    'See `nvidia-smi` and the kernel log (dmesg, Xid).',
  );
}

/** Without what would lead programs to our own libraries, or change how they run. */
export function cleanEnvironment(kind: DayDriver['kind']): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { ...process.env };
  for (const name of Object.keys(env)) {
    const ours = name.startsWith('OUTBOARD_') || name === 'LD_PRELOAD';
    if (ours || (kind === 'nvidia' && name.startsWith('SOFTWARE_DEVICE_'))) delete env[name];
  }
  // Where there are several GPUs, programs see the one that is served.
  if (kind === 'nvidia') env['CUDA_VISIBLE_DEVICES'] ??= '0';
  const entries = (env['LD_LIBRARY_PATH'] ?? '').split(':').filter((entry) => {
    return entry !== '' && !path.resolve(entry).startsWith(build);
  });
  if (entries.length > 0) env['LD_LIBRARY_PATH'] = entries.join(':');
  else delete env['LD_LIBRARY_PATH'];
  return env;
}

/** For the loader to look in that folder first. */
export function searching(folder: string | null): NodeJS.ProcessEnv {
  if (folder === null) return {};
  const others = (process.env['LD_LIBRARY_PATH'] ?? '')
    .split(':')
    .filter((entry) => entry !== '' && !path.resolve(entry).startsWith(build));
  return { LD_LIBRARY_PATH: [folder, ...others].join(':') };
}
