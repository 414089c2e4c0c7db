// Real programs for tests, from PyPI: CuPy, Numba and the CUDA libraries that they call into
// build/clients (test/clients), nvidia-ml-py into build/nvml-client (nvml/test), what Lambda runs
// Python functions with into build/lambda-client (test/lambda); PyTorch and ONNX
// Runtime, for `npm run test:clients` only, into build/torch and build/onnx; tinygrad, which needs
// nothing but NumPy here, into build/tinygrad. Nothing else needs them.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { build } from '../../bin/paths.mjs';
import { logTail } from './command.mjs';
import { install, isInstalled } from './python.mjs';

const clients = {
  folder: join(build, 'clients'),
  log: 'clients',
  packages: [
    'cupy-cuda13x==14.2.0',
    'numba-cuda[cu13]==0.30.4',
    'numba==0.68.1',
    'numpy==2.4.6',
    'cuda-bindings==13.5.0',
    'cuda-core==1.2.2',
    'cuda-toolkit==13.5.0',
    // The last ones have half-precision kernels in a form (Tile IR) that is not PTX.
    'nvidia-cublas==13.0.2.14',
    'nvidia-cufft==12.5.0.14',
    'nvidia-curand==10.4.5.25',
  ],
};

/**
 * What CuPy's linear algebra calls, beside `clients`: where it is there, Numba's programs have an nvJitLink that cuSPARSE
 * cannot do without.
 */
const solver = {
  folder: join(build, 'solver'),
  log: 'solver',
  packages: ['--no-deps', 'nvidia-cusolver==12.0.4.66', 'nvidia-cusparse==12.6.3.3'],
};

/** With libraries of its own, which are newer. */
const torch = {
  folder: join(build, 'torch'),
  log: 'torch',
  packages: ['torch==2.15.0', 'numpy==2.4.6'],
};

const onnx = {
  folder: join(build, 'onnx'),
  log: 'onnx',
  packages: [
    // Later ones have no PTX.
    'onnxruntime-gpu==1.27.0',
    'onnx==1.23.2',
    'numpy==2.4.6',
    'nvidia-cudnn-cu13==9.28.0.42',
    'nvidia-cublas==13.0.2.14',
    'nvidia-cufft==12.5.0.14',
    'nvidia-curand==10.4.5.25',
    'nvidia-cuda-runtime==13.0.96',
    'nvidia-cuda-nvrtc==13.0.88',
    'nvidia-nvjitlink==13.5.37',
  ],
};

/** It writes PTX by itself, other than nvcc does. By itself, as it is small. */
const tinygrad = {
  folder: join(build, 'tinygrad'),
  log: 'tinygrad',
  packages: ['tinygrad==0.14.0', 'numpy==2.4.6'],
};

/** By itself, as it is small and needs none of the others. */
const nvmlClient = {
  folder: join(build, 'nvml-client'),
  log: 'nvml-client',
  packages: ['nvidia-ml-py==13.615.71'],
};

/** Lambda's runtime for Python, and the emulator of its API, which is in SAM's command line. */
const lambdaClient = {
  folder: join(build, 'lambda-client'),
  log: 'lambda-client',
  packages: [
    // Of the command line only that file is wanted.
    '--no-deps',
    'aws-sam-cli==1.170.0',
    'awslambdaric==4.2.2',
    'simplejson==4.3.0',
    'snapshot-restore-py==1.0.0',
  ],
};

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when it is not to be had
 */
export async function ensureLambdaClient(begin) {
  const { folder, log } = lambdaClient;
  if (isInstalled(lambdaClient) && existsSync(join(folder, 'bin', 'python'))) return undefined;
  begin('from PyPI, about 10 MB');
  if (await install(lambdaClient)) return undefined;
  return `awslambdaric could not be installed from PyPI (no network, or no Python >= 3.9 with venv?).\n${logTail(log, 8)}`;
}

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when it is not to be had
 */
export async function ensureNvmlClient(begin) {
  const { folder, log } = nvmlClient;
  if (isInstalled(nvmlClient) && existsSync(join(folder, 'bin', 'python'))) return undefined;
  begin('from PyPI');
  if (await install(nvmlClient)) return undefined;
  return `nvidia-ml-py could not be installed from PyPI (no network, or no Python with venv?).\n${logTail(log, 8)}`;
}

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when they are not to be had
 */
export async function ensureClients(begin) {
  if (isInstalled(clients) && existsSync(join(clients.folder, 'bin', 'python'))) return undefined;
  begin('from PyPI, about 2 GB');
  if (await install(clients)) return undefined;
  return `CuPy and Numba could not be installed from PyPI (no network, or no Python >= 3.11 with venv?).\n${logTail(clients.log, 8)}`;
}

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when they are not to be had
 */
export async function ensureSolver(begin) {
  if (isInstalled(solver)) return undefined;
  begin('from PyPI, about 400 MB');
  if (await install(solver)) return undefined;
  return `cuSOLVER could not be installed from PyPI (no network, or no Python >= 3.9 with venv?).\n${logTail(solver.log, 8)}`;
}

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when it is not to be had
 */
export async function ensureTinygrad(begin) {
  const { folder, log } = tinygrad;
  if (isInstalled(tinygrad) && existsSync(join(folder, 'bin', 'python'))) return undefined;
  begin('from PyPI, about 20 MB');
  if (await install(tinygrad)) return undefined;
  return `tinygrad could not be installed from PyPI (no network, or no Python >= 3.11 with venv?).\n${logTail(log, 8)}`;
}

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when it is not to be had
 */
export function ensureTorch(begin) {
  return ensureFramework('PyTorch', torch, begin);
}

/**
 * @param {(detail?: string) => void} begin
 * @returns {Promise<string | undefined>} the reason when it is not to be had
 */
export function ensureOnnx(begin) {
  return ensureFramework('ONNX Runtime', onnx, begin);
}

/**
 * @param {string} name
 * @param {import('./python.mjs').Environment} environment
 * @param {(detail?: string) => void} begin
 */
async function ensureFramework(name, environment, begin) {
  const { folder, log } = environment;
  if (isInstalled(environment) && existsSync(join(folder, 'bin', 'python'))) return undefined;
  begin('from PyPI, some GB');
  if (await install(environment)) return undefined;
  return `${name} could not be installed from PyPI (no network, too little space, or no Python >= 3.11 with venv?).\n${logTail(log, 8)}`;
}

/** What is installed for clients, by name. @returns {Record<string, string>} versions */
export function versionsOfClients() {
  return Object.fromEntries(
    [
      ...onnx.packages,
      ...clients.packages,
      ...solver.packages.slice(1),
      ...torch.packages,
      ...tinygrad.packages,
    ].map((each) => {
      const [name = '', version = ''] = each.replace(/\[.*\]/, '').split('==');
      return [name, version];
    }),
  );
}
