// Dilu's vertical scaling (RCKM, its Algorithm 2): every 5 ms each session gets quota tokens, one a
// thread block. A session of class latency-strict whose bursts of work take longer than they did
// puts the GPU into EMERGENCY and makes the others shrink. Two versions: the algorithm as printed,
// and one with what was found to be wrong in it corrected.

import {
  type QuotaInput,
  type QuotaOutput,
  type QuotaParameters,
  type QuotaPolicy,
  type QuotaSession,
  usualQuotaParameters,
} from '../quota.js';
import type { SessionClass } from '../state.js';
import { type Bursts, measure, noBursts, slowdown } from './bursts.js';

export type DiluState = 'NONE' | 'EMERGENCY' | 'RECOVERY' | 'CONTENTION';

export const constants = {
  periodMs: 5,
  /** Samples in the window of rates: half a second. */
  window: 100,
  /** The slowdown at which an emergency begins: 1.6 times the shortest. */
  violation: 0.6,
  /** And at which it ends, when corrected: 1.2 times. */
  relief: 0.2,
  /** From here on, 4 times, it is another kind of work and not a slowdown. */
  outlier: 3,
  /** Growth in RECOVERY. */
  increase: 1.3,
  /** When corrected, once in so many periods. */
  increaseEvery: 5,
  /** Of Max; what a session has before the first decision. */
  initial: 0.1,
  /** Of Max times request: the least. */
  floor: 0.01,
} as const;

interface Task {
  readonly charged: bigint;
  /** What has flowed out of its bucket: charged minus this is the level. */
  readonly drained: bigint;
  /** Quota tokens of the last period. */
  readonly quotaTokens: number;
  readonly samples: number;
  /** Samples without blocks, up to now, in a row. */
  readonly quiet: number;
  readonly bursts: Bursts;
}

export interface DiluMemory {
  readonly state: DiluState;
  /** Who is in an emergency, and how far it is slowed down. */
  readonly owners: ReadonlyMap<number, number>;
  readonly step: number;
  readonly tasks: ReadonlyMap<number, Task>;
}

interface Entry {
  session: QuotaSession;
  task: Task;
}

export function dilu(
  version: 'paper' | 'corrected',
  { maxBlocks }: Pick<QuotaParameters, 'maxBlocks'> = usualQuotaParameters,
): QuotaPolicy<DiluMemory> {
  return {
    name: `dilu-${version}`,
    summary:
      version === 'paper'
        ? 'thread blocks per 5 ms, states by slowdown of latency-strict sessions (Dilu, as printed)'
        : 'the same with the faults of the printed algorithm corrected (Dilu)',
    about:
      'To compare with the paper. Latency-strict sessions come before all others: while one is ' +
      'slowed down, others may fall below what they were promised. A long block counts like a short ' +
      'one. It wants to know how many blocks the GPU runs in 5 ms when it is full (--max-blocks).',
    unit: 'blocks',
    periodMs: constants.periodMs,
    start: () => ({ state: 'NONE', owners: new Map(), step: 0, tasks: new Map() }),
    step: (input) => new Step(version === 'corrected', maxBlocks, input).run(),
  };
}

class Step {
  readonly #corrected: boolean;
  readonly #max: number;
  readonly #entries: Entry[];
  readonly #step: number;
  readonly #owners: Map<number, number>;
  #state: DiluState;

  constructor(corrected: boolean, max: number, { sessions, memory }: QuotaInput<DiluMemory>) {
    this.#corrected = corrected;
    this.#max = max;
    this.#step = memory.step + 1;
    this.#state = memory.state;
    // In the order of ids, whatever order they come in.
    const sorted = [...sessions].sort((one, other) => one.id - other.id);
    this.#entries = sorted.map((session) => {
      return { session, task: this.#sample(session, memory.tasks.get(session.id)) };
    });
    const here = new Set(sorted.map(({ id }) => id));
    this.#owners = new Map([...memory.owners].filter(([id]) => here.has(id)));
  }

  run(): QuotaOutput<DiluMemory> {
    const strict = this.#of('latency-strict');
    const quotaTokens = new Map<number, number>();
    // Without anybody to protect there is no state.
    if (strict.length === 0) this.#state = 'NONE';
    const wanted: DiluState[] = [];
    for (const entry of strict) {
      const [state, amount] = this.#decide(entry);
      wanted.push(state);
      // As printed, the last one decides for the GPU.
      if (!this.#corrected) this.#state = state;
      quotaTokens.set(entry.session.id, amount);
    }
    if (this.#corrected && strict.length > 0) this.#state = mostSevere(wanted);
    for (const entry of this.#of('best-effort')) {
      quotaTokens.set(entry.session.id, this.#follow(entry));
    }
    return this.#output(quotaTokens);
  }

  /** The new sample of its rate. */
  #sample(session: QuotaSession, known: Task | undefined): Task {
    const { charged } = session;
    const blocks = known ? Number(charged - known.charged) : 0;
    const quiet = blocks > 0 ? 0 : (known?.quiet ?? 0) + 1;
    return {
      charged,
      drained: known?.drained ?? charged,
      quotaTokens: known?.quotaTokens ?? this.#max * constants.initial,
      samples: (known?.samples ?? 0) + 1,
      quiet,
      bursts: measure(known?.bursts ?? noBursts, blocks > 0, this.#corrected),
    };
  }

  /** What a latency-strict session makes of its own figures. */
  #decide({ session, task }: Entry): [DiluState, number] {
    const { id } = session;
    const request = this.#max * (session.shareRequest / 100);
    const limit = this.#max * (session.shareLimit / 100);
    const slow = slowdown(task.bursts);
    if (this.#isEmergency(id, slow)) {
      this.#owners.set(id, slow);
      return ['EMERGENCY', limit];
    }
    this.#owners.delete(id);
    if (isQuiet(task)) return ['RECOVERY', request];
    const others = this.#entries.filter((other) => other.session.id !== id);
    if (others.every((other) => isQuiet(other.task))) {
      const most = this.#corrected ? limit : this.#max;
      return ['RECOVERY', Math.min(most, task.quotaTokens * constants.increase)];
    }
    return ['CONTENTION', request];
  }

  #isEmergency(id: number, slow: number): boolean {
    if (slow >= constants.outlier) return false;
    if (slow >= constants.violation) return true;
    // Once begun it lasts until all is nearly well, or it would begin and end all the time.
    return this.#corrected && this.#owners.has(id) && slow >= constants.relief;
  }

  /** What a best-effort session gets in the state that the others have brought about. */
  #follow({ session, task }: Entry): number {
    const request = this.#max * (session.shareRequest / 100);
    const limit = this.#max * (session.shareLimit / 100);
    switch (this.#state) {
      case 'NONE':
        return limit;
      case 'EMERGENCY':
        // As printed, a slowdown below 1 makes more of it.
        return Math.min(request, task.quotaTokens) / (this.#slowest + (this.#corrected ? 1 : 0));
      case 'RECOVERY': {
        if (this.#corrected && this.#step % constants.increaseEvery !== 0) return task.quotaTokens;
        return Math.min(task.quotaTokens * constants.increase, limit);
      }
      case 'CONTENTION':
        return task.quotaTokens;
    }
  }

  /** Of those in an emergency. */
  get #slowest(): number {
    return Math.max(constants.violation, ...this.#owners.values());
  }

  #of(wanted: SessionClass): Entry[] {
    return this.#entries.filter(({ session }) => session.class === wanted);
  }

  #output(quotaTokens: ReadonlyMap<number, number>): QuotaOutput<DiluMemory> {
    const limits = new Map<number, bigint>();
    const tasks = new Map<number, Task>();
    for (const { session, task } of this.#entries) {
      const floor = Math.max(1, constants.floor * this.#max * (session.shareRequest / 100));
      const amount = Math.max(floor, quotaTokens.get(session.id) ?? 0);
      // A leaky bucket: in each period its level sinks by the session's quota tokens, to nothing at
      // least. A session waits while its level is above them; at exactly that many it may still start,
      // so the limit is one more.
      const flown = task.drained + BigInt(Math.floor(amount));
      const drained = flown < task.charged ? flown : task.charged;
      limits.set(session.id, drained + BigInt(Math.floor(amount)) + 1n);
      tasks.set(session.id, { ...task, drained, quotaTokens: amount });
    }
    const memory = { state: this.#state, owners: this.#owners, step: this.#step, tasks };
    return { limits, memory };
  }
}

/** The sum over the window is nothing. */
function isQuiet({ quiet, samples }: Task): boolean {
  return quiet >= Math.min(samples, constants.window);
}

function mostSevere(states: readonly DiluState[]): DiluState {
  const order: DiluState[] = ['EMERGENCY', 'CONTENTION', 'RECOVERY'];
  return order.find((state) => states.includes(state)) ?? 'NONE';
}
