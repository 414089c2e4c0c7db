// The thread of the quota runner. Its event loop never turns. It sleeps on a word of shared memory until the
// next step is due or a message has come, so that nothing in the monitor delays a step. Without a session it
// sleeps until a message comes.
import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { loadNative } from '../../../api-server/src/native.js';
import { QuotaPage } from '../../../api-server/src/quota-page.js';
import type { QuotaParameters } from '../../policies/quota.js';
import { MemoryPage } from './page-view.js';
import { QuotaLoop, type QuotaPlacement, type QuotaReport } from './runner-loop.js';

export interface WorkerSetUp {
  policy: string;
  parameters: readonly QuotaParameters[];
  /** Where the addon is. */
  build: string;
  port: MessagePort;
  /** One word, incremented for each message. */
  bell: Int32Array;
}

/** `fd` null: a page in the thread's own memory, which no gate looks at. */
export type ToWorker = { ack?: number } & (
  | { type: 'page'; name: string; fd: number | null }
  | { type: 'no-page'; name: string }
  | { type: 'place'; placement: QuotaPlacement }
  | { type: 'share'; session: number; request: number; limit: number }
  | { type: 'end'; session: number }
  | { type: 'stop' }
);

export type FromWorker =
  | { type: 'ack'; ack: number; error: string | null }
  | { type: 'report'; report: QuotaReport };

const { policy, parameters, build, port, bell } = workerData as WorkerSetUp;
const tell = (message: FromWorker) => port.postMessage(message);
const loop = new QuotaLoop(policy, (report) => tell({ type: 'report', report }), parameters);

while (handleAll()) {
  const now = process.hrtime.bigint();
  loop.tick(now);
  const rung = Atomics.load(bell, 0);
  if (!handleAll()) break;
  const { due } = loop;
  const wait =
    due === null ? Number.POSITIVE_INFINITY : Number(due - process.hrtime.bigint()) / 1e6;
  if (wait > 0) Atomics.wait(bell, 0, rung, wait);
}
port.close();

/** Does what the message says; returns false when the thread is to stop. */
function handleAll(): boolean {
  for (;;) {
    const received = receiveMessageOnPort(port);
    if (!received) return true;
    const message = received.message as ToWorker;
    if (message.type === 'stop') return false;
    let error: string | null = null;
    try {
      handle(message);
    } catch (caught) {
      error = (caught as Error).message;
    }
    if (message.ack !== undefined) tell({ type: 'ack', ack: message.ack, error });
  }
}

function handle(message: Exclude<ToWorker, { type: 'stop' }>) {
  switch (message.type) {
    case 'page': {
      const { name, fd } = message;
      const page = fd === null ? new MemoryPage() : QuotaPage.open(loadNative(build), fd);
      return loop.addPage(name, page);
    }
    case 'no-page':
      return loop.removePage(message.name);
    case 'place':
      return loop.place(process.hrtime.bigint(), message.placement);
    case 'share':
      return loop.setShare(message.session, message.request, message.limit);
    case 'end':
      return loop.end(message.session);
  }
}
