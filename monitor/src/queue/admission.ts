// Whether a Hello asks for something that this server can ever give, and that its tenant may have beside its other
// sessions, those that wait among them. Pure functions.
import { type Hello, wire } from '../../../api-server/src/control.js';
import { admissible } from '../../policies/admissible.js';
import type { PlacementParameters } from '../../policies/placement.js';
import type { GpuState, ServerState, SessionRequest } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import { usualWithin } from '../devices/memory-rule.js';
import { formatExactBytes } from '../options/values.js';
import { allowedGpus, check, classFor, type Tenant, type TenantUsage } from '../tenants/tenants.js';

/**
 * Returns what the guest asks for, as the queue and the placement policies see it. Throws the OutboardError
 * that the guest is refused with, where this server can never give it, or where the tenant's limits do not leave
 * it now. `tenant` is null where the server has no tenants.
 */
export function admit(
  hello: Hello,
  state: ServerState,
  parameters: PlacementParameters,
  tenant: Tenant | null = null,
): SessionRequest {
  checkShare(hello);
  const request: SessionRequest = {
    tenant: tenant?.name ?? '',
    name: hello.name || hello.program,
    class: tenant ? classFor(tenant, hello.sessionClass) : classOf(hello),
    gpus: hello.devices || 1,
    memory: hello.memory === 0n ? null : roundUp(hello.memory),
    shareRequest: hello.shareRequest,
    shareLimit: hello.shareLimit || 100,
    allowed: allowedTo(tenant, hello, state.gpus),
    tenantMemory: tenant?.limits.memory ?? null,
    tenantSessions: tenant?.limits.sessions ?? null,
  };
  checkPossible(hello, request, state, parameters);
  const never = parameters.admission?.never(request) ?? null;
  if (never !== null) throw new OutboardError('OB_ADMISSION', never);
  if (tenant) checkTenant(tenant, request, state);
  return request;
}

/**
 * The GPUs that a program may have, by index: those of its tenant that are of the model it asks for; null: all. Throws
 * the refusal where there is none.
 */
export function allowedTo(
  tenant: Tenant | null,
  { gpuModel }: Pick<Hello, 'gpuModel'>,
  gpus: readonly Pick<GpuState, 'index' | 'uuid' | 'name'>[],
): readonly number[] | null {
  const allowed = tenant ? allowedGpus(tenant, gpus) : null;
  if (gpuModel === '') return allowed;
  const its = gpus.filter(({ index }) => allowed?.includes(index) ?? true);
  const fit = its.filter(({ name }) => name.toLowerCase().includes(gpuModel.toLowerCase()));
  if (fit.length === 0) {
    const names = [...new Set(its.map(({ name }) => name))].join(', ');
    throw new OutboardError('OB_GPU_MODEL', gpuModel, names);
  }
  return fit.map(({ index }) => index);
}

function checkPossible(
  hello: Hello,
  request: SessionRequest,
  state: ServerState,
  parameters: PlacementParameters,
) {
  const never = admissible(state, request, parameters);
  if (!never) {
    if (request.gpus > wire.devicesMost) throw tooMany(hello, request.gpus);
    return;
  }
  const { reason, largest } = never;
  switch (reason) {
    case 'gpus':
      throw tooMany(hello, largest.gpus);
    case 'memory':
      throw new OutboardError(
        'OB_TOO_MUCH_MEMORY',
        formatExactBytes(hello.memory),
        formatExactBytes(largest.memory),
      );
    default: {
      const asked = `${request.shareRequest}:${request.shareLimit}`;
      throw new OutboardError('OB_SHARE', asked, `${largest.share} percent can be promised here`);
    }
  }
}

function tooMany({ devices }: Hello, here: number) {
  return new OutboardError('OB_TOO_MANY_GPUS', devices, Math.min(here, wire.devicesMost));
}

function checkTenant(tenant: Tenant, request: SessionRequest, state: ServerState) {
  const { gpus, memory, shareRequest } = request;
  const demand = {
    sessions: gpus,
    // Who asks for no amount gets what is left when its turn comes (withinTenant).
    memory: BigInt(gpus) * (memory ?? 0n),
    share: gpus * shareRequest,
  };
  const usage = usageOf(tenant.name, state);
  const least = { ...demand, memory: BigInt(gpus) * wire.granule };
  const refusal = check(tenant, usage, demand) ?? check(tenant, noUsage, least);
  if (refusal) throw refusal;
}

const noUsage: TenantUsage = { sessions: 0, memory: 0n, share: 0 };

/**
 * The request as it can be placed now: if it names no amount of memory, it gets at most what its tenant's
 * limit leaves. Null: the limit leaves too little, so it waits for other sessions of its tenant, and
 * nobody has to wait behind it. `grows`: whether the usual amount is half of what is left.
 */
export function withinTenant(
  request: SessionRequest,
  state: ServerState,
  grows: boolean,
): SessionRequest | null {
  const { tenant, gpus, memory, tenantMemory: limit = null } = request;
  if (memory !== null || limit === null) return request;
  const usual = state.gpus
    .filter((gpu) => gpu.healthy && (request.allowed?.includes(gpu.index) ?? true))
    .reduce((most, gpu) => (gpu.usual > most ? gpu.usual : most), 0n);
  const { memory: used } = usageOf(tenant, state);
  const usualMost = usualWithin(limit, used, gpus, grows ? null : usual);
  return usualMost === null ? null : { ...request, usualMost };
}

/**
 * Whether the request would be over its tenant's limit if slots counted as sessions whose process is being
 * made new because of that tenant. They do count: otherwise a tenant with one session after another could
 * leave no warm process to others.
 */
export function overLimitWithComing(
  { tenant, gpus, tenantSessions: limit = null }: SessionRequest,
  state: ServerState,
  coming: number,
): boolean {
  if (limit === null) return false;
  const { sessions } = usageOf(tenant, { ...state, queue: [] });
  return sessions + coming + gpus > limit;
}

/** What a tenant's sessions have altogether, including those that wait; a program has one for each GPU. */
export function usageOf(tenant: string, state: ServerState): TenantUsage {
  const { gpus, queue } = state;
  const usage: TenantUsage = { sessions: 0, memory: 0n, share: 0 };
  const add = (sessions: number, memory: bigint, share: number) => {
    usage.sessions += sessions;
    usage.memory += BigInt(sessions) * memory;
    usage.share += sessions * share;
  };
  for (const { sessions } of gpus) {
    for (const session of sessions) {
      if (session.tenant === tenant) add(1, session.memory, session.shareRequest);
    }
  }
  for (const { request } of queue) {
    const { gpus, memory, shareRequest } = request;
    if (request.tenant === tenant) add(gpus, memory ?? 0n, shareRequest);
  }
  return usage;
}

function checkShare({ shareRequest, shareLimit }: Hello) {
  const asked = `${shareRequest}:${shareLimit}`;
  if (shareRequest > 100 || shareLimit > 100) {
    throw new OutboardError('OB_SHARE', asked, 'there are 100 percent');
  }
  if (shareLimit !== 0 && shareLimit < shareRequest) {
    throw new OutboardError('OB_SHARE', asked, 'the limit is below the request');
  }
}

function classOf({ sessionClass }: Hello) {
  return sessionClass === 'best-effort' ? 'best-effort' : 'latency-strict';
}

function roundUp(bytes: bigint): bigint {
  return ((bytes + wire.granule - 1n) / wire.granule) * wire.granule;
}
