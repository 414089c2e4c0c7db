// Section 7.5 with functions that work: programs (programs/function.c) that fill memory, prepare, and keep a software GPU busy,
// on a real server that shares its GPUs' time and, where it is told to, moves who runs from a full GPU to an empty one.
import type { ChildProcess } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { build } from '../../bin/paths.mjs';
import type { View } from '../../monitor/src/base/view.js';
import type { Arrival, Setting } from '../../simulator/dgsf/plan.js';
import { gpuMemory } from '../../simulator/dgsf/workloads.js';
import { Loaded } from '../load/serving.js';
import { startProcess } from '../src/serving.js';

const MB = 1n << 20n;
/** What a session may need besides what it asks for, in MB: its modules, and stacks of kernels. */
const beside = 134;
/** Of the declared memory a function fills so much: NLP's 4,028 MB of Table 1 are 0.8 of its 5,000. */
const filled = 0.8;
const lookMilliseconds = 100;

/** `memoryScale`: how many times less memory there is than in the paper; time is the paper's. */
export interface Working {
  setting: Setting;
  migration: boolean;
  memoryScale: number;
}

export interface Worked {
  workload: string;
  /** Where it was, in turn. */
  gpus: number[];
  /** Seconds since the first function began. */
  ended: number;
}

export async function work(
  { setting: { gpus, servers, policy }, migration, memoryScale }: Working,
  plan: readonly Arrival[],
  timeScale = 1,
): Promise<Worked[]> {
  const whole = Math.ceil(gpuMemory / memoryScale) + servers * beside;
  const server = await Loaded.start(
    gpus,
    servers,
    [
      ...['--placement', policy, '--module-memory', '128M', '--pinned-memory', 'none'],
      ...['--migration', migration ? 'imbalance' : 'none'],
    ],
    {
      SOFTWARE_DEVICE_MEMORY: String(BigInt(whole) * MB),
      SOFTWARE_DEVICE_MULTIPROCESSORS: '1',
      SOFTWARE_DEVICE_WORKERS: '1',
    },
  );
  const running: Running[] = [];
  const seen = new Map<number, number[]>();
  const ended = new AbortController();
  const begun = performance.now();
  try {
    const looking = look(server.http, seen, ended.signal);
    for (const { workload } of plan) {
      const one = new Running(workload, servers, memoryScale, timeScale, server.address.port);
      running.push(one);
      // Nobody overtakes anybody on the way, so that the order is the plan's: who waits in the queue is behind all others.
      if (running.length <= gpus * servers) await one.ready;
    }
    const times = await Promise.all(
      running.map(async ({ right }) => {
        await right;
        return (performance.now() - begun) / 1000;
      }),
    );
    ended.abort();
    await looking;
    const places = [...seen].sort(([one], [other]) => one - other).map(([, gpus]) => gpus);
    return plan.map(({ workload: { name } }, index) => ({
      workload: name,
      gpus: places[index] ?? [],
      ended: times[index] ?? Number.NaN,
    }));
  } finally {
    ended.abort();
    for (const one of running) one.kill();
    await server.stop();
  }
}

/** Where each session is, as often as that changes. */
async function look(http: string, seen: Map<number, number[]>, ended: AbortSignal) {
  while (!ended.aborted) {
    const { sessions } = (await (await fetch(`${http}v1/state`)).json()) as View;
    for (const { id, gpu } of sessions) {
      const gpus = seen.get(id) ?? [];
      if (gpus.at(-1) !== gpu) seen.set(id, [...gpus, gpu]);
    }
    await sleep(lookMilliseconds);
  }
}

/** One function. */
class Running {
  readonly #child: ChildProcess;
  readonly ready: Promise<unknown>;
  /** That its memory was at the end what it should be. */
  readonly right: Promise<void>;

  constructor(
    { name, memory, prepare, gpu }: Arrival['workload'],
    servers: number,
    memoryScale: number,
    timeScale: number,
    port: number,
  ) {
    const declared = Math.floor(memory / memoryScale);
    const milliseconds = [prepare, gpu].map((seconds) => String((1000 * seconds) / timeScale));
    const bytes = BigInt(Math.floor(declared * filled)) * MB;
    const { child, line } = startProcess(
      [path.join(build, 'bench', 'bench-function'), ...milliseconds.concat(String(bytes))] as [
        string,
        ...string[],
      ],
      {
        LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
        OUTBOARD_SERVER: `127.0.0.1:${port}`,
        OUTBOARD_NAME: name,
        OUTBOARD_MEMORY: `${declared}M`,
        // Of a GPU that several want, each has its part; one alone has all.
        OUTBOARD_SHARE: `${Math.floor(100 / servers)}:100`,
      },
    );
    this.#child = child;
    this.ready = line;
    this.right = (async () => {
      let last = '';
      for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream }))
        last = line;
      if (last !== 'right') throw new Error(`${name} ended with: ${last}`);
    })();
    // Who fails is told of where it is waited for.
    this.right.catch(() => {});
  }

  kill() {
    this.#child.kill('SIGKILL');
  }
}
