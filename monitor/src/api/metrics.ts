// Prometheus metrics. Names, units and labels follow its conventions and dcgm-exporter: base units, and `UUID`,
// `gpu`, `modelName` and `Hostname` to join on. Tenant and GPU are labels; a session is none, because there are more
// and more of them. Counters go on when a session ends.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { GpuView, Observer, SessionView, SlotState, View } from '../base/view.js';

const gpuLabels = ['gpu', 'UUID', 'modelName'] as const;
const sessionLabels = [...gpuLabels, 'tenant'] as const;
type GpuLabels = Record<(typeof gpuLabels)[number], string>;
type SessionLabels = Record<(typeof sessionLabels)[number], string>;

/** So many names get a label of their own; all others share one. */
const tenantsMost = 1000;
/** Sessions that went without a word about their end. */
const trackedMost = 10_000;

const slotStates: readonly SlotState[] = ['starting', 'free', 'reserved', 'busy', 'ended'];

const gpuGauges: Record<string, { help: string; value: (gpu: GpuView) => number | null }> = {
  healthy: {
    help: 'Whether sessions are placed on the GPU: 1 or 0.',
    value: ({ healthy }) => Number(healthy),
  },
  memory_bytes: { help: 'Memory of the GPU.', value: ({ memory }) => memory.total },
  memory_available_bytes: {
    help: 'Memory of the GPU that sessions may have, all together.',
    value: ({ memory }) => memory.sessions,
  },
  memory_reserved_bytes: {
    help: 'Memory of the GPU that is promised to sessions.',
    value: ({ memory }) => memory.reserved,
  },
  memory_used_bytes: {
    help: 'Memory of the GPU that sessions have mapped.',
    value: ({ memory }) => memory.used,
  },
  memory_overhead_bytes: {
    help: 'Memory of the GPU that contexts take, or that is kept back for modules and pinned memory.',
    value: ({ memory }) => memory.overhead,
  },
  share_requested_ratio: {
    help: "Part of the GPU's time that is promised to sessions.",
    value: ({ share }) => share.requested / 100,
  },
  busy_ratio: {
    help: 'Part of the last second in which work of sessions was on the GPU; absent: it is not measured.',
    value: ({ share }) => ratio(share.busy),
  },
  slots_host_memory_bytes: {
    help: 'Resident memory of the API server processes of the GPU.',
    value: ({ slots }) => slots.reduce((sum, { hostMemory }) => sum + (hostMemory ?? 0), 0),
  },
};

/** Sums over the sessions of a tenant on a GPU. */
const sessionGauges: Record<
  string,
  { help: string; value: (session: SessionView) => number | null }
> = {
  outboard_sessions: { help: 'Sessions that run.', value: () => 1 },
  outboard_sessions_held: {
    help: 'Sessions whose work is held back now by their share.',
    value: ({ share }) => Number(share.held),
  },
  outboard_session_memory_limit_bytes: {
    help: 'Memory that the sessions may map.',
    value: ({ memory }) => memory.limit,
  },
  outboard_session_memory_used_bytes: {
    help: 'Memory that the sessions have mapped.',
    value: ({ memory }) => memory.used,
  },
  outboard_session_share_requested_ratio: {
    help: "Part of the GPU's time that is promised to the sessions.",
    value: ({ share }) => share.request / 100,
  },
  outboard_session_share_owed_ratio: {
    help: 'Part of the last second of the GPU that the sessions had a right to; absent: it is not measured.',
    value: ({ share }) => ratio(share.owed),
  },
  outboard_session_share_received_ratio: {
    help: 'Part of the last second of the GPU that the sessions had; absent: it is not measured.',
    value: ({ share }) => ratio(share.received),
  },
};

/** What a session has used up since it began: sums that never go down. */
const sessionCounters: Record<
  string,
  { help: string; value: (session: SessionView) => number | null }
> = {
  outboard_session_seconds_total: {
    help: 'Time that sessions have run.',
    value: ({ seconds }) => seconds,
  },
  outboard_session_device_seconds_total: {
    help: 'Time of the GPU that sessions have used; without those that are not measured.',
    value: ({ share }) => (share.deviceNs === null ? null : share.deviceNs / 1e9),
  },
  outboard_gate_waits_total: {
    help: 'How often work was held back by its share.',
    value: ({ share }) => share.gateWaits,
  },
  outboard_gate_wait_seconds_total: {
    help: 'Time for which work was held back by its share.',
    value: ({ share }) => share.gateSeconds,
  },
  outboard_commands_total: counted('commands', 'Calls of guests that were carried out.'),
  outboard_round_trips_total: counted('roundTrips', 'Calls for whose answer a guest waited.'),
  outboard_received_bytes_total: counted('bytesIn', 'Bytes that came from guests.'),
  outboard_sent_bytes_total: counted('bytesOut', 'Bytes that went to guests.'),
  outboard_cached_uploads_total: counted(
    'cachedUploads',
    'Parts of uploads that were not sent, because they had been kept.',
  ),
  outboard_cached_upload_bytes_total: counted(
    'cachedBytes',
    'Bytes of uploads that were not sent, because they had been kept.',
  ),
  outboard_launches_total: counted('launches', 'Kernels that were launched.'),
  outboard_session_faults_total: counted('faults', 'Calls that failed on the device.'),
  outboard_protocol_violations_total: counted(
    'violations',
    'Commands that a guest must not send and that were refused.',
  ),
};

function ratio(percent: number | null): number | null {
  return percent === null ? null : percent / 100;
}

function counted(name: string, help: string) {
  return { help, value: ({ counters }: SessionView) => counters[name] ?? 0 };
}

export class Metrics implements Observer {
  readonly #registry = new Registry();
  /** What has been counted of the sessions that run, by metric. */
  readonly #tracked = new Map<number, Map<string, number>>();
  /** Sessions that have ended, and perhaps are still in a view. */
  readonly #over = new Set<number>();
  readonly #tenants = new Set<string>();
  #models = new Map<string, string>();

  readonly #gpu = Object.entries(gpuGauges).map(([name, { help, value }]) => ({
    value,
    gauge: this.#gauge(`outboard_gpu_${name}`, help, gpuLabels),
  }));
  readonly #session = Object.entries(sessionGauges).map(([name, { help, value }]) => ({
    value,
    gauge: this.#gauge(name, help, sessionLabels),
  }));
  readonly #used = Object.entries(sessionCounters).map(([name, { help, value }]) => ({
    name,
    value,
    counter: this.#counter(name, help, sessionLabels),
  }));
  readonly #slots = this.#gauge('outboard_slots', 'API server processes, by state.', [
    ...gpuLabels,
    'state',
  ]);
  readonly #slotsLost = this.#counter(
    'outboard_slots_lost_total',
    'API server processes that ended without being told to.',
    gpuLabels,
  );
  readonly #slotStart = this.#histogram(
    'outboard_slot_start_seconds',
    'From the start of an API server process until its context is warm.',
    [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
  );
  readonly #began = this.#counter(
    'outboard_sessions_started_total',
    'Sessions that have begun.',
    sessionLabels,
  );
  readonly #ended = this.#counter('outboard_sessions_ended_total', 'Sessions that have ended.', [
    ...sessionLabels,
    'reason',
  ]);
  readonly #refused = this.#counter(
    'outboard_refusals_total',
    'Programs that were refused, by the code of the error.',
    ['code'],
  );
  readonly #policyFailures = this.#counter(
    'outboard_policy_failures_total',
    'Decisions that the usual policy made because another one failed (threw) or took too long (slow).',
    ['policy', 'why'],
  );
  readonly #moves = this.#counter(
    'outboard_moves_total',
    'Sessions that were to move: they have, stayed where they were, or were lost with both processes.',
    ['how'],
  );
  readonly #moveSeconds = this.#histogram(
    'outboard_move_seconds',
    'How long moves took, from when they were asked for.',
    [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
  );
  readonly #attach = this.#histogram(
    'outboard_attach_seconds',
    'From the arrival of a program until an API server process has its connection, waiting included.',
    [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60, 600],
  );
  readonly #waited = this.#histogram(
    'outboard_queue_wait_seconds',
    'How long sessions waited in the queue before they began.',
    [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600],
  );
  readonly #queue = this.#gauge('outboard_queue_length', 'Programs that wait for a slot.', []);
  readonly #queueAge = this.#gauge(
    'outboard_queue_oldest_seconds',
    'How long the program at the head of the queue has waited.',
    [],
  );
  readonly #draining = this.#gauge(
    'outboard_draining',
    'Whether no new sessions are taken: 1 or 0.',
    [],
  );
  readonly #tenant = {
    queued: this.#gauge('outboard_tenant_queued', 'Programs of the tenant that wait.', ['tenant']),
    sessions: this.#gauge(
      'outboard_tenant_sessions_limit',
      'Sessions that the tenant may have at a time; absent: no limit.',
      ['tenant'],
    ),
    memory: this.#gauge(
      'outboard_tenant_memory_limit_bytes',
      'Memory that sessions of the tenant may have together; absent: no limit.',
      ['tenant'],
    ),
    share: this.#gauge(
      'outboard_tenant_share_limit_ratio',
      'GPU time that may be promised to sessions of the tenant; absent: no limit.',
      ['tenant'],
    ),
  };

  constructor(host: string, version: string) {
    // This label is on all metrics, so that those of one machine can be chosen.
    this.#registry.setDefaultLabels({ Hostname: host });
    this.#gauge('outboard_build_info', 'The release that runs; always 1.', ['version', 'node']).set(
      { version, node: process.versions.node },
      1,
    );
    this.#addProcessMetrics();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** The answer to a scrape. */
  text(view: View): Promise<string> {
    this.observe(view);
    this.#showGpus(view.gpus);
    this.#showSessions(view);
    this.#showTenants(view);
    this.#queue.set(view.queue.length);
    this.#queueAge.set(view.queue[0]?.waitedSeconds ?? 0);
    this.#draining.set(Number(view.server.draining));
    return this.#registry.metrics();
  }

  /** To be called each second, so that little is lost of a session whose end was not told. */
  observe({ gpus, sessions }: View) {
    this.#models = new Map(gpus.map(({ uuid, name }) => [uuid, name]));
    const present = new Set(sessions.map(({ id }) => id));
    for (const id of this.#over) if (!present.has(id)) this.#over.delete(id);
    for (const session of sessions) this.#count(session);
  }

  refused(code: string) {
    this.#refused.inc({ code });
  }

  began(session: SessionView, attachSeconds: number, waitedSeconds: number) {
    this.#count(session);
    this.#began.inc(this.#sessionLabels(session));
    this.#attach.observe(attachSeconds);
    this.#waited.observe(waitedSeconds);
  }

  ended(session: SessionView, reason: string) {
    if (this.#over.has(session.id)) return;
    this.#count(session);
    this.#tracked.delete(session.id);
    this.#over.add(session.id);
    this.#ended.inc({ ...this.#sessionLabels(session), reason });
  }

  slotReady(_gpu: number, startSeconds: number) {
    this.#slotStart.observe(startSeconds);
  }

  slotLost(gpu: number) {
    this.#slotsLost.inc(this.#knownGpus.get(gpu) ?? this.#labelsOf(gpu, '', ''));
  }

  moved(how: 'moved' | 'stayed' | 'lost', seconds: number) {
    this.#moves.inc({ how });
    if (how === 'moved') this.#moveSeconds.observe(seconds);
  }

  policyFailed(policy: string, why: string) {
    this.#policyFailures.inc({ policy, why });
  }

  readonly #knownGpus = new Map<number, GpuLabels>();

  /** Adds what is new since this session was last looked at. */
  #count(session: SessionView) {
    if (this.#over.has(session.id)) return;
    const labels = this.#sessionLabels(session);
    let seen = this.#tracked.get(session.id);
    if (!seen) {
      // Begins at 0, so that the first event shows as a rise.
      for (const { counter, value } of this.#used)
        if (value(session) !== null) counter.inc(labels, 0);
      seen = new Map();
      this.#tracked.set(session.id, seen);
      const [oldest] = this.#tracked.keys();
      if (this.#tracked.size > trackedMost && oldest !== undefined) this.#tracked.delete(oldest);
    }
    for (const { name, value, counter } of this.#used) {
      const now = value(session) ?? 0;
      const more = now - (seen.get(name) ?? 0);
      if (more > 0) {
        counter.inc(labels, more);
        seen.set(name, now);
      }
    }
  }

  #showGpus(gpus: GpuView[]) {
    for (const { gauge } of this.#gpu) gauge.reset();
    this.#slots.reset();
    for (const view of gpus) {
      const labels = this.#labelsOf(view.index, view.uuid, view.name);
      this.#knownGpus.set(view.index, labels);
      // Shown from the first scrape on, so that a rate is known when it rises.
      this.#slotsLost.inc(labels, 0);
      for (const { gauge, value } of this.#gpu) {
        const now = value(view);
        if (now !== null) gauge.set(labels, now);
      }
      for (const state of slotStates) {
        const count = view.slots.filter((slot) => slot.state === state).length;
        this.#slots.set({ ...labels, state }, count);
      }
    }
  }

  #showSessions({ sessions }: View) {
    for (const { gauge } of this.#session) gauge.reset();
    for (const session of sessions) {
      const labels = this.#sessionLabels(session);
      for (const { gauge, value } of this.#session) {
        const now = value(session);
        if (now !== null) gauge.inc(labels, now);
      }
    }
  }

  #showTenants({ tenants }: View) {
    for (const gauge of Object.values(this.#tenant)) gauge.reset();
    for (const { name, limits, queued } of tenants) {
      const labels = { tenant: this.#tenantLabel(name) };
      this.#tenant.queued.inc(labels, queued);
      if (limits.sessions !== null) this.#tenant.sessions.set(labels, limits.sessions);
      if (limits.memory !== null) this.#tenant.memory.set(labels, limits.memory);
      if (limits.share !== null) this.#tenant.share.set(labels, limits.share / 100);
    }
  }

  #sessionLabels({ gpu, uuid, tenant }: SessionView): SessionLabels {
    const model = this.#models.get(uuid) ?? '';
    return { ...this.#labelsOf(gpu, uuid, model), tenant: this.#tenantLabel(tenant) };
  }

  #labelsOf(gpu: number, uuid: string, model: string): GpuLabels {
    return { gpu: String(gpu), UUID: uuid, modelName: model };
  }

  #tenantLabel(name: string): string {
    if (this.#tenants.size < tenantsMost) this.#tenants.add(name);
    return this.#tenants.has(name) ? name : 'other';
  }

  /** prom-client's own of the process, less those whose names Prometheus' linter does not take. */
  #addProcessMetrics() {
    const all = new Registry();
    collectDefaultMetrics({ register: all });
    for (const { name } of all.getMetricsAsArray()) {
      const metric = all.getSingleMetric(name);
      if (metric && !/^nodejs_active_.*_total$/.test(name)) this.#registry.registerMetric(metric);
    }
  }

  #gauge<T extends string>(name: string, help: string, labelNames: readonly T[]): Gauge<T> {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }

  #counter<T extends string>(name: string, help: string, labelNames: readonly T[]): Counter<T> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, registers: [this.#registry] });
  }
}
