// What somebody types on the first day: `outboard serve`, and CuPy or Numba with `outboard run`. No
// setting of either is made here.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import t from 'tap';
import { cli, root } from '../../support/paths.js';
import { startServer, type TestServer } from '../../support/server.js';
import { clients } from '../scripts.js';

const { skip, folder } = clients;
let server: TestServer;
t.before(async () => {
  if (!skip) server = await startServer({ args: ['--device', 'software'] });
});
t.teardown(() => server?.stop());

async function python(...args: string[]) {
  const program = path.join(folder, 'bin', 'python');
  const child = spawn(process.execPath, [cli, 'run', '--', program, ...args], {
    env: {
      ...process.env,
      OUTBOARD_SERVER: server.address,
      PYTHONNOUSERSITE: '1',
      PYTHONPYCACHEPREFIX: path.join(folder, 'pycache'),
      CUPY_CACHE_IN_MEMORY: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

const numba = `
import numpy as np
from numba import cuda

@cuda.jit
def double(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] *= 2

out = np.arange(100.0)
double[1, 128](out)
assert (out == 2 * np.arange(100.0)).all()
print("ok numba")
`;

t.test('Numba', { skip }, async (t) => {
  t.match(await python('-c', numba), { code: 0, stdout: 'ok numba\n' });
});

t.test('what calls cuBLAS is told what the server needs for it', { skip }, async (t) => {
  const product = 'import cupy; a = cupy.ones((64, 64), "f4"); print((a @ a)[0, 0])';
  const { code, stderr } = await python('-c', product);
  t.not(code, 0, 'no PTX of cuBLAS is for a device of 12.0');
  t.match(stderr, /^outboard: no kernel .*cuBLAS.*SOFTWARE_DEVICE_COMPUTE_CAPABILITY=13\.0/m);
});

t.test('CuPy, a parent and its pool of workers', { skip }, async (t) => {
  const script = path.join(root, 'test', 'clients', 'cupy_pool.py');
  t.match(await python(script), { code: 0, stdout: 'ok pool\n' });
});
