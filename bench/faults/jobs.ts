// What clients do in a storm: real CUDA programs, whose output is compared with a native run, and
// guests of which the monitor sees as much and which take milliseconds.
import type { ChildProcess } from 'node:child_process';
import { listPrograms } from '../../examples/build.mjs';
import type { Address } from '../../monitor/src/options/values.js';
import { Guest } from '../../monitor/test/support/guest.js';
import type { Random } from '../../simulator/server/random.js';
import { noPrograms, root } from '../../test/support/paths.js';
import {
  example,
  native,
  type Outcome,
  outcome,
  startRemoted,
  testProgram,
} from '../../test/support/program.js';

/** How a job went, as far as the client itself can tell. */
export interface Ended {
  /** right: as natively, or as a guest should see it. failed: it said so itself. */
  how: 'right' | 'failed' | 'wrong';
  detail: string;
}

export interface Client {
  ended: Promise<Ended>;
  /** SIGKILL, or a connection torn down. */
  kill(): void;
}

export interface Task {
  what: string;
  /** Milliseconds that it takes when all is quiet, about: a moment to be killed at is drawn from them. */
  usual: number;
  /** Prints the errors it gets and goes on, to exit code 0. */
  showsErrors: boolean;
  /** `name` is what the server calls it in its log. */
  start(address: Address, name: string): Client;
}

/** Short ones, some that need much memory, many launches or several threads. */
const examples = ['vector-add', 'matrix-multiply', 'reduction', 'histogram', 'stencil', 'printf'];
const programs = ['memory', 'events', 'per-thread', 'handles', 'mapped-memory', 'graph-nodes'];
/** Of both GPUs of the server: its sessions are admitted together, and one ends with the other. */
const ofTwoGpus = ['several-devices'];

/** Each is run natively first, to know what is right. */
export async function programTasks(): Promise<Task[]> {
  if (noPrograms) return [];
  const listed = listPrograms(`${root}/examples`);
  const files = [
    ...examples.map((name) => {
      const args = listed.find((one) => one.name === name)?.testArgs ?? [];
      return { name, file: example(name), args, showsErrors: false };
    }),
    ...[...programs, ...ofTwoGpus].map((name) => ({
      ...{ name, file: testProgram(name), args: [], showsErrors: true },
    })),
  ];
  const tasks: Task[] = [];
  for (const { name, file, args, showsErrors } of files) {
    const begun = performance.now();
    const gpus = ofTwoGpus.includes(name) ? '2' : '1';
    const wanted = await native(file, { args, env: { SOFTWARE_DEVICE_GPUS: gpus } });
    if (wanted.code !== 0) throw new Error(`${name} fails natively: ${wanted.stderr}`);
    const usual = performance.now() - begun;
    tasks.push({
      what: name,
      usual,
      showsErrors,
      start({ host, port }, called) {
        // So small that several share a GPU: reservations and the queue have something to do.
        const limit = { OUTBOARD_GPUS: gpus, OUTBOARD_MEMORY: '96M' };
        const env = { OUTBOARD_NAME: called, OUTBOARD_LOG: 'error', ...limit };
        const child = startRemoted(file, `${host}:${port}`, { args, env });
        const ended = outcome(child).then((run) => judge(run, wanted));
        return { ended, kill: () => kill(child) };
      },
    });
  }
  return tasks;
}

function kill(child: ChildProcess) {
  child.kill('SIGKILL');
}

function judge(run: Outcome, wanted: Outcome): Ended {
  const how = run.signal ?? `exit code ${run.code}`;
  if (run.code === 0 && run.stdout === wanted.stdout) return { how: 'right', detail: how };
  const detail = `${how}; ${run.stderr.trim() || run.stdout.trim()}`;
  return { how: run.code === 0 ? 'wrong' : 'failed', detail };
}

/** Comes, is welcomed, goes: with a goodbye or in the middle of things. */
function attach(memory: bigint): Task {
  return {
    what: `guest of ${memory >> 20n} MiB`,
    usual: 20,
    showsErrors: false,
    start(address, name) {
      const guest = Guest.hello(address, { name, memory });
      return { ended: welcomed(guest), kill: () => guest.socket.destroy() };
    },
  };
}

async function welcomed(guest: Guest): Promise<Ended> {
  try {
    const { session } = await guest.welcome();
    await guest.leave();
    return { how: 'right', detail: `session ${session}` };
  } catch (error) {
    await guest.leave();
    return { how: 'failed', detail: (error as Error).message };
  }
}

/** Says half of what it should, or something else, and is refused or gives up itself. */
const rude: Task = {
  what: 'half a Hello',
  usual: 5,
  showsErrors: false,
  start(address, name) {
    const guest = new Guest(address);
    guest.send(name.length % 2 === 0 ? 'OUTBOARD' : 'NONSENSE'.repeat(4));
    guest.socket.end();
    const ended = guest.rest().then((): Ended => ({ how: 'right', detail: 'is answered or left' }));
    return { ended, kill: () => guest.socket.destroy() };
  },
};

/** What guests there are for a GPU of which sessions may have so many bytes. */
export function guestTasks(memory: bigint): Task[] {
  const parts = [memory, memory / 2n, memory / 3n, memory / 8n, memory / 8n];
  return [...parts.map(attach), rude];
}

export function pick(random: Random, programs: readonly Task[], guests: readonly Task[]): Task {
  const program = programs.length > 0 && random.uniform() < 0.4;
  return random.pick(program ? programs : guests);
}
