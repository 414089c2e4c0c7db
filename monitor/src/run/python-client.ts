// What Python's CUDA packages have to be told where the device is a software device, which runs PTX and no
// machine code. Programs on a real GPU are left as they are.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Asked, deviceOf } from './doctor.js';
import { interpreterOf } from './program-file.js';

/**
 * The interpreter that runs the program, with the arguments that it always gets; null: it is no Python program.
 * For a script of a known name that hides its interpreter, as those of pyenv do, it is the `python3` on PATH.
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

/** Python's options that have no value; some of them say where it looks for packages. */
const switches = /^-[bBdEIOPqsSuv]+$/;

/** By this the interpreter itself says which packages it would find; no module of the user's is run. */
const look = [
  // The folder in which it is started is not looked through either.
  'import sys; sys.path[:] = [p for p in sys.path if p]',
  'import importlib.util as u',
  'print(*(n for n in ("numba_cuda", "torch") if u.find_spec(n)))',
].join('; ');

/** Of such capabilities cuBLAS brings PTX. */
const firstForCublas = 13;

/** Variables for the program's environment, where that has none of them; none if the server's GPUs are real. */
export async function pythonSettings(
  python: string[],
  env: NodeJS.ProcessEnv,
  build: string,
  asked: () => Asked,
  /** Whether its cuBLAS is the server's. */
  remote: boolean,
): Promise<NodeJS.ProcessEnv> {
  // If something is wrong with what is asked for, the guest library says so.
  const device = await Promise.resolve()
    .then(() => deviceOf(asked()))
    .catch(() => null);
  if (device?.kind !== 'software') return {};
  const settings: NodeJS.ProcessEnv = {
    // With this, NVRTC gives CuPy PTX.
    CUPY_COMPILE_WITH_PTX: env['CUPY_COMPILE_WITH_PTX'] ?? '1',
  };
  // For the kind that has cuBLAS, the program's or the server's, Numba makes nothing; and cuSOLVER and cuSPARSE cannot
  // be loaded without the real linker.
  const preloaded =
    remote || device.major >= firstForCublas ? null : withoutLinker(python, env, build);
  if (preloaded) settings['LD_PRELOAD'] = preloaded;
  return settings;
}

/**
 * Where Numba finds nvJitLink, it has that make machine code, else the driver, which keeps PTX. So it is shown
 * an empty nvJitLink; but not where there is PyTorch, which cannot be loaded without the real one.
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
    // The first start of an interpreter on a machine that is busy, or from a disk of another one, takes long.
    timeout: 30_000,
  });
  const found = (stdout ?? '').trim().split(' ');
  if (!found.includes('numba_cuda') || found.includes('torch')) return null;
  const folder = path.join(build, 'software-device', 'keep-ptx');
  const empty = ['libnvJitLink.so.13', 'libnvJitLink.so.12'].map((name) => path.join(folder, name));
  return [...empty.filter((file) => existsSync(file)), preload ?? ''].filter(Boolean).join(':');
}
