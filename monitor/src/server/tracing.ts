// OpenTelemetry spans of how a session came to be: `outboard.attach`, from the arrival of the Hello
// until the API server has the connection, with `outboard.queue` and `outboard.handover` inside;
// and `outboard.session`, as long as it runs. They continue the trace that the guest's environment
// names (TRACEPARENT). Loaded only where an endpoint is configured, with OpenTelemetry's own
// variables: OTEL_EXPORTER_OTLP_ENDPOINT (and _HEADERS, _TIMEOUT ...), OTEL_SERVICE_NAME,
// OTEL_SDK_DISABLED.
import { hostname } from 'node:os';
import type { Context, Span, Tracer } from '@opentelemetry/api';
import { version } from '../../../api-server/src/version.js';
import type { Log } from '../base/log.js';
import { noObserver, type Observer, type SessionView } from '../base/view.js';

export interface Tracing {
  observer: Observer;
  /** Sends what has not been sent yet. */
  close(): Promise<void>;
}

export function wantsTracing(env: NodeJS.ProcessEnv): boolean {
  if (/^true$/i.test(env['OTEL_SDK_DISABLED'] ?? '')) return false;
  const { OTEL_EXPORTER_OTLP_ENDPOINT: all, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traces } = env;
  return Boolean(all || traces);
}

/** Null, and a line in the log, where the optional packages are not installed. */
export async function openTracing(env: NodeJS.ProcessEnv, log: Log): Promise<Tracing | null> {
  try {
    return await open(env);
  } catch (error) {
    const { message } = error as Error;
    log.warn(`no traces: OpenTelemetry's packages cannot be loaded: ${message}`);
    return null;
  }
}

async function open(env: NodeJS.ProcessEnv): Promise<Tracing> {
  const api = await import('@opentelemetry/api');
  const { BatchSpanProcessor, TracerProvider } = await import('@opentelemetry/sdk-trace');
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http');
  const { resourceFromAttributes } = await import('@opentelemetry/resources');
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': env['OTEL_SERVICE_NAME'] || 'outboard',
      'service.version': version,
      'host.name': hostname(),
    }),
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })],
  });
  const tracer = provider.getTracer('outboard', version);
  return {
    observer: new SpanObserver(tracer, api),
    close: () => provider.shutdown(),
  };
}

type Api = typeof import('@opentelemetry/api');

class SpanObserver implements Observer {
  readonly #tracer: Tracer;
  readonly #api: Api;
  readonly #running = new Map<number, Span>();
  readonly refused = noObserver.refused;
  readonly slotReady = noObserver.slotReady;
  readonly slotLost = noObserver.slotLost;
  readonly policyFailed = noObserver.policyFailed;
  readonly moved = noObserver.moved;

  constructor(tracer: Tracer, api: Api) {
    this.#tracer = tracer;
    this.#api = api;
  }

  began(session: SessionView, attachSeconds: number, waitedSeconds: number, traceparent: string) {
    const now = Date.now();
    const arrived = now - attachSeconds * 1000;
    const placed = arrived + waitedSeconds * 1000;
    const parent = this.#parse(traceparent);
    const attributes = attributesOf(session);
    const attach = this.#tracer.startSpan(
      'outboard.attach',
      { startTime: arrived, kind: this.#api.SpanKind.SERVER, attributes },
      parent,
    );
    const inside = this.#api.trace.setSpan(parent, attach);
    this.#tracer.startSpan('outboard.queue', { startTime: arrived }, inside).end(placed);
    this.#tracer.startSpan('outboard.handover', { startTime: placed }, inside).end(now);
    attach.end(now);
    const running = this.#tracer.startSpan(
      'outboard.session',
      { startTime: now, attributes },
      parent,
    );
    this.#running.set(session.id, running);
  }

  ended({ id, counters }: SessionView, reason: string) {
    const span = this.#running.get(id);
    if (!span) return;
    this.#running.delete(id);
    for (const [name, value] of Object.entries(counters)) {
      span.setAttribute(`outboard.session.${name}`, value);
    }
    span.setAttribute('outboard.session.end', reason);
    if (reason !== 'closed' && reason !== 'stopped') {
      span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: reason });
    }
    span.end();
  }

  /** The Hello's reader has seen that it has the form of W3C's Trace Context, or it is empty. */
  #parse(traceparent: string): Context {
    const { ROOT_CONTEXT, trace } = this.#api;
    const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
    if (flags === '') return ROOT_CONTEXT;
    const remote = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
    return trace.setSpanContext(ROOT_CONTEXT, remote);
  }
}

function attributesOf(session: SessionView) {
  const { id, group, tenant, name, program, gpu, uuid, slot, memory, share } = session;
  return {
    'outboard.session.id': id,
    'outboard.group': group.session,
    'outboard.tenant': tenant,
    'outboard.name': name,
    'outboard.program': program,
    'outboard.gpu': gpu,
    'outboard.gpu.uuid': uuid,
    'outboard.slot': slot,
    'outboard.memory.limit': memory.limit,
    'outboard.share.request': share.request,
    'outboard.share.limit': share.limit,
  };
}
