// The quota runner's work without its thread: keeps a policy for each GPU, steps it when it is due,
// carries counts from the pages to it and limits back, and adds up what was received and owed. It
// has no clock of its own.
import { type AnyQuotaPolicy, quotaPoliciesFor } from '../../policies/index.js';
import { owedShares, sameRank, strictFirst } from '../../policies/quota/owed.js';
import {
  type QuotaParameters,
  type QuotaSession,
  usualQuotaParameters,
} from '../../policies/quota.js';
import type { SessionClass } from '../../policies/state.js';
import {
  noCounts,
  noLimit,
  type QuotaCounts,
  type QuotaMode,
  type QuotaPageView,
  spent,
} from './page-view.js';

export interface QuotaPlacement {
  session: number;
  gpu: number;
  /** The name with which the page of its slot was added. */
  page: string;
  /** Its tenant; empty: there are no tenants. */
  tenant: string;
  class: SessionClass;
  shareRequest: number;
  shareLimit: number;
  /** Percent of the SMs that its kernels run on; absent: all. */
  sm?: number;
  /** Whether all its work is measured; if not, it has none of these figures. */
  measured: boolean;
}

export interface SessionReport {
  session: number;
  gpu: number;
  /** Percent of the GPU's time that it got in the time reported on; null: its work is not measured. */
  received: number | null;
  /** Percent that it had a right to while it wanted something; null: when it did is not known. */
  owed: number | null;
  /** Since it began; null: its work is not measured. */
  deviceNs: number | null;
  gateWaits: number;
  gateSeconds: number;
  /** Whether work is held back now. */
  held: boolean;
}

export interface QuotaReport {
  /** Length of the time reported on, in seconds. */
  seconds: number;
  sessions: SessionReport[];
  /**
   * Percent of the time in which work of sessions was on it. What overlaps is added up, to at most 100. Null: one of
   * them is not measured.
   */
  gpus: { gpu: number; busy: number | null }[];
}

interface Running {
  placement: QuotaPlacement;
  page: QuotaPageView;
  counts: QuotaCounts;
  /** What it had been charged when this runner took it over from another one. */
  began: bigint;
  /** The counts at the last report. */
  reportedNs: bigint;
  /** Percent times nanoseconds. */
  owed: number;
}

interface Gpu {
  memory: unknown;
  running: Map<number, Running>;
  /** Sessions that have ended since the last step; the policy is told once more what they used. */
  ended: Running[];
}

const reportNs = 1_000_000_000n;
export class QuotaLoop {
  /** By GPU; one: for all. They differ in what they know of the GPU only. */
  readonly #policies: readonly AnyQuotaPolicy[];
  readonly #policy: AnyQuotaPolicy;
  readonly #mode: QuotaMode;
  readonly #period: bigint;
  readonly #report: (report: QuotaReport) => void;
  readonly #pages = new Map<string, QuotaPageView>();
  readonly #gpus = new Map<number, Gpu>();
  readonly #where = new Map<number, number>();
  /** Steps are due at multiples of the period after this moment. */
  #began = 0n;
  #stepped = 0n;
  #reported = 0n;
  #due: bigint | null = null;

  constructor(
    policy: string,
    report: (report: QuotaReport) => void,
    parameters: readonly QuotaParameters[] = [usualQuotaParameters],
  ) {
    this.#policies = parameters.flatMap((one) => quotaPoliciesFor(one).get(policy) ?? []);
    const [found] = this.#policies;
    if (!found) throw new Error(`no quota policy ${policy}`);
    this.#policy = found;
    this.#mode = found.unit === 'none' ? 'open' : found.unit;
    this.#period = BigInt(found.periodMs) * 1_000_000n;
    this.#report = report;
  }

  #policyOf(gpu: number): AnyQuotaPolicy {
    return this.#policies[gpu] ?? this.#policy;
  }

  /** When there is something to do next; null: not before a session comes. */
  get due(): bigint | null {
    return this.#due;
  }

  addPage(name: string, page: QuotaPageView) {
    page.set('open', noLimit);
    this.#pages.set(name, page);
  }

  removePage(name: string) {
    this.#pages.delete(name);
  }

  /** Before the session begins: from its first launch on it is held to the policy. */
  place(now: bigint, placement: QuotaPlacement) {
    const page = this.#pages.get(placement.page);
    if (!page) throw new Error(`no quota page ${placement.page}`);
    this.end(placement.session);
    const gpu = this.#gpus.get(placement.gpu) ?? {
      memory: this.#policyOf(placement.gpu).start(),
      running: new Map(),
      ended: [],
    };
    this.#gpus.set(placement.gpu, gpu);
    const running = { placement, page, counts: noCounts, began: 0n, reportedNs: 0n, owed: 0 };
    read(running);
    running.began = this.#charged(running.counts);
    gpu.running.set(placement.session, running);
    this.#where.set(placement.session, placement.gpu);
    if (this.#due === null) {
      this.#began = now;
      this.#stepped = now;
      this.#reported = now;
    }
    // The others get their quota tokens once a period, this one between two steps: it must not begin without a
    // limit, so it gets what it would have now.
    const sessions = [...gpu.running.values()].map((one) => this.#sessionOf(one));
    const first = sessions.map((one) =>
      one.id === placement.session ? { ...one, wants: true } : one,
    );
    const ended = gpu.ended.map((one) => this.#sessionOf(one));
    const policy = this.#policyOf(placement.gpu);
    const { limits } = policy.step({ now, sessions: first, ended, memory: gpu.memory });
    page.set(this.#mode, this.#limitOf(running, limits.get(placement.session) ?? null));
    if (this.#due === null) this.#next(now);
  }

  /** Takes effect with the next step. */
  setShare(session: number, shareRequest: number, shareLimit: number) {
    const running = this.#find(session);
    if (running) running.placement = { ...running.placement, shareRequest, shareLimit };
  }

  end(session: number) {
    const running = this.#find(session);
    if (!running) return;
    const gpu = this.#gpus.get(running.placement.gpu);
    read(running);
    gpu?.running.delete(session);
    gpu?.ended.push(running);
    this.#where.delete(session);
    // The gate is opened, so that it does not stay shut if the next session is told no limit.
    running.page.set('open', noLimit);
    if (gpu?.running.size === 0) this.#gpus.delete(running.placement.gpu);
    if (this.#where.size > 0) return;
    this.#due = null;
    this.#report({ seconds: 0, sessions: [], gpus: [] });
  }

  /** Does what is due. Steps that were missed are not made up for. */
  tick(now: bigint) {
    if (this.#due === null || now < this.#due) return;
    this.#step(now);
    if (now - this.#reported >= reportNs) this.#tell(now);
    this.#next(now);
  }

  #next(now: bigint) {
    const passed = (now - this.#began) / this.#period;
    this.#due = this.#began + (passed + 1n) * this.#period;
  }

  #step(now: bigint) {
    const passed = Number(now - this.#stepped);
    this.#stepped = now;
    for (const [index, gpu] of this.#gpus) this.#stepGpu(index, gpu, now, passed);
  }

  #stepGpu(index: number, gpu: Gpu, now: bigint, passed: number) {
    const running = [...gpu.running.values()];
    for (const one of running) read(one);
    const sessions = running.map((one) => this.#sessionOf(one, running));
    const ended = gpu.ended.map((one) => this.#sessionOf(one));
    gpu.ended = [];
    const rank = this.#policy.name === 'priority' ? strictFirst : sameRank;
    const owed = owedShares(sessions, rank);
    const policy = this.#policyOf(index);
    const { limits, memory } = policy.step({ now, sessions, ended, memory: gpu.memory });
    gpu.memory = memory;
    for (const one of running) {
      const id = one.placement.session;
      one.owed += (owed.get(id) ?? 0) * passed;
      one.page.set(this.#mode, this.#limitOf(one, limits.get(id) ?? null));
    }
  }

  #sessionOf(one: Running, beside: readonly Running[] = []): QuotaSession {
    const { placement, counts, began } = one;
    const { session: id, tenant, class: of, shareRequest, shareLimit, sm = 100 } = placement;
    const wants = counts.held > 0n || counts.inflightNs > 0n;
    const charged = this.#charged(counts);
    // It may say so as it likes: that others work is what they say.
    const others = beside.some((other) => other !== one && other.counts.inflightNs > 0n);
    const queued = counts.queued > 0n && others;
    const share = { shareRequest, shareLimit, sm };
    return { id, tenant, class: of, ...share, charged, began, wants, queued };
  }

  /** For the page, which counts what was given back as used: policies go by what was used. */
  #limitOf({ counts }: Running, limit: bigint | null): bigint {
    if (limit === null) return noLimit;
    return counts.unit === this.#mode ? limit + counts.givenBack : limit;
  }

  /** What was charged, in the unit of the policy. When that has just changed, the count has not begun yet. */
  #charged({ unit, charged }: QuotaCounts): bigint {
    return unit === this.#mode || this.#mode === 'open' ? charged : 0n;
  }

  #tell(now: bigint) {
    const passed = Number(now - this.#reported);
    this.#reported = now;
    const sessions: SessionReport[] = [];
    const gpus = [...this.#gpus].map(([gpu, { running }]) => {
      let busy: number | null = 0;
      for (const one of running.values()) {
        const report = reportOf(one, passed);
        busy = busy === null || report.received === null ? null : busy + report.received;
        sessions.push(report);
        one.reportedNs = one.counts.deviceNs;
        one.owed = 0;
      }
      return { gpu, busy: busy === null ? null : Math.min(100, busy) };
    });
    this.#report({ seconds: passed / 1e9, sessions, gpus });
  }

  #find(session: number): Running | undefined {
    const gpu = this.#where.get(session);
    return gpu === undefined ? undefined : this.#gpus.get(gpu)?.running.get(session);
  }
}

function read(running: Running) {
  const counts = running.page.read();
  // The page may still have the counts of the session before.
  if (counts.session === BigInt(running.placement.session)) running.counts = counts;
}

function reportOf({ placement, counts, reportedNs, owed }: Running, passed: number): SessionReport {
  const { session, gpu, measured } = placement;
  return {
    session,
    gpu,
    received: measured ? (100 * Number(counts.deviceNs - reportedNs)) / passed : null,
    owed: measured ? owed / passed : null,
    ...spent(counts, measured),
    held: counts.held > 0n,
  };
}
