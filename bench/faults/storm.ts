// A server under load whose clients and API server processes are killed at random points, with a
// clock that jumps. Whoever was not hit must come out right, and nothing may be left.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Guest } from '../../monitor/test/support/guest.js';
import { Serving } from '../../monitor/test/support/serving.js';
import { SharedMemory } from '../../monitor/test/support/shared-memory.js';
import { Random } from '../../simulator/server/random.js';
import { type Client, type Ended, guestTasks, pick, programTasks, type Task } from './jobs.js';
import type { Teardowns } from './scope.js';
import { childrenOf, descriptors, isAlive, moreThan, until } from './traces.js';

export interface StormOptions {
  seed: number;
  jobs: number;
  atOnce: number;
  gpus: number;
  serversPerGpu: number;
  /** Of all jobs, the part that is killed. */
  killedJobs: number;
  /** Kills of API server processes, as a part of the number of jobs. */
  killedSlots: number;
}

interface Job {
  name: string;
  task: Task;
  killed: boolean;
  ended: Ended;
}

/** What is to become of a job: moments are parts of twice the time that it usually takes. */
interface Plan {
  name: string;
  task: Task;
  killAfter: number | null;
  killSlot: number | null;
  /** Which process, from 0 to 1. */
  which: number;
}

export interface StormReport {
  jobs: number;
  programs: number;
  killedJobs: number;
  killedSlots: number;
  /** Sessions that the server says it has lost with their process. */
  lost: number;
  /** Not killed, and their session not lost. */
  survivors: number;
  /** Jobs whose end is not as it should be, in words. */
  wrong: string[];
  /** What is left of it, in words. */
  left: string[];
  seconds: number;
}

/** In the server's processes: the wall clock jumps by up to two days with every look at it. */
const jumpingClock = `--import=${new URL('jumping-clock.js', import.meta.url)}`;

const memoryOfGpu = 1n << 30n;

export class Storm {
  readonly #options: StormOptions;
  readonly #serving: Serving;
  readonly #memory: bigint;
  readonly #folder: string;
  readonly #programs: Task[];
  readonly #guests: Task[];
  readonly #random: Random;
  readonly #jobs: Job[] = [];
  readonly #slots = new Set<number>();
  readonly #shared = new SharedMemory();
  #killedSlots = 0;

  private constructor(
    options: StormOptions,
    serving: Serving,
    memory: bigint,
    folder: string,
    programs: Task[],
  ) {
    this.#options = options;
    this.#serving = serving;
    this.#memory = memory;
    this.#folder = folder;
    this.#programs = programs;
    this.#guests = guestTasks(memory);
    this.#random = new Random(options.seed);
  }

  static async run(scope: Teardowns, options: StormOptions): Promise<StormReport> {
    const folder = mkdtempSync(path.join(tmpdir(), 'outboard-storm-'));
    scope.teardown(() => rmSync(folder, { recursive: true }));
    const programs = await programTasks();
    const args = [
      ...['--gpus', String(options.gpus), '--servers-per-gpu', String(options.serversPerGpu)],
      // None of which may pass because a clock jumps.
      ...['--hello-timeout', '3600', '--queue-timeout', '86400', '--hang-timeout', '3600'],
    ];
    const env = {
      SOFTWARE_DEVICE_MEMORY: String(memoryOfGpu),
      TMPDIR: folder,
      NODE_OPTIONS: jumpingClock,
    };
    const serving = await Serving.start(scope, args, env);
    const { memory } = await serving.logged({ msg: 'GPU' });
    const storm = new Storm(options, serving, BigInt(Number(memory)), folder, programs);
    const begun = performance.now();
    await storm.#everythingIsThere();
    const open = descriptors(storm.#monitor);
    await storm.#rage();
    await storm.#everythingIsThere();
    const left = await storm.#calm(open);
    await serving.stop();
    left.push(...storm.#afterwards());
    return storm.#report(left, (performance.now() - begun) / 1000);
  }

  get #monitor(): number {
    return this.#serving.child.pid ?? 0;
  }

  async #rage() {
    const { jobs, atOnce } = this.#options;
    // Drawn before it begins, so that who is who does not depend on who is faster.
    const plans = Array.from({ length: jobs }, (_, index) => this.#plan(index));
    const next = async () => {
      for (let plan = plans.pop(); plan; plan = plans.pop()) await this.#one(plan);
    };
    await Promise.all(Array.from({ length: atOnce }, next));
  }

  #plan(index: number): Plan {
    const { killedJobs, killedSlots } = this.#options;
    const random = this.#random;
    return {
      name: `job-${index}`,
      task: pick(random, this.#programs, this.#guests),
      killAfter: random.uniform() < killedJobs ? random.uniform() : null,
      killSlot: random.uniform() < killedSlots ? random.uniform() : null,
      which: random.uniform(),
    };
  }

  async #one({ name, task, killAfter, killSlot, which }: Plan) {
    const client = task.start(this.#serving.address, name);
    let killed = false;
    const timers: NodeJS.Timeout[] = [];
    // Twice as long as usual: it has company here. Some have ended by then.
    const at = (part: number) => 2 * part * task.usual;
    if (killAfter !== null) {
      const hit = () => {
        killed = true;
        client.kill();
      };
      timers.push(setTimeout(hit, at(killAfter)));
    }
    if (killSlot !== null) timers.push(setTimeout(() => this.#killSlot(which), at(killSlot)));
    const ended = await over(client);
    for (const timer of timers.slice(0, killAfter === null ? 0 : 1)) clearTimeout(timer);
    this.#jobs.push({ name, task, killed, ended });
  }

  #killSlot(which: number) {
    const pids = childrenOf(this.#monitor);
    for (const pid of pids) this.#slots.add(pid);
    this.#shared.look(pids);
    const victim = pids[Math.floor(which * pids.length)];
    if (victim === undefined) return;
    process.kill(victim, 'SIGKILL');
    this.#killedSlots++;
  }

  /** Every slot takes a session at the same time, and then every GPU one with all its memory. */
  async #everythingIsThere() {
    const { gpus, serversPerGpu } = this.#options;
    const together = async (count: number, memory: bigint) => {
      const { address } = this.#serving;
      const guests = Array.from({ length: count }, () => Guest.hello(address, { memory }));
      await Promise.all(guests.map((guest) => guest.welcome()));
      await Promise.all(guests.map((guest) => guest.leave()));
    };
    await together(gpus * serversPerGpu, 0n);
    await together(gpus, this.#memory);
    this.#shared.look([this.#monitor, ...childrenOf(this.#monitor)]);
  }

  /** What is too much in a server that has nothing to do. */
  async #calm(open: Record<string, number>): Promise<string[]> {
    const { gpus, serversPerGpu } = this.#options;
    // Ends of connections and processes are told to the monitor a little later.
    const quiet = () =>
      moreThan(open, descriptors(this.#monitor)).length === 0 &&
      childrenOf(this.#monitor).length === gpus * serversPerGpu;
    await Promise.race([until(quiet), new Promise((give) => setTimeout(give, 20_000).unref())]);
    const slots = childrenOf(this.#monitor);
    for (const pid of slots) this.#slots.add(pid);
    const left = moreThan(open, descriptors(this.#monitor));
    if (slots.length !== gpus * serversPerGpu) left.push(`${slots.length} processes`);
    return left;
  }

  #afterwards(): string[] {
    const processes = [...this.#slots].filter(isAlive).map((pid) => `process ${pid}`);
    return [...processes, ...this.#shared.left, ...readdirSync(this.#folder)];
  }

  #report(left: string[], seconds: number): StormReport {
    const logged = this.#serving.lines.filter(({ msg }) => /^session lost/.test(msg));
    const names = new Set(logged.map((line) => line['name']));
    // Three processes in a row were killed under it before it could begin.
    const unlucky = /OB_SLOT_LOST/;
    const isLost = ({ name, ended }: Job) => names.has(name) || unlucky.test(ended.detail);
    const jobs = this.#jobs;
    const survivors = jobs.filter((job) => !job.killed && !isLost(job));
    const wrong = jobs
      .filter((job) => isWrong(job, isLost(job)))
      .map(({ name, task, ended }) => `${name} (${task.what}): ${ended.how}: ${ended.detail}`);
    return {
      jobs: jobs.length,
      programs: jobs.filter(({ task }) => this.#programs.includes(task)).length,
      killedJobs: jobs.filter(({ killed }) => killed).length,
      killedSlots: this.#killedSlots,
      lost: jobs.filter(isLost).length,
      survivors: survivors.length,
      wrong,
      left,
      seconds,
    };
  }
}

function isWrong({ task, killed, ended }: Job, lost: boolean): boolean {
  if (ended.how === 'right') return false;
  if (ended.how === 'failed') return !killed && !lost;
  // A program that shows errors instead of failing has something else to show then.
  return !(lost && task.showsErrors);
}

function over(client: Client): Promise<Ended> {
  return client.ended.catch((error: Error) => ({ how: 'wrong', detail: error.message }));
}
