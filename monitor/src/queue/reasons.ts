// What a decision was made for, in words for an operator. Pure functions of what the decision was made on.
import { type Obstacle, obstacle } from '../../policies/placement/candidates.js';
import type { PlacementParameters, PlacementPolicy } from '../../policies/placement.js';
import type { GpuState, Placement, ServerState, SessionRequest } from '../../policies/state.js';
import { formatBytes, formatExactBytes } from '../options/values.js';
import type { WaitsFor } from './overtaking.js';

/** A server may have many GPUs, and all of them the same reason. */
const gpusMost = 8;

export function whyAdmitted(request: SessionRequest): string {
  const { tenant, class: its, gpus, allowed } = request;
  const whose = tenant === '' ? 'everybody may come in' : `the limits of tenant ${tenant} allow it`;
  const where = allowed === null ? 'all' : `${allowed.join(', ') || 'none'} only`;
  return `${whose}: ${gpus} of the GPUs (${where}), ${wanted(request)}, ${its}`;
}

function wanted({ memory, shareRequest, shareLimit }: SessionRequest): string {
  const amount = memory === null ? 'the usual memory' : formatExactBytes(memory);
  return `${amount}, share ${shareRequest}:${shareLimit}`;
}

const waits: Record<WaitsFor, string> = {
  others: 'it waits for sessions of others to end',
  'own sessions': 'it would fit if sessions of its own tenant ended',
  'own limit': "its tenant's limits leave too little while its other sessions run",
  'own process': 'it waits for a new process, as those there have served other tenants',
  'usable gpu': 'no GPU that it may have can be used now, whoever ends',
  'closing session': 'it could begin, and gets more memory once a session that is ending is gone',
};

export function whyItWaits(waitsFor: WaitsFor, tenant: string): string {
  // Where there are no tenants, all sessions are of the same nobody.
  if (waitsFor === 'own sessions' && tenant === '') return 'it waits for sessions to end';
  return waits[waitsFor];
}

/** Why a policy chose this place, and what the other GPUs lacked. Asked before it is reserved. */
export function whyPlaced(
  policy: PlacementPolicy,
  state: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters,
  placements: readonly Placement[],
): string {
  const chosen = placements.map(({ gpu }) => gpu);
  const [first] = placements;
  const where = chosen.length === 1 ? `GPU ${chosen}` : `GPUs ${chosen.join(', ')}`;
  const because = reasonOf(policy, state, request, parameters, first?.gpu ?? -1);
  const details = state.gpus
    .filter(({ index }) => index === first?.gpu)
    .map((gpu) => `before it, ${figures(gpu)}`);
  const others = state.gpus.filter(({ index }) => !chosen.includes(index));
  const lines = others
    .slice(0, gpusMost)
    .map((gpu) => onGpu(policy, gpu, request, parameters, `fits, ${figures(gpu)}`));
  const more = others.length > gpusMost ? [`${others.length - gpusMost} more`] : [];
  const head = `${where} with ${formatBytes(first?.memory ?? 0n)}, by ${policy.name}, because ${because}`;
  return [`${head} (${details.join('')})`, ...lines, ...more].join('; ');
}

/** A policy's word for it. One that cannot say it has its summary for that. */
function reasonOf(
  policy: PlacementPolicy,
  state: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters,
  gpu: number,
): string {
  try {
    const one = { ...request, gpus: 1 };
    return policy.because?.(state, one, parameters, gpu) ?? `it takes ${policy.summary}`;
  } catch {
    return `it takes ${policy.summary}`;
  }
}

/** What each GPU lacks for a request that waits. */
export function whatGpusLack(
  policy: PlacementPolicy,
  { gpus }: ServerState,
  request: SessionRequest,
  parameters: PlacementParameters,
): string[] {
  const free = 'it would fit there now';
  const lines = gpus.slice(0, gpusMost).map((gpu) => onGpu(policy, gpu, request, parameters, free));
  return gpus.length > gpusMost ? [...lines, `and ${gpus.length - gpusMost} more GPUs`] : lines;
}

function onGpu(
  policy: PlacementPolicy,
  gpu: GpuState,
  request: SessionRequest,
  parameters: PlacementParameters,
  fits: string,
): string {
  const lacks = obstacle(policy, gpu, request, parameters);
  return `GPU ${gpu.index}: ${lacks === null ? fits : obstacleText(lacks, gpu, request, parameters)}`;
}

function obstacleText(
  lacks: Obstacle,
  gpu: GpuState,
  request: SessionRequest,
  { omega, gamma, admission }: PlacementParameters,
): string {
  const promised = sum(gpu, 'shareRequest');
  const most = 100 * Math.min(1, omega);
  switch (lacks) {
    case 'unhealthy':
      return 'cannot be used';
    case 'not allowed':
      return 'not one of those that it may have';
    case 'no slot':
      return `no warm process is free (${gpu.free.length} in all)`;
    case 'memory': {
      const left = formatExactBytes(gpu.memory - gpu.reserved);
      const asks = request.memory ?? request.usualMost ?? gpu.usual;
      return `${left} unreserved, of ${formatExactBytes(asks)} that it would get`;
    }
    case 'share':
      return `${promised} percent promised, and ${request.shareRequest} more are above ${most}`;
    case 'admission':
      return `admission: ${admission?.against(request, gpu.sessions) ?? 'it may join those there now'}`;
    case 'limits': {
      const limits = sum(gpu, 'shareLimit');
      return `limits of ${limits} percent, and ${request.shareLimit} more are above ${100 * Math.max(1, gamma)}`;
    }
  }
}

function figures(gpu: GpuState): string {
  const left = formatBytes(gpu.memory - gpu.reserved);
  return `${left} unreserved, ${sum(gpu, 'shareRequest')} percent promised`;
}

function sum({ sessions }: GpuState, what: 'shareRequest' | 'shareLimit'): number {
  return sessions.reduce((total, session) => total + session[what], 0);
}

/** What the quota policy holds a session to. */
export function whyShare(
  policy: string,
  gpu: number,
  { request, limit }: { request: number; limit: number },
  others: number,
): string {
  if (policy === 'none') return `the quota policy none holds nobody back on GPU ${gpu}`;
  const promise =
    request === 0 ? 'promised nothing, so it gets of what is left' : `promised ${request} percent`;
  const most = limit >= 100 ? 'no limit' : `never above ${limit}`;
  return `${policy} on GPU ${gpu}: ${promise}, ${most}; others there are promised ${others}`;
}
