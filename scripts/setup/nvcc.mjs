// The CUDA compiler, for the examples and the tests that compile CUDA programs: the user's own where
// there is a usable one, otherwise from PyPI into build/toolchain. Outboard itself needs none.
import { existsSync, realpathSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from '../../bin/paths.mjs';
import { captured, logTail, which } from './command.mjs';
import { glob } from './glob.mjs';
import { install, isInstalled, wasInstalled } from './python.mjs';
import { SetupError } from './step.mjs';

/**
 * @typedef {object} Nvcc
 * @property {string} path
 * @property {string} version "13.0"
 * @property {string} home the toolkit's folder: bin/, include/, lib64/
 */

/** Older ones know neither C++20 nor the fatbin format that the software device is tested with. */
const LEAST_MAJOR = 12;

const PYPI = [
  'nvidia-cuda-nvcc==13.0.*',
  'nvidia-cuda-crt==13.0.*',
  'nvidia-nvvm==13.0.*',
  'nvidia-cuda-runtime==13.0.*',
  'nvidia-cuda-cccl==13.0.*',
];

const venv = join(build, 'toolchain');
const toolchain = { folder: venv, packages: PYPI, log: 'nvcc' };

/** The release in the output of `nvcc --version`. @param {string} output */
export function parseVersion(output) {
  return /\brelease (\d+\.\d+)/.exec(output)?.[1];
}

/** @param {string | undefined} version */
export function isUsable(version) {
  return version !== undefined && Number(version.split('.')[0]) >= LEAST_MAJOR;
}

/**
 * The user's own nvcc: $NVCC, then the one on PATH, then the usual place.
 * @param {NodeJS.ProcessEnv} [env]
 * @param {string} [usualPlace]
 * @returns {Promise<Nvcc | undefined>}
 */
export async function usersNvcc(env = process.env, usualPlace = '/usr/local/cuda/bin/nvcc') {
  const named = env['NVCC'];
  if (named) {
    const found = await inspect(named);
    if (isUsable(found?.version)) return found;
    throw new SetupError(
      `NVCC=${named} is ${found ? `nvcc ${found.version}` : 'not a working nvcc'}; ` +
        `need nvcc >= ${LEAST_MAJOR}. Correct it, or unset NVCC to have one installed in ${venv}.`,
    );
  }
  for (const path of [which('nvcc', env['PATH']), usualPlace]) {
    const found = path && (await inspect(path));
    if (found && isUsable(found.version)) return found;
  }
  return undefined;
}

/**
 * @param {string} path
 * @returns {Promise<Nvcc | undefined>}
 */
async function inspect(path) {
  if (!existsSync(path)) return undefined;
  const { status, output } = await captured([path, '--version']).catch(() => ({
    status: 1,
    output: '',
  }));
  const version = parseVersion(output);
  if (status !== 0 || version === undefined) return undefined;
  return { path, version, home: dirname(dirname(realpathSync(path))) };
}

/** The one in build/toolchain, if it is there. @returns {Promise<Nvcc | undefined>} */
async function installedNvcc() {
  const [home] = glob(`${venv}/lib/python3*/site-packages/nvidia/cu13`);
  if (home === undefined) return undefined;
  const parts = ['bin/ptxas', 'nvvm/bin/cicc', 'lib/libcudart_static.a', 'include/cuda.h'];
  if (!parts.every((part) => existsSync(join(home, part)))) return undefined;
  // nvcc.profile names lib64, the packages have lib; with the link, nvcc finds its libraries itself.
  if (!existsSync(join(home, 'lib64'))) symlinkSync('lib', join(home, 'lib64'));
  // The packages leave out the name that `-cudart shared` links with.
  const shared = join(home, 'lib', 'libcudart.so');
  if (!existsSync(shared)) symlinkSync('libcudart.so.13', shared);
  return inspect(join(home, 'bin', 'nvcc'));
}

/**
 * @param {(detail?: string) => void} begin
 * @param {Nvcc | undefined} own what usersNvcc found
 * @returns {Promise<Nvcc | { reason: string }>} the reason when there is none to be had
 */
export async function ensureNvcc(begin, own) {
  if (own) return own;
  const before = await installedNvcc();
  // No stamp, but all parts: made by hand, and good.
  if (before && (!wasInstalled(toolchain) || isInstalled(toolchain))) return before;

  begin('from PyPI, about 270 MB');
  if (!(await install(toolchain))) {
    return {
      reason: `nvcc could not be installed from PyPI (no network?).\n${logTail(toolchain.log, 8)}`,
    };
  }
  const after = await installedNvcc();
  if (!after) return { reason: `nvcc was installed in ${venv}, but does not run there.` };
  return after;
}
