// GPU time as the monitor sees it: which slot's quota page the quota runner fills for which session, and what
// the runner last reported. A runner that fails is replaced, and the next one told everything again: the gate
// of a page that nobody fills would stay shut.
import { quotaPolicies } from '../../policies/index.js';
import type { QuotaParameters } from '../../policies/quota.js';
import type { SessionRequest } from '../../policies/state.js';
import type { Log } from '../base/log.js';
import type { Slot } from '../slots/slot.js';
import { type QuotaPlacement, type QuotaReport, QuotaRunner } from './runner.js';

/** What the quota of a session came to in the last second; made by the quota runner. */
export interface ShareSample {
  /** Null, here and in the next two: its work is not measured. */
  received: number | null;
  owed: number | null;
  deviceNs: number | null;
  gateWaits: number;
  gateSeconds: number;
  held: boolean;
}

/** What a session must tell to be held to its share, and where its latest sample is put. */
export interface QuotaHolder {
  readonly id: number;
  readonly slot: Slot;
  readonly placement: { readonly gpu: number };
  readonly visitor: { readonly request: Pick<SessionRequest, 'tenant' | 'class' | 'name'> };
  readonly share: { readonly request: number; readonly limit: number };
  readonly measured: boolean;
  sample: ShareSample;
}

export interface QuotaOptions {
  /** Its name. */
  policy: string;
  /** By GPU; one: for all. */
  parameters?: readonly QuotaParameters[];
  /** Percent of the SMs on which a function's kernels run, by its name; null, absent: all. */
  smOf?: (name: string) => number | null;
  build: string;
}

/** Milliseconds before another runner is started; longer each time where that fails at once. */
const leastPause = 100;
const mostPause = 30_000;

export class Quota {
  readonly policy: string;
  /** Whether the policy counts something of every session, whatever its share and whoever is beside it. */
  readonly countsAll: boolean;
  readonly #options: QuotaOptions;
  readonly #log: Log;
  readonly #pages = new Map<Slot, number>();
  readonly #running = new Map<number, { session: QuotaHolder; placement: QuotaPlacement }>();
  #busy = new Map<number, number>();
  #runner: QuotaRunner;
  #restart: NodeJS.Timeout | undefined;
  #pause = leastPause;
  #begun = performance.now();

  constructor(options: QuotaOptions, log: Log) {
    this.policy = options.policy;
    const unit = quotaPolicies.get(options.policy)?.unit;
    this.countsAll = unit !== 'none' && unit !== 'device-time';
    this.#options = options;
    this.#log = log;
    this.#runner = this.#start();
  }

  slotStarted(slot: Slot) {
    const { fd } = slot.quotaPage;
    if (fd === null) return;
    this.#pages.set(slot, fd);
    this.#runner.addPage(nameOf(slot), fd).catch(() => {});
  }

  slotEnded(slot: Slot) {
    if (this.#pages.delete(slot)) this.#runner.removePage(nameOf(slot));
  }

  /**
   * Resolves when the session's slot is held to its share; or, if the runner has failed, at once: the runner that
   * takes over is told, and until then the session goes by what the page says.
   */
  async begin(session: QuotaHolder) {
    const { id, slot, share, measured, visitor, placement: where } = session;
    const placement: QuotaPlacement = {
      session: id,
      gpu: where.gpu,
      page: nameOf(slot),
      tenant: visitor.request.tenant,
      class: visitor.request.class,
      shareRequest: share.request,
      shareLimit: share.limit,
      sm: this.#options.smOf?.(visitor.request.name) ?? 100,
      measured,
    };
    this.#running.set(id, { session, placement });
    // If this fails, the runner has failed, and the next one will be told.
    await this.#runner.place(placement).catch(() => {});
  }

  async setShare({ id, share }: QuotaHolder) {
    const running = this.#running.get(id);
    if (!running) return;
    running.placement = {
      ...running.placement,
      shareRequest: share.request,
      shareLimit: share.limit,
    };
    await this.#runner.setShare(id, share).catch(() => {});
  }

  end({ id }: QuotaHolder) {
    if (this.#running.delete(id)) this.#runner.end(id);
  }

  /** Percent of the last second in which sessions' work was on the GPU; null: work there is not measured. */
  busy(gpu: number): number | null {
    for (const { session, placement } of this.#running.values())
      if (placement.gpu === gpu && !session.measured) return null;
    return this.#busy.get(gpu) ?? 0;
  }

  async stop() {
    clearTimeout(this.#restart);
    await this.#runner.stop();
  }

  #start(): QuotaRunner {
    const { policy, parameters, build } = this.#options;
    return new QuotaRunner({
      policy,
      build,
      ...(parameters ? { parameters } : {}),
      onReport: (report) => this.#reported(report),
      onFailed: (error) => this.#failed(error),
    });
  }

  #reported({ sessions, gpus }: QuotaReport) {
    // GPUs without a session are not in the report; what was said of them before does not hold any more.
    this.#busy = new Map(gpus.map(({ gpu, busy }) => [gpu, busy ?? 0]));
    for (const { session: id, gpu: _gpu, ...sample } of sessions) {
      const running = this.#running.get(id);
      if (running) running.session.sample = sample;
    }
  }

  #failed(error: Error) {
    this.#busy.clear();
    const lasted = performance.now() - this.#begun > mostPause;
    this.#pause = lasted ? leastPause : Math.min(mostPause, 2 * this.#pause);
    const seconds = this.#pause / 1000;
    this.#log.error({ err: error, seconds }, 'the quota runner has failed: another one takes over');
    this.#restart = setTimeout(() => {
      this.#begun = performance.now();
      try {
        this.#runner = this.#start();
      } catch (error) {
        // No thread can be made now; it is tried again later.
        return this.#failed(error as Error);
      }
      for (const [slot, fd] of this.#pages) {
        this.#runner.addPage(nameOf(slot), fd).catch(() => {});
      }
      for (const { placement } of this.#running.values()) {
        this.#runner.place(placement).catch(() => {});
      }
    }, this.#pause);
  }
}

/** The name of the page of a slot's process. The next process in the slot has another page. */
function nameOf(slot: Slot): string {
  return `${slot.gpu}.${slot.index}:${slot.pid ?? ''}`;
}
