// Runs the chosen quota policy in a thread of its own. This is the monitor's side of it: quota pages come and
// go with slots, placements with sessions, and once a second a report comes back.
import path from 'node:path';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { programs } from '../../../bin/paths.mjs';
import { type QuotaParameters, usualQuotaParameters } from '../../policies/quota.js';
import type { QuotaPlacement, QuotaReport } from './runner-loop.js';
import type { FromWorker, ToWorker, WorkerSetUp } from './runner-worker.js';

export type { QuotaPlacement, QuotaReport, SessionReport } from './runner-loop.js';

export interface QuotaRunnerOptions {
  /** One of quotaPolicies. */
  policy: string;
  /** Where the addon is. */
  build: string;
  /** By GPU; one: for all. */
  parameters?: readonly QuotaParameters[];
  onReport(report: QuotaReport): void;
  /** The thread has ended without being told to. Limits stay as they are; gates may be shut. */
  onFailed(error: Error): void;
}

export class QuotaRunner {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #bell = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  readonly #ended: Promise<void>;
  #acks = 0;
  #stopping = false;
  #failure: Error | undefined;

  constructor({ policy, build, parameters, onReport, onFailed }: QuotaRunnerOptions) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const setUp: WorkerSetUp = {
      policy,
      build,
      parameters: parameters ?? [usualQuotaParameters],
      port: port2,
      bell: this.#bell,
    };
    this.#worker = new Worker(path.join(programs, 'monitor', 'src', 'quota', 'runner-worker.js'), {
      name: 'quota',
      workerData: setUp,
      // The thread keeps only a few numbers for each session. Without limits V8 would take tens of megabytes.
      resourceLimits: { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 64 },
      transferList: [port2],
    });
    port1.on('message', (message: FromWorker) => {
      if (message.type === 'report') return onReport(message.report);
      const waiting = this.#waiting.get(message.ack);
      this.#waiting.delete(message.ack);
      if (message.error === null) waiting?.resolve();
      else waiting?.reject(new Error(message.error));
    });
    const failed = (error: Error) => {
      if (this.#stopping || this.#failure) return;
      this.#failure = error;
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
      onFailed(error);
    };
    this.#worker.on('error', failed);
    this.#ended = new Promise((resolve) => {
      this.#worker.on('exit', (code) => {
        failed(new Error(`the quota thread ended with ${code}`));
        this.#port.close();
        resolve();
      });
    });
    // The monitor's process must not go on because of this thread.
    this.#worker.unref();
    this.#port.unref();
  }

  /** The page of a slot; `fd` must stay open until this resolves, and is not closed. */
  addPage(name: string, fd: number | null): Promise<void> {
    return this.#ask({ type: 'page', name, fd });
  }

  removePage(name: string) {
    this.#post({ type: 'no-page', name });
  }

  /** Resolves when the slot's page has the session's limit: it may begin. */
  place(placement: QuotaPlacement): Promise<void> {
    return this.#ask({ type: 'place', placement });
  }

  setShare(session: number, share: { request: number; limit: number }): Promise<void> {
    return this.#ask({ type: 'share', session, ...share });
  }

  end(session: number) {
    this.#post({ type: 'end', session });
  }

  async stop() {
    this.#stopping = true;
    // The process must go on until the thread has ended, even if it has nothing else left to do.
    this.#worker.ref();
    this.#post({ type: 'stop' });
    await this.#ended;
    for (const { reject } of this.#waiting.values())
      reject(new Error('the quota runner is stopped'));
    this.#waiting.clear();
  }

  #ask(message: ToWorker): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    const ack = ++this.#acks;
    return new Promise((resolve, reject) => {
      this.#waiting.set(ack, { resolve, reject });
      this.#post({ ...message, ack });
    });
  }

  #post(message: ToWorker) {
    this.#port.postMessage(message);
    Atomics.add(this.#bell, 0, 1);
    Atomics.notify(this.#bell, 0);
  }
}
