// The experiment on a real `outboard serve` with software GPUs, time made shorter. A function is a
// guest that attaches, holds its session for as long as the function would, and leaves: admission,
// queue, placement, reservations, processes and hand-overs are real, GPU work is not done.
import { setTimeout as sleep } from 'node:timers/promises';
import { Guest } from '../../monitor/test/support/guest.js';
import { Serving } from '../../monitor/test/support/serving.js';
import type { Arrival, Done, Setting } from '../../simulator/dgsf/plan.js';
import { gpuMemory } from '../../simulator/dgsf/workloads.js';
import type { Teardowns } from '../faults/scope.js';

const MB = 1n << 20n;
/** What is kept back for each session's modules, in MB. */
const overhead = 128;
/** And for stacks of kernels, where a GPU has one multiprocessor. */
const stacks = 6;

/** `scale`: how many times faster than in the paper time passes. */
export async function serve(
  scope: Teardowns,
  { gpus, servers, policy }: Setting,
  plan: readonly Arrival[],
  scale: number,
): Promise<Done[]> {
  const args = [
    ...['--gpus', String(gpus), '--servers-per-gpu', String(servers), '--placement', policy],
    ...['--module-memory', `${overhead}M`, '--pinned-memory', 'none'],
  ];
  const bytes = BigInt(gpuMemory + servers * (overhead + stacks)) * MB;
  const env = { SOFTWARE_DEVICE_MEMORY: String(bytes), SOFTWARE_DEVICE_MULTIPROCESSORS: '1' };
  const serving = await Serving.start(scope, args, env);
  const { memory } = await serving.logged({ msg: 'GPU' });
  const there = Number(BigInt(Number(memory)) / MB);
  if (there !== gpuMemory) throw new Error(`sessions may have ${there} MB of a GPU`);
  const begun = performance.now();
  let before: Promise<unknown> = Promise.resolve();
  const running = plan.map((one) => {
    const guest = arrive(serving, one, begun + milliseconds(one.at, scale), before);
    // Nobody overtakes anybody on the way, so that the order is the plan's.
    before = guest;
    return guest.then((guest) => run(serving, guest, one, begun, scale));
  });
  const done = await Promise.all(running);
  await serving.stop();
  return done;
}

/** A guest that has been given its place in the queue, or a session at once. */
interface Arrived {
  guest: Guest;
  session: bigint | null;
}

async function arrive(
  serving: Serving,
  { workload: { name, memory } }: Arrival,
  due: number,
  before: Promise<unknown>,
): Promise<Arrived> {
  await until(due);
  await before;
  const guest = Guest.hello(serving.address, { name, memory: BigInt(memory) * MB });
  const answer = await guest.answer();
  if (!answer || 'refusal' in answer) throw new Error(`${name} was refused`);
  return { guest, session: 'welcome' in answer ? answer.welcome.session : null };
}

async function run(
  serving: Serving,
  { guest, session: at }: Arrived,
  arrival: Arrival,
  begun: number,
  scale: number,
): Promise<Done> {
  const { name, prepare, gpu: work } = arrival.workload;
  const due = begun + milliseconds(arrival.at, scale);
  const session = at ?? (await guest.welcome()).session;
  const waited = seconds(due, scale);
  // It prepares from its beginning on, whether it has an API server already or not.
  const ready = Math.max(performance.now(), due + milliseconds(prepare, scale));
  await until(ready + milliseconds(work, scale));
  await guest.leave();
  const ended = seconds(begun, scale);
  const { slot } = await serving.logged({ session: Number(session), msg: 'session begins' });
  const gpu = Number(String(slot).split('.')[0]);
  return { workload: name, gpu, arrived: arrival.at, waited, ended };
}

/** Of the paper's seconds, here. */
function milliseconds(seconds: number, scale: number): number {
  return (1000 * seconds) / scale;
}

/** In the paper's time, since a moment of ours. */
function seconds(since: number, scale: number): number {
  return ((performance.now() - since) * scale) / 1000;
}

function until(moment: number): Promise<void> {
  return sleep(Math.max(0, moment - performance.now()));
}
