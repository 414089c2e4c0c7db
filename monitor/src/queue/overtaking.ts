// Who may pass whom in the queue. The rule is first come, first served, with two exceptions. A waiter does not stand
// before those whom it does not need anything of: they pass it, and nobody counts that (`standsBefore`, by what it
// waits for, and on the GPUs that it may use: `Kept`). And one that does stand before others may let them pass all the
// same, `passedMost` times (`letsOthersPass`): every one where `skip` says so (`--queue-skip`), else one that only waits
// for a process.
import type { SessionRequest } from '../../policies/state.js';

/**
 * What a waiter waits for.
 * others: that sessions of other tenants end. own sessions: that sessions of its own tenant end, too.
 * own limit: that its tenant's limit leaves more. own process: for a new process in place of one that its
 * tenant has used. usable gpu: for a GPU that cannot be used now, whoever ends. closing session: for what one that
 * is ending gives back. It could begin now, with less memory, and does so after a moment.
 */
export type WaitsFor =
  | 'others'
  | 'own sessions'
  | 'own limit'
  | 'own process'
  | 'usable gpu'
  | 'closing session';

/** So many of other tenants may pass a waiter that stands before them; after that, all wait behind it. */
export const passedMost = 100;

/** What of a request says whom it stands before, and where. */
type Wish = Pick<SessionRequest, 'tenant' | 'gpus' | 'allowed' | 'tenantMemory' | 'tenantSessions'>;

export interface Waiter {
  readonly request: Wish;
  waitsFor: WaitsFor;
  /** How many of other tenants were served before it since it came, on GPUs that it may use. */
  passed: number;
}

/** GPUs by index; null: all. */
export type Gpus = readonly number[] | null;

/** Whether `waiter` has to be served before one of `tenant` that came later, who would take what it waits for. */
function standsBefore({ waitsFor, request }: Waiter, tenant: string): boolean {
  if (waitsFor === 'own sessions') return request.tenant === tenant;
  return waitsFor === 'others' || waitsFor === 'own process' || waitsFor === 'closing session';
}

/** Whether this waiter lets others be served before it. `skip`: whether all let whoever fits. */
function letsOthersPass({ passed, waitsFor }: Waiter, skip: boolean): boolean {
  return (skip || waitsFor === 'own process') && passed < passedMost;
}

/** GPUs that are kept for those who came first. */
class Some {
  readonly #gpus = new Set<number>();
  #all = false;
  /** What the first of them waits for. */
  readonly waitsFor: WaitsFor;

  constructor(waitsFor: WaitsFor) {
    this.waitsFor = waitsFor;
  }

  get all(): boolean {
    return this.#all;
  }

  add(gpus: Gpus) {
    if (gpus === null) this.#all = true;
    for (const gpu of gpus ?? []) this.#gpus.add(gpu);
  }

  has(gpu: number): boolean {
    return this.#all || this.#gpus.has(gpu);
  }
}

/** Where those who wait stand before who came later. */
export class Kept {
  readonly #gpus: number;
  #fromAll: Some | undefined;
  readonly #fromTenant = new Map<string, Some>();

  /** @param gpus how many there are */
  constructor(gpus: number) {
    this.#gpus = gpus;
  }

  /** Whether nobody who comes later is served anywhere. */
  get all(): boolean {
    return this.#fromAll?.all ?? false;
  }

  /** One that lets nobody pass keeps the GPUs that it may use. */
  add(waiter: Waiter, skip: boolean) {
    const { waitsFor, request } = waiter;
    if (!standsBefore(waiter, request.tenant) || letsOthersPass(waiter, skip)) return;
    // What its own tenant takes elsewhere is missing of that tenant's limits, too.
    const { tenant, allowed, tenantMemory, tenantSessions } = request;
    const isLimited = (tenantMemory ?? null) !== null || (tenantSessions ?? null) !== null;
    const own = this.#fromTenant.get(tenant) ?? new Some(waitsFor);
    this.#fromTenant.set(tenant, own);
    own.add(isLimited ? null : allowed);
    if (waitsFor === 'own sessions') return;
    this.#fromAll ??= new Some(waitsFor);
    this.#fromAll.add(allowed);
  }

  /** The GPUs where this one may be served now, or what it has to wait for as there are too few. */
  leaves({ tenant, gpus, allowed }: Wish): { gpus: Gpus } | WaitsFor {
    const kept = [this.#fromTenant.get(tenant), this.#fromAll].filter((one) => one !== undefined);
    const [first] = kept;
    if (!first) return { gpus: allowed };
    const mine = allowed ?? Array.from({ length: this.#gpus }, (_, gpu) => gpu);
    const left = mine.filter((gpu) => !kept.some((one) => one.has(gpu)));
    if (left.length < gpus || left.length === 0) return first.waitsFor;
    return { gpus: left.length === mine.length ? allowed : left };
  }
}

/** Where those of a queue stand before who comes now. `gpus`: how many there are. */
export function keptBy(waiters: Iterable<Waiter>, gpus: number, skip: boolean): Kept {
  const kept = new Kept(gpus);
  for (const waiter of waiters) {
    kept.add(waiter, skip);
    if (kept.all) break;
  }
  return kept;
}

/**
 * Counts for each of `waiters` that one of `tenant` was served before it on those GPUs. For waiters of the same tenant
 * it does not count: with a waiter of its own that may no longer be passed, a tenant would hold up all others.
 */
export function countPassed(waiters: Iterable<Waiter>, tenant: string, gpus: readonly number[]) {
  for (const waiter of waiters) {
    const { request } = waiter;
    const isOwn = tenant !== '' && request.tenant === tenant;
    if (isOwn || !standsBefore(waiter, tenant)) continue;
    if (gpus.some((gpu) => request.allowed === null || request.allowed.includes(gpu)))
      waiter.passed++;
  }
}

/**
 * Counts for those who came before this one that it was served before them on those GPUs, whatever they wait for. Not
 * for those of its own tenant: a tenant could make itself strict by letting its own pass.
 */
export function countOvertaken<W extends { readonly id: number; overtaken: number; request: Wish }>(
  arrived: Iterable<W>,
  { id, request: { tenant } }: { readonly id: number; readonly request: Pick<Wish, 'tenant'> },
  gpus: readonly number[],
) {
  for (const one of arrived) {
    if (one.id >= id) return;
    const { allowed } = one.request;
    if (tenant !== '' && one.request.tenant === tenant) continue;
    if (gpus.some((gpu) => allowed === null || allowed.includes(gpu))) one.overtaken++;
  }
}

/**
 * Gives each its turn, head first: `serve` returns the GPUs where it was served, which are of those it is given, or
 * sets what it waits for. `gpus`: how many there are. One that has to stay behind others waits for the same as they.
 */
export function takeTurns<W extends Waiter>(
  waiters: readonly W[],
  gpus: number,
  skip: boolean,
  serve: (waiter: W, allowed: Gpus) => readonly number[] | null,
) {
  const before: W[] = [];
  const kept = new Kept(gpus);
  for (const waiter of waiters) {
    const left = kept.leaves(waiter.request);
    if (typeof left === 'string') {
      waiter.waitsFor = left;
      continue;
    }
    const served = serve(waiter, left.gpus);
    if (served) {
      countPassed(before, waiter.request.tenant, served);
      continue;
    }
    before.push(waiter);
    kept.add(waiter, skip);
    if (kept.all) return;
  }
}
