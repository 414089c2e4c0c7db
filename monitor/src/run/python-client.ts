// What Python's CUDA packages have to be told where the device is made of software, which runs PTX and
// no machine code. A real GPU's programs are left as they are.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Asked, deviceKind } from './doctor.js';
import { interpreterOf } from './program-file.js';

/**
 * The interpreter that runs it, with what is always said to it; null: it is no Python program. A script of
 * a known name that hides its interpreter, as pyenv's do, has the one that is found first.
 */
export function pythonOf(program: string, env: NodeJS.ProcessEnv): string[] | null {
  if (isPython(program)) return [program];
  const [file = '', ...settings] = interpreterOf(program, env) ?? [];
  if (isPython(file)) return [file, ...settings.filter((one) => switches.test(one))];
  return /^(ipython|jupyter|pytest)[\d.]*$/.test(path.basename(program)) ? ['python3'] : null;
}

function isPython(file: string): boolean {
  return /^(python|pypy)[\d.]*$/.test(path.basename(file));
}

/** Those that stand alone: where it looks for packages is among them. */
const switches = /^-[bBdEIOPqsSuv]+$/;

/** Looked for by the interpreter itself; no module of the user's is run. */
const look = [
  // Not the folder it is started in, either.
  'import sys; sys.path[:] = [p for p in sys.path if p]',
  'import importlib.util as u',
  'print(*(n for n in ("numba_cuda", "torch") if u.find_spec(n)))',
].join('; ');

/** For the environment of the program, which may have said otherwise; none if the server's GPUs are real. */
export async function pythonSettings(
  python: string[],
  env: NodeJS.ProcessEnv,
  build: string,
  asked: () => Asked,
): Promise<NodeJS.ProcessEnv> {
  // What is wrong with what is asked the guest library says.
  const kind = await Promise.resolve()
    .then(() => deviceKind(asked()))
    .catch(() => null);
  if (kind !== 'software') return {};
  const settings: NodeJS.ProcessEnv = {
    // NVRTC gives PTX to CuPy then.
    CUPY_COMPILE_WITH_PTX: env['CUPY_COMPILE_WITH_PTX'] ?? '1',
  };
  const preloaded = withoutLinker(python, env, build);
  if (preloaded) settings['LD_PRELOAD'] = preloaded;
  return settings;
}

/**
 * Numba has nvJitLink make machine code, if it finds that, else the driver, which keeps PTX. So it finds an
 * empty one; PyTorch cannot be loaded without the real one, and has the first right to it.
 */
function withoutLinker(
  [python = '', ...settings]: string[],
  env: NodeJS.ProcessEnv,
  build: string,
): string | null {
  const { LD_PRELOAD: preload, ...clean } = env;
  const { stdout } = spawnSync(python, [...settings, '-c', look], {
    env: clean,
    encoding: 'utf8',
    timeout: 5000,
  });
  const found = (stdout ?? '').trim().split(' ');
  if (!found.includes('numba_cuda') || found.includes('torch')) return null;
  const folder = path.join(build, 'software-device', 'keep-ptx');
  const empty = ['libnvJitLink.so.13', 'libnvJitLink.so.12'].map((name) => path.join(folder, name));
  return [...empty.filter((file) => existsSync(file)), preload ?? ''].filter(Boolean).join(':');
}
