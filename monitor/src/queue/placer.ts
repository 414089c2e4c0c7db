// Asks the placement policy where a request goes now, among the slots whose processes its tenant may have.
import {
  type PlacementParameters,
  type PlacementPolicy,
  placeAll,
} from '../../policies/placement.js';
import type {
  GpuState,
  Placement,
  ServerState,
  SessionRequest,
  SessionState,
} from '../../policies/state.js';
import type { Pool } from '../slots/pool.js';
import type { WaitsFor } from './overtaking.js';
import { whatGpusLack, whyPlaced } from './reasons.js';

export interface PlacerOptions {
  placement: PlacementPolicy;
  /** What decides where that one fails. */
  instead: PlacementPolicy;
  parameters: PlacementParameters;
}

export class Placer {
  readonly #options: PlacerOptions;
  readonly #pool: Pool;
  readonly #stateOf: (gpus: GpuState[]) => ServerState;
  /** Whether a process serves one tenant only. Set once, when the slots are warm. */
  newProcess = false;
  /** What went wrong in the last decision, which another policy has made then. */
  #failures: string[] = [];

  /** `stateOf` makes the state that policies see of GPUs as the pool has them. */
  constructor(options: PlacerOptions, pool: Pool, stateOf: (gpus: GpuState[]) => ServerState) {
    this.#options = options;
    this.#pool = pool;
    this.#stateOf = stateOf;
  }

  /** Returns a place on each GPU that is asked for. Null: the request has to wait. Nothing is reserved. */
  place(request: SessionRequest): Placement[] | null {
    const { placement, parameters } = this.#options;
    this.#failures = [];
    return placeAll(placement, this.#stateFor(request), request, parameters);
  }

  /** Has to be told where the policy fails at a decision. */
  failed(what: string) {
    // Of a request of several GPUs it may be each.
    if (!this.#failures.includes(what)) this.#failures.push(what);
  }

  /** What went wrong in the last `place`. */
  get failures(): readonly string[] {
    return this.#failures;
  }

  /** Why the last `place` has chosen these. To be asked before they are reserved. */
  whyPlaced(request: SessionRequest, placements: readonly Placement[]): string {
    const { placement, instead, parameters } = this.#options;
    const policy = this.#failures.length > 0 ? instead : placement;
    return whyPlaced(policy, this.#stateFor(request), request, parameters, placements);
  }

  /** What each GPU lacks now for a request that waits. */
  whatGpusLack(request: SessionRequest): string[] {
    const { placement, parameters } = this.#options;
    return whatGpusLack(placement, this.#stateFor(request), request, parameters);
  }

  #stateFor({ tenant }: SessionRequest): ServerState {
    return this.#stateOf(this.newProcess ? this.#pool.stateFor(tenant) : this.#pool.state);
  }

  /**
   * Where a waiting request lacks nothing but processes that have not served other tenants: makes new those
   * that serve nobody now. Returns whether that is what it waits for.
   */
  renewFor(request: SessionRequest): boolean {
    if (!this.newProcess) return false;
    const { placement, parameters } = this.#options;
    const place = (pool: GpuState[]) =>
      placeAll(placement, this.#stateOf(pool), request, parameters);
    const soon = place(this.#pool.stateComing(request.tenant)) ?? place(this.#pool.stateRenewed);
    for (const one of soon ?? []) this.#pool.renew(one, request.tenant);
    return soon !== null;
  }

  /** Whose sessions keep a request from being placed now: it is tried as if they were gone. */
  whyNotPlaced(request: SessionRequest): WaitsFor {
    if (this.#fitsBeside(request, ({ tenant }) => tenant === request.tenant)) return 'others';
    return this.#fitsBeside(request, () => false) ? 'own sessions' : 'usable gpu';
  }

  #fitsBeside(request: SessionRequest, stays: (session: SessionState) => boolean): boolean {
    const { placement, parameters } = this.#options;
    const state = this.#stateOf(this.#pool.state);
    const sessions = state.gpus.map((gpu) => gpu.sessions.filter(stays));
    const taken = sessions.map((ofGpu) => ofGpu.map(({ slot }) => slot));
    const gpus = this.#pool
      .stateWith(taken)
      .map((gpu, index) => ({ ...gpu, sessions: sessions[index] ?? [] }));
    return placeAll(placement, { ...state, gpus }, request, parameters) !== null;
  }
}
