// The newest View and what the page remembers of earlier ones.
import type { HistoryView } from '../../src/api/schemas.js';
import type { GpuView, SessionView, View } from '../../src/base/view.js';
import { Buckets, Recent } from './history.js';

/** Bars of a GPU: five minutes. */
const gpuStep = 5;
const gpuSteps = 60;
/** Sparkline of a session: two minutes. */
const sessionSeconds = 120;

export class Model {
  view: View | null = null;
  /** How many wait; the View may hold only the first of them. */
  queued = 0;
  /** Seconds since 1970 on the server's clock, of the newest View. */
  now = 0;
  /** reserved, used, busy, requested */
  readonly #gpus = new Map<string, Buckets>();
  /** received, owed */
  readonly #sessions = new Map<number, Recent>();

  /** True when this is another server process than before. */
  take(view: View, queued: number): boolean {
    const restarted = this.view !== null && this.view.server.started !== view.server.started;
    // Another process numbers its sessions anew.
    if (restarted) this.#sessions.clear();
    this.view = view;
    this.queued = queued;
    this.now = Date.parse(view.server.now) / 1000;
    for (const gpu of view.gpus) {
      const { memory, share } = gpu;
      const values = [memory.reserved, memory.used, share.busy, share.requested];
      this.gpuHistory(gpu).add(this.now, values);
    }
    for (const session of view.sessions) {
      const { received, owed } = session.share;
      this.sessionHistory(session).add(this.now, [received, owed]);
    }
    const running = new Set(view.sessions.map(({ id }) => id));
    for (const id of this.#sessions.keys()) if (!running.has(id)) this.#sessions.delete(id);
    return restarted;
  }

  /** What the server remembers of the time before the page; replaces what the page has. */
  remember({ times, gpus, sessions }: HistoryView) {
    this.#gpus.clear();
    this.#sessions.clear();
    times.forEach((milliseconds, index) => {
      const time = milliseconds / 1000;
      for (const { uuid, reserved, used, busy, requested } of gpus) {
        const columns = [reserved, used, busy, requested];
        const values = columns.map((column) => column[index] ?? null);
        this.gpuHistory({ uuid }).add(time, values);
      }
      for (const { id, from, received, owed } of sessions) {
        if (index < from) continue;
        const values = [received[index - from] ?? null, owed[index - from] ?? null];
        this.sessionHistory({ id }).add(time, values);
      }
    });
  }

  gpuHistory({ uuid }: Pick<GpuView, 'uuid'>): Buckets {
    return found(this.#gpus, uuid, () => new Buckets(4, gpuStep, gpuSteps));
  }

  sessionHistory({ id }: Pick<SessionView, 'id'>): Recent {
    return found(this.#sessions, id, () => new Recent(2, sessionSeconds));
  }

  get gpuRange(): [number, number] {
    const end = (Math.floor(this.now / gpuStep) + 1) * gpuStep;
    return [end - gpuStep * gpuSteps, end];
  }

  get sessionRange(): [number, number] {
    return [this.now - sessionSeconds, this.now];
  }

  session(id: number): SessionView | undefined {
    return this.view?.sessions.find((session) => session.id === id);
  }

  /** What the other sessions of its GPU are promised, in percent. */
  promisedToOthers({ id, gpu }: SessionView): number {
    return (this.view?.sessions ?? [])
      .filter((other) => other.gpu === gpu && other.id !== id)
      .reduce((sum, { share }) => sum + share.request, 0);
  }

  /** What its tenant's sessions would be promised with so much for this one, and may be; null: there is no limit. */
  promisedToTenant({ tenant, share }: SessionView, request: number) {
    const found = this.view?.tenants.find(({ name }) => name === tenant);
    const most = found?.limits.share ?? null;
    return found && most !== null ? { sum: found.share - share.request + request, most } : null;
  }
}

function found<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}
