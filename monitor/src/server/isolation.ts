// What keeps tenants apart who use one GPU after another. It is decided when the slots are warm, and said in
// the log. (Besides, the executor overwrites memory before a session gives it back.)
import type { DeviceSnapshot } from '../../../api-server/src/native.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { Driver } from '../devices/devices.js';
import type { Pool } from '../slots/pool.js';
import type { GpuFacts } from '../slots/pool-gpu.js';
import type { Sandbox } from '../slots/sandbox.js';
import type { Tenants } from '../tenants/tenants.js';

export interface IsolationOptions {
  driver: Driver;
  tenants: Tenants | null;
  newProcess: 'auto' | 'tenant' | 'never';
  sandbox: Sandbox | null;
  allowPageable: boolean;
}

export interface Isolation {
  /** Whether a process serves sessions of one tenant only. */
  newProcess: boolean;
}

/** Where a new process is warm within so many seconds, each tenant gets its own processes. */
const warmAgainSeconds = 1;

/** CUdevice_attribute, by what the driver calls the reason. */
const pageableAttributes = [
  [88, 'PAGEABLE_MEMORY_ACCESS'],
  [100, 'PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES'],
] as const;

/** How kernels of the device reach memory that CUDA has not allocated; null: they do not. */
export function pageableAccess({ attributes }: Pick<DeviceSnapshot, 'attributes'>): string | null {
  const names = pageableAttributes.filter(([id]) => (attributes[id] ?? 0) !== 0);
  return names.length === 0 ? null : names.map(([, name]) => name).join(', ');
}

/**
 * The driver as tenants' processes have it: it keeps nothing of what it has compiled, because a tenant could
 * find there what another's program is made of.
 */
export function driverFor({
  driver,
  tenants,
}: Pick<IsolationOptions, 'driver' | 'tenants'>): Driver {
  if (!tenants || driver.env['CUDA_CACHE_DISABLE'] !== undefined) return driver;
  return { ...driver, env: { ...driver.env, CUDA_CACHE_DISABLE: '1' } };
}

/** Warns of a GPU whose kernels reach all memory of a process. Throws OB_PAGEABLE where tenants are not to have it. */
export function checkAccess(
  options: Pick<IsolationOptions, 'tenants' | 'allowPageable'>,
  { index, snapshot }: Pick<GpuFacts, 'index' | 'snapshot'>,
  log: Log,
) {
  const access = snapshot ? pageableAccess(snapshot) : null;
  if (access === null) return;
  const error = new OutboardError('OB_PAGEABLE', index, access);
  if (options.tenants && !options.allowPageable) throw error;
  log.warn({ code: error.code, remedy: error.remedy }, error.message);
}

/** Decides for these options. Throws OB_PAGEABLE. */
export function isolate(options: IsolationOptions, pool: Pool, log: Log): Isolation {
  for (const gpu of pool.devices) checkAccess(options, gpu, log);
  const { startSeconds } = pool;
  const newProcess = decide(options, startSeconds);
  const { sandbox, tenants } = options;
  const said = { newProcess, sandbox: sandbox?.what ?? null, startSeconds };
  const cudaCache = driverFor(options).env['CUDA_CACHE_DISABLE'] !== '1';
  log.info({ ...said, cudaCache }, 'isolation');
  if (tenants && options.newProcess === 'auto' && !newProcess) {
    log.warn(
      `a process takes more than ${warmAgainSeconds} second to be warm, so one serves tenants one after another, whose kernels may find what is left in shared and local memory: --new-process tenant keeps them apart`,
    );
  }
  return { newProcess };
}

function decide({ tenants, newProcess }: IsolationOptions, startSeconds: number): boolean {
  if (newProcess !== 'auto') return newProcess === 'tenant';
  return tenants !== null && startSeconds <= warmAgainSeconds;
}
