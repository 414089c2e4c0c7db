// Real clients, unpatched, natively on the software device: CuPy and Numba compare what it computes
// with NumPy (../*.py). `npm test` installs them into build/clients.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { glob } from '../../../scripts/setup/glob.mjs';
import { build, root, softwareDevice } from '../../support/paths.js';
import { type Outcome, outcome } from '../../support/program.js';

const python = path.join(build, 'clients', 'bin', 'python');
const skip = existsSync(path.join(build, 'clients', 'outboard-packages.txt'))
  ? false
  : 'CuPy and Numba are not installed';

const [nvrtc = ''] = glob(
  `${build}/clients/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13`,
);
const folder = path.dirname(softwareDevice);

interface Script {
  name: string;
  checks: number;
  env: Record<string, string>;
}

const cupy = {
  // NVRTC gives PTX then, and not machine code.
  CUPY_COMPILE_WITH_PTX: '1',
  CUPY_CACHE_DIR: path.join(build, 'clients', 'cupy-cache'),
};

const scripts: Script[] = [
  { name: 'cupy_arrays.py', checks: 11, env: cupy },
  {
    name: 'cupy_libraries.py',
    checks: 8,
    // cuBLAS takes machine code for every GPU that it knows, and PTX for one that is newer.
    env: { ...cupy, SOFTWARE_DEVICE_COMPUTE_CAPABILITY: '13.0' },
  },
  {
    name: 'cupy_machine_code.py',
    checks: 3,
    env: {
      CUPY_CACHE_IN_MEMORY: '1',
      LD_PRELOAD: path.join(folder, 'keep-ptx', 'libnvrtc.so.13'),
      SOFTWARE_DEVICE_NVRTC: nvrtc,
    },
  },
  {
    name: 'numba_kernels.py',
    checks: 10,
    env: { LD_PRELOAD: path.join(folder, 'keep-ptx', 'libnvJitLink.so.13') },
  },
];

function run({ name, env }: Script): Promise<Outcome> {
  const child = spawn(python, [path.join(root, 'test', 'clients', name)], {
    env: {
      ...process.env,
      LD_LIBRARY_PATH: folder,
      PYTHONNOUSERSITE: '1',
      // Not beside the scripts.
      PYTHONPYCACHEPREFIX: path.join(build, 'clients', 'pycache'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return outcome(child);
}

for (const script of scripts) {
  const { name, checks } = script;
  t.test(name, { skip }, async (t) => {
    const { code, signal, stdout, stderr } = await run(script);
    const lines = stdout.trim().split('\n');
    for (const line of lines) t.match(line, /^ok /);
    t.equal(lines.length, checks, 'all checks were made');
    t.equal(signal ?? code, 0, stderr);
  });
}
