// The scripts of this folder as real clients run them: what each needs, natively and remoted.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { glob } from '../../scripts/setup/glob.mjs';
import { deviceUnderTest, onDevice } from '../support/device.js';
import { build, guestLibrary, root, softwareDevice } from '../support/paths.js';
import { type CountedOutcome, counted, native, type Outcome, remoted } from '../support/program.js';
import { startServer, type TestServer } from '../support/server.js';
import type { StepCosts } from './costs.js';

const device = deviceUnderTest();

/** A virtual environment with packages from PyPI (scripts/setup/clients.mjs). */
export interface Installed {
  folder: string;
  /** A reason to skip what needs it, or false. */
  skip: string | false;
}

export interface Script {
  name: string;
  /** What it is called with, if it is run in several ways. */
  way?: string;
  installed: Installed;
  env: Record<string, string>;
  /** Folders that it needs in LD_LIBRARY_PATH, behind ours. */
  libraries?: string[];
  /** What the device claims to be, if not its default. */
  computeCapability?: string;
  /** Traits of NVIDIA's driver that it has then. */
  traits?: string;
  /** As SOFTWARE_DEVICE_MEMORY has it. */
  memory?: string;
  /** It tells what its steps cost, which is recorded (costs.ts): the file of test/costs. */
  countsSteps?: string;
  /** How many devices it uses, if several: remoted, each on a server of its own. */
  devices?: number;
  /** How many processes use the device at a time, if several. */
  sessions?: number;
  /** Only remoted, and why. */
  notNatively?: string;
  /** A folder of cuBLAS that its server serves, and whose calls travel whole; natively it is the program's own. */
  served?: string;
  /** That one is another release than its own, and may round otherwise: of what is computed only the checks must be the same. */
  anotherRelease?: true;
  /** What the page says of it. */
  note?: string;
}

function installedIn(name: string, what: string): Installed {
  const folder = path.join(build, name);
  const there = existsSync(path.join(folder, 'outboard-packages.txt'));
  return { folder, skip: there ? false : `${what} not installed` };
}

export const clients = installedIn('clients', 'CuPy and Numba are');
const onnx = installedIn('onnx', 'ONNX Runtime is');
const torch = installedIn('torch', 'PyTorch is');
const tinygrad = installedIn('tinygrad', 'tinygrad is');

const [nvrtc = ''] = glob(
  `${clients.folder}/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13`,
);
const keepPtx = path.join(path.dirname(softwareDevice), 'keep-ptx');
const cupy = {
  // NVRTC gives PTX then, and not machine code.
  CUPY_COMPILE_WITH_PTX: '1',
  CUPY_CACHE_DIR: path.join(clients.folder, 'cupy-cache'),
};

export const cupyAndNumba: Script[] = [
  { name: 'cupy_arrays', installed: clients, env: cupy },
  {
    name: 'cupy_devices',
    installed: clients,
    env: cupy,
    devices: 2,
    note: 'two devices, remoted on two servers',
  },
  {
    name: 'cupy_libraries',
    installed: clients,
    env: cupy,
    // cuBLAS takes machine code for every GPU that it knows, and PTX for one that is newer.
    computeCapability: '13.0',
  },
  {
    name: 'cupy_machine_code',
    installed: clients,
    env: {
      CUPY_CACHE_IN_MEMORY: '1',
      LD_PRELOAD: path.join(keepPtx, 'libnvrtc.so.13'),
      SOFTWARE_DEVICE_NVRTC: nvrtc,
    },
  },
  {
    name: 'numba_kernels',
    installed: clients,
    env: { LD_PRELOAD: path.join(keepPtx, 'libnvJitLink.so.13') },
  },
];

export const small: Script[] = [
  {
    name: 'tinygrad_training',
    installed: tinygrad,
    env: { DEV: 'CUDA:PTX', CACHELEVEL: '0' },
    note: 'with its own PTX renderer (`DEV=CUDA:PTX`)',
  },
];

const solver = installedIn('solver', 'cuSOLVER is');
const ofClients = glob(`${clients.folder}/lib/python3*/site-packages/nvidia/cu13/lib`);
const solving = {
  name: 'cupy_solver',
  installed: clients,
  env: cupy,
  libraries: [...glob(`${solver.folder}/lib/python3*/site-packages/nvidia/cu13/lib`), ...ofClients],
  computeCapability: '13.0',
};
const served = {
  way: 'cuBLAS of the server',
  served: ofClients[0] ?? '',
  note: 'remoted with `--libraries=remote`',
};

/** Through cuBLAS and what calls it, with the program's own and with that of the server. */
export const libraries: Script[] = [
  solving,
  { ...solving, ...served },
  { name: 'cupy_libraries', installed: clients, env: cupy, computeCapability: '13.0', ...served },
];

/** PyTorch warns of a device that is newer than it is. */
const quiet = { PYTHONWARNINGS: 'ignore' };
const MEMORY = 768;
const onnxRuntime = {
  installed: onnx,
  env: {},
  libraries: ['cu13', 'cudnn'].flatMap((name) =>
    glob(`${onnx.folder}/lib/python3*/site-packages/nvidia/${name}/lib`),
  ),
  computeCapability: '13.0',
};
const answering = { name: 'onnx_answers', ...onnxRuntime };
const bertLarge = {
  name: 'onnx_bert_large',
  installed: onnx,
  env: {},
  libraries: onnxRuntime.libraries,
  traits: 'nvidia-like,empty-cubins',
  memory: '8G',
  countsSteps: 'onnx.json',
  note: 'machine code that does nothing: see below',
};
const layers = { name: 'torch_layers', installed: torch, env: quiet, computeCapability: '13.0' };

export const frameworks: Script[] = [
  { name: 'onnx_models', ...onnxRuntime },
  answering,
  { ...answering, ...served },
  bertLarge,
  { ...bertLarge, ...served, countsSteps: 'onnx-served.json' },
  { name: 'torch_memory', installed: torch, env: quiet },
  {
    name: 'torch_memory',
    way: 'expandable segments',
    installed: torch,
    env: { ...quiet, PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True' },
    notNatively:
      'PyTorch asks NVML for them and crashes where there is none; beside the guest library there is one',
  },
  {
    name: 'torch_memory',
    way: `a session of ${MEMORY} MiB`,
    installed: torch,
    env: { ...quiet, OUTBOARD_MEMORY: `${MEMORY}M`, EXPECTED_MEMORY: String(MEMORY << 20) },
    notNatively: 'it is about a session',
  },
  { name: 'torch_libraries', installed: torch, env: quiet, computeCapability: '13.0' },
  layers,
  { ...layers, ...served, anotherRelease: true },
  { name: 'torch_processes', installed: torch, env: quiet, sessions: 2 },
  {
    name: 'torch_host_side',
    installed: torch,
    env: {
      ...quiet,
      TORCHINDUCTOR_CACHE_DIR: path.join(torch.folder, 'inductor-cache'),
      TRITON_CACHE_DIR: path.join(torch.folder, 'triton-cache'),
    },
    traits: 'nvidia-like,empty-cubins',
    memory: '12G',
    countsSteps: 'torch.json',
    // The process that compiles for torch.compile asks for the number of devices.
    sessions: 2,
    note: 'machine code that does nothing, on an H100 with driver 580: see below',
  },
];

/** What makes libraries keep PTX, which is all that the software device takes. */
const onlyForPtx = ['CUPY_COMPILE_WITH_PTX', 'LD_PRELOAD', 'SOFTWARE_DEVICE_NVRTC'];

function prepared(script: Script, library: string) {
  const { name, installed, libraries = [] } = script;
  const env = Object.fromEntries(
    Object.entries(script.env).filter(([one]) => device.software || !onlyForPtx.includes(one)),
  );
  // The loader finds NVIDIA's by its name.
  const folders = path.isAbsolute(library) ? [path.dirname(library)] : [];
  return {
    args: [path.join(root, 'test', 'clients', `${name}.py`)],
    env: {
      LD_LIBRARY_PATH: [...folders, ...libraries].join(':'),
      PYTHONNOUSERSITE: '1',
      // Not beside the scripts.
      PYTHONPYCACHEPREFIX: path.join(installed.folder, 'pycache'),
      ...env,
    },
  };
}

function python({ installed }: Script): string {
  return path.join(installed.folder, 'bin', 'python');
}

export function deviceSettings({
  computeCapability,
  traits,
  memory,
}: Script): Record<string, string> {
  return {
    ...(computeCapability && { SOFTWARE_DEVICE_COMPUTE_CAPABILITY: computeCapability }),
    ...(traits && device.software && { SOFTWARE_DEVICE_TRAITS: traits }),
    ...(memory && { SOFTWARE_DEVICE_MEMORY: memory }),
  };
}

function deviceCount(name: string, { devices }: Script): Record<string, string> {
  return devices ? { [name]: String(devices) } : {};
}

export function runNatively(script: Script): Promise<Outcome> {
  const { args, env } = prepared(script, device.library);
  const settings = { ...deviceSettings(script), ...deviceCount('SOFTWARE_DEVICE_GPUS', script) };
  return native(python(script), { args, env: { ...env, ...settings } });
}

export function runRemoted(
  script: Script,
  server: Pick<Servers, 'address'>,
  more: Record<string, string> = {},
): Promise<Outcome> {
  const { args, env } = prepared(script, guestLibrary);
  const bound = script.served ? binding : {};
  const settings = { ...env, ...more, ...bound, ...deviceCount('OUTBOARD_GPUS', script) };
  return remoted(python(script), server.address, { args, env: settings });
}

/** Has a program the server's cuBLAS in place of its own. */
const binding = { LD_AUDIT: path.join(build, 'libraries', 'outboard-binding.so') };

/** What it costs with cuBLAS of its own, and with that of the server: each on a server that nobody has used. */
export async function costsOfLibraries(
  script: Script,
): Promise<Record<'own' | 'served', CountedOutcome>> {
  const { args, env } = prepared(script, guestLibrary);
  const measure = async (bound: Record<string, string>) => {
    const server = await startServerFor(script);
    try {
      const settings = { ...env, ...bound };
      return await counted(python(script), server.address, { args, env: settings });
    } finally {
      await server.stop();
    }
  };
  return { own: await measure({}), served: await measure(binding) };
}

/** As above, with what its steps cost; null where it did not come to its end. */
export async function runCounted(
  script: Script,
  server: Servers,
): Promise<[Outcome, StepCosts | null]> {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-steps-'));
  try {
    const costs = path.join(folder, 'costs.json');
    const counting = { OUTBOARD_STATS: path.join(folder, 'stats'), STEP_COSTS: costs };
    const outcome = await runRemoted(script, server, counting);
    return [outcome, existsSync(costs) ? JSON.parse(readFileSync(costs, 'utf8')) : null];
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Servers with a device each, by the addresses of all. */
export type Servers = Pick<TestServer, 'address' | 'stop' | 'log'>;

/** As many as the script has devices, which are what it needs. */
export async function startServerFor(script: Script): Promise<Servers> {
  const slots = String(script.sessions ?? 1);
  // CuPy has a handle for each type that it solves in, and one for itself.
  const libraries = script.served ? ['--libraries', script.served, '--module-memory', '1G'] : [];
  const args = [...onDevice, '--gpus', '1', '--servers-per-gpu', slots, ...libraries];
  const servers = await Promise.all(
    Array.from({ length: script.devices ?? 1 }, () =>
      startServer({ args, env: deviceSettings(script) }),
    ),
  );
  return {
    address: servers.map(({ address }) => address).join(','),
    log: () => servers.map((server) => server.log()).join(''),
    async stop() {
      const codes = await Promise.all(servers.map((server) => server.stop()));
      return codes.find((code) => code !== 0) ?? 0;
    },
  };
}
