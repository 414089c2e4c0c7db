// Every route of the HTTP API, in one table: fastify is set up from it, and the OpenAPI document is
// made of it (openapi.ts).
import { type TSchema, Type } from 'typebox';
import { OutboardError } from '../base/errors.js';
import type { LogLine, Operations, ShareChange } from '../base/view.js';
import type { Operator } from './access.js';
import { type History, historySeconds } from './history.js';
import * as schemas from './schemas.js';

/** What the handlers work on. */
export interface Context {
  operations: Operations;
  history: History;
  policies: () => schemas.PoliciesView;
  metrics: () => Promise<string>;
  metricsType: string;
  document: () => unknown;
}

export interface Call {
  params: Record<string, unknown>;
  query: Record<string, unknown>;
  body: unknown;
  operator: Operator;
}

export interface Route {
  method: 'GET' | 'PUT' | 'DELETE';
  /** With parameters as fastify has them: /v1/sessions/:id. */
  url: string;
  /** Its name in the OpenAPI document, and for programs made from it. */
  id: string;
  summary: string;
  /** `open`: for probes, which have no access token. */
  rights: 'open' | 'view' | 'act';
  params?: TSchema;
  query?: TSchema;
  body?: TSchema;
  /** Null: an answer without content. A string: the media type of a text. */
  answer: TSchema | string | null;
  /** Statuses of refusals beside those that every route has. */
  refusals: readonly number[];
  /** For a string answer, its text. */
  handle(context: Context, call: Call): unknown;
}

const id = Type.Object({ id: Type.Integer({ minimum: 1, description: 'of a session' }) });
const gpu = Type.Object({ gpu: Type.Integer({ minimum: 0, description: 'by its number' }) });
const lines = Type.Object({
  lines: Type.Integer({ minimum: 1, maximum: 10_000, default: 100, description: 'the newest' }),
});
const samples = Type.Object({
  seconds: Type.Integer({
    minimum: 1,
    maximum: historySeconds,
    default: historySeconds,
    description: 'the newest',
  }),
});
const reason = Type.Object({
  reason: Type.String({
    maxLength: 200,
    default: '',
    description: 'what the program and the log are told',
  }),
});

export const routes: readonly Route[] = [
  {
    method: 'GET',
    url: '/v1/state',
    id: 'getState',
    summary: 'Everything, as the other routes show it in parts',
    rights: 'view',
    answer: schemas.State,
    refusals: [],
    handle: ({ operations }) => operations.view(),
  },
  {
    method: 'GET',
    url: '/v1/gpus',
    id: 'listGpus',
    summary: 'The GPUs and their slots',
    rights: 'view',
    answer: Type.Array(schemas.Gpu),
    refusals: [],
    handle: ({ operations }) => operations.view().gpus,
  },
  {
    method: 'GET',
    url: '/v1/sensors',
    id: 'listSensors',
    summary: "What the NVML of the GPUs' machine says of them now",
    rights: 'view',
    answer: Type.Array(schemas.Sensors),
    refusals: [],
    handle: ({ operations }) => operations.sensors(),
  },
  {
    method: 'GET',
    url: '/v1/sessions',
    id: 'listSessions',
    summary: 'The sessions that run',
    rights: 'view',
    answer: Type.Array(schemas.Session),
    refusals: [],
    handle: ({ operations }) => operations.view().sessions,
  },
  {
    method: 'GET',
    url: '/v1/sessions/:id',
    id: 'getSession',
    summary: 'One session that runs',
    rights: 'view',
    params: id,
    answer: schemas.Session,
    refusals: [404],
    handle: ({ operations }, { params }) => session(operations, Number(params['id'])),
  },
  {
    method: 'GET',
    url: '/v1/sessions/:id/kernels',
    id: 'listKernels',
    summary: 'What the kernels of a session have cost, the dearest first',
    rights: 'view',
    params: id,
    answer: Type.Array(schemas.Kernel),
    refusals: [404],
    handle: ({ operations }, { params }) => operations.kernels(Number(params['id'])),
  },
  {
    method: 'GET',
    url: '/v1/sessions/:id/why',
    id: 'explainSession',
    summary: 'What was decided about a session that waits, runs or has ended lately, and why',
    rights: 'view',
    params: id,
    answer: schemas.Why,
    refusals: [404],
    handle: ({ operations }, { params }) => operations.why(Number(params['id'])),
  },
  {
    method: 'DELETE',
    url: '/v1/sessions/:id',
    id: 'killSession',
    summary: 'Ends a session, or takes one that waits out of the queue',
    rights: 'act',
    params: id,
    query: reason,
    answer: null,
    refusals: [404, 409],
    handle: ({ operations }, { params, query, operator }) => {
      const why = String(query['reason']).trim() || `ended by operator ${operator.name}`;
      operations.kill(Number(params['id']), oneLine(why));
    },
  },
  {
    method: 'PUT',
    url: '/v1/sessions/:id/share',
    id: 'setShare',
    summary: 'Changes the share of a session',
    rights: 'act',
    params: id,
    body: schemas.Share,
    answer: schemas.Session,
    refusals: [404, 409],
    handle: ({ operations }, { params, body }) => {
      operations.setShare(Number(params['id']), body as ShareChange);
      return session(operations, Number(params['id']));
    },
  },
  {
    method: 'PUT',
    url: '/v1/sessions/:id/place',
    id: 'moveSession',
    summary: 'Moves a session to another GPU, or to another process; answers when it is there',
    rights: 'act',
    params: id,
    body: schemas.MoveWish,
    answer: schemas.Move,
    refusals: [404, 409],
    handle: ({ operations }, { params, body }) =>
      operations.move(Number(params['id']), body as { gpu?: number; within?: boolean }),
  },
  {
    method: 'GET',
    url: '/v1/queue',
    id: 'listQueue',
    summary: 'Who waits, the next one first',
    rights: 'view',
    answer: Type.Array(schemas.Queued),
    refusals: [],
    handle: ({ operations }) => operations.view().queue,
  },
  {
    method: 'GET',
    url: '/v1/tenants',
    id: 'listTenants',
    summary: 'The tenants, their limits and what they use',
    rights: 'view',
    answer: Type.Array(schemas.Tenant),
    refusals: [],
    handle: ({ operations }) => operations.view().tenants,
  },
  {
    method: 'GET',
    url: '/v1/drain',
    id: 'getDrain',
    summary: 'Whether the server is being emptied, and how far it is',
    rights: 'view',
    answer: schemas.Drain,
    refusals: [],
    handle: ({ operations }) => drain(operations),
  },
  {
    method: 'PUT',
    url: '/v1/drain',
    id: 'drain',
    summary: 'No new sessions are taken any more, and who waits is refused',
    rights: 'act',
    answer: schemas.Drain,
    refusals: [409],
    handle: ({ operations }) => {
      operations.drain();
      return drain(operations);
    },
  },
  {
    method: 'DELETE',
    url: '/v1/drain',
    id: 'undrain',
    summary: 'New sessions are taken again',
    rights: 'act',
    answer: schemas.Drain,
    refusals: [409],
    handle: ({ operations }) => {
      operations.resume();
      return drain(operations);
    },
  },
  {
    method: 'GET',
    url: '/v1/gpus/:gpu/drain',
    id: 'getGpuDrain',
    summary: 'Whether a GPU is being emptied, and how far it is',
    rights: 'view',
    params: gpu,
    answer: schemas.GpuDrain,
    refusals: [404],
    handle: ({ operations }, { params }) => operations.gpuDrain(Number(params['gpu'])),
  },
  {
    method: 'PUT',
    url: '/v1/gpus/:gpu/drain',
    id: 'drainGpu',
    summary: 'A GPU gets no new sessions any more; those it has are moved to others, or waited for',
    rights: 'act',
    params: gpu,
    body: schemas.GpuDrainWish,
    answer: schemas.GpuDrain,
    refusals: [404],
    handle: ({ operations }, { params, body }) => {
      operations.drainGpu(Number(params['gpu']), (body as { move: boolean }).move);
      return operations.gpuDrain(Number(params['gpu']));
    },
  },
  {
    method: 'DELETE',
    url: '/v1/gpus/:gpu/drain',
    id: 'undrainGpu',
    summary: 'A GPU gets new sessions again',
    rights: 'act',
    params: gpu,
    answer: schemas.GpuDrain,
    refusals: [404],
    handle: ({ operations }, { params }) => {
      operations.resumeGpu(Number(params['gpu']));
      return operations.gpuDrain(Number(params['gpu']));
    },
  },
  {
    method: 'GET',
    url: '/v1/logs',
    id: 'getLogs',
    summary: 'The newest lines of the log, oldest first',
    rights: 'view',
    query: lines,
    answer: Type.Array(schemas.Line),
    refusals: [],
    handle: ({ operations }, { query }): LogLine[] => operations.logs(Number(query['lines'])),
  },
  {
    method: 'GET',
    url: '/v1/history',
    id: 'getHistory',
    summary: 'The last minutes, one sample per second',
    rights: 'view',
    query: samples,
    answer: schemas.History,
    refusals: [],
    handle: ({ history }, { query }) => history.last(Number(query['seconds'])),
  },
  {
    method: 'GET',
    url: '/v1/policies',
    id: 'listPolicies',
    summary: 'The policies that the configuration can name',
    rights: 'view',
    answer: schemas.Policies,
    refusals: [],
    handle: ({ policies }) => policies(),
  },
  {
    method: 'GET',
    url: '/v1/openapi.json',
    id: 'getOpenapi',
    summary: 'This document',
    rights: 'view',
    answer: Type.Object({}, { additionalProperties: true }),
    refusals: [],
    handle: ({ document }) => document(),
  },
  {
    method: 'GET',
    url: '/livez',
    id: 'live',
    summary: 'Whether the process is alive',
    rights: 'open',
    answer: 'text/plain',
    refusals: [],
    handle: () => 'ok\n',
  },
  {
    method: 'GET',
    url: '/readyz',
    id: 'ready',
    summary: 'Whether sessions are taken',
    rights: 'open',
    answer: 'text/plain',
    refusals: [503],
    handle: ({ operations }) => {
      const why = notReady(operations);
      if (why !== null) throw new OutboardError('OB_NOT_READY', why);
      return 'ok\n';
    },
  },
  {
    method: 'GET',
    url: '/metrics',
    id: 'metrics',
    summary: 'For Prometheus',
    rights: 'view',
    answer: 'text/plain',
    refusals: [],
    handle: ({ metrics }) => metrics(),
  },
];

function session(operations: Operations, id: number) {
  const found = operations.view().sessions.find((session) => session.id === id);
  if (!found) throw new OutboardError('OB_NO_SESSION', id);
  return found;
}

function drain(operations: Operations): schemas.DrainView {
  const { server, sessions, queue } = operations.view();
  return { draining: server.draining, sessions: sessions.length, queued: queue.length };
}

/** A slot that somebody has is a warm one: who comes now waits for it in the queue. */
function notReady(operations: Operations): string | null {
  const { server, gpus } = operations.view();
  if (server.draining) return 'the server is being emptied';
  const slots = gpus.flatMap((gpu) => gpu.slots);
  const warm = slots.some(({ state }) => ['free', 'reserved', 'busy'].includes(state));
  return warm ? null : 'no API server process is warm';
}

/** It goes into logs and to terminals. */
function oneLine(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ');
}
