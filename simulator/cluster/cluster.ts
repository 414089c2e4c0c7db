// Carries out what policies of a cluster decide: asks of each effect whether it is possible, does it, and remembers what
// came of it, which the policy is told with the next events.
import { type Entry, Ledger } from '../../monitor/policies/cluster/ledger.js';
import { type ClusterPolicy, parametersOf } from '../../monitor/policies/cluster/policy.js';
import type { Device } from '../../monitor/policies/cluster/resources.js';
import {
  type ClusterEvent,
  type ClusterState,
  contractVersion,
  type Effect,
  type FunctionState,
  problemOf,
  type RequestState,
} from '../../monitor/policies/cluster/state.js';

export class Cluster {
  readonly ledger: Ledger;
  readonly functions = new Map<string, FunctionState>();
  readonly waiting: RequestState[] = [];
  /** Milliseconds. */
  now = 0;
  #revision = 0;

  constructor(devices: readonly Device[]) {
    this.ledger = new Ledger(devices);
  }

  get state(): ClusterState {
    const { now, ledger, functions, waiting } = this;
    return { version: contractVersion, revision: this.#revision, now, ledger, functions, waiting };
  }

  /** Does what the effect says where that concerns places; returns why it cannot be done, or null. */
  carryOut(effect: Effect): string | null {
    const problem = problemOf(effect, this.state);
    if (problem !== null) return problem;
    if (effect.kind === 'place') {
      const { instance, name, parts } = effect;
      this.ledger.claim({ instance, name, how: 'starting', parts });
      this.#revision++;
    } else if (effect.kind === 'quota') {
      this.ledger.resize(effect.instance, effect.resources);
      this.#revision++;
    } else if (effect.kind === 'end') {
      this.end(effect.instance);
    }
    return null;
  }

  /** An instance ends; returns what it had. */
  end(instance: number): Entry | undefined {
    this.#revision++;
    return this.ledger.release(instance);
  }
}

/** One policy at work: keeps its memory and what it has to be told. */
export class Decider<Memory, Names extends string> {
  readonly policy: ClusterPolicy<Memory, Names>;
  readonly #cluster: Cluster;
  readonly #parameters: Readonly<Record<Names, number>>;
  #memory: Memory;
  #acknowledged: ClusterEvent[] = [];
  /** Milliseconds that its decisions have taken. */
  took = 0;
  decisions = 0;

  /** Throws a RangeError where a parameter is unknown or out of range. */
  constructor(
    policy: ClusterPolicy<Memory, Names>,
    cluster: Cluster,
    given: Readonly<Record<string, number>> = {},
  ) {
    this.policy = policy;
    this.#cluster = cluster;
    this.#parameters = parametersOf(policy, given);
    this.#memory = policy.start();
  }

  /** Tells it what has happened, carries its effects out, and returns those that were. Throws where two instances are wanted. */
  tell(...events: ClusterEvent[]): Effect[] {
    if (events.filter(({ kind }) => kind === 'instance wanted').length > 1) {
      throw new Error('instances are placed one after the other');
    }
    const told = [...this.#acknowledged, ...events];
    const begun = performance.now();
    const { effects, memory } = this.policy.decide({
      state: this.#cluster.state,
      events: told,
      memory: this.#memory,
      parameters: this.#parameters,
    });
    this.took += performance.now() - begun;
    this.decisions++;
    this.#memory = memory;
    this.#acknowledged = [];
    const done: Effect[] = [];
    for (const effect of effects) {
      const failed = this.#cluster.carryOut(effect);
      this.#acknowledged.push({ kind: 'acknowledged', effect, failed });
      if (failed === null) done.push(effect);
    }
    return done;
  }
}
