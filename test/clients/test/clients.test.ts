// Real clients, unpatched, natively on the software device: CuPy and Numba compare what it computes
// with NumPy (../*.py). `npm test` installs them into build/clients.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, root, softwareDevice } from '../../support/paths.js';
import { type Outcome, outcome } from '../../support/program.js';

const python = path.join(build, 'clients', 'bin', 'python');
const skip = existsSync(path.join(build, 'clients', 'outboard-packages.txt'))
  ? false
  : 'CuPy and Numba are not installed';

function run(script: string, env: Record<string, string> = {}): Promise<Outcome> {
  const child = spawn(python, [path.join(root, 'test', 'clients', script)], {
    env: {
      ...process.env,
      LD_LIBRARY_PATH: path.dirname(softwareDevice),
      PYTHONNOUSERSITE: '1',
      // NVRTC gives PTX then, and not machine code.
      CUPY_COMPILE_WITH_PTX: '1',
      CUPY_CACHE_DIR: path.join(build, 'clients', 'cupy-cache'),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return outcome(child);
}

const scripts: { name: string; checks: number; env?: Record<string, string> }[] = [
  { name: 'cupy_arrays.py', checks: 11 },
  // cuBLAS takes machine code for every GPU that it knows, and PTX for one that is newer.
  { name: 'cupy_libraries.py', checks: 8, env: { SOFTWARE_DEVICE_COMPUTE_CAPABILITY: '13.0' } },
];

for (const { name, checks, env } of scripts) {
  t.test(name, { skip }, async (t) => {
    const { code, signal, stdout, stderr } = await run(name, env);
    const lines = stdout.trim().split('\n');
    for (const line of lines) t.match(line, /^ok /);
    t.equal(lines.length, checks, 'all checks were made');
    t.equal(signal ?? code, 0, stderr);
  });
}
