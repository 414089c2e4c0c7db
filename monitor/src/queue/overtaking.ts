// Who may pass whom in the queue. The rule is first come, first served, with two exceptions. A waiter does not stand
// before those whom it does not need anything of: they pass it, and nobody counts that (`standsBefore`, by what it
// waits for). And one that does stand before others may let them pass all the same, `passedMost` times
// (`letsOthersPass`): every one where `skip` says so (`--queue-skip`), else one that only waits for a process.
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

export interface Waiter {
  readonly request: Pick<SessionRequest, 'tenant'>;
  waitsFor: WaitsFor;
  /** How many of other tenants were served before it since it came. */
  passed: number;
}

/** Whether `waiter` has to be served before one of `tenant` that came later, who would take what it waits for. */
function standsBefore({ waitsFor, request }: Waiter, tenant: string): boolean {
  if (waitsFor === 'own sessions') return request.tenant === tenant;
  return waitsFor === 'others' || waitsFor === 'own process' || waitsFor === 'closing session';
}

/** Whether this waiter lets others be served before it. `skip`: whether all let whoever fits. */
function letsOthersPass({ passed, waitsFor }: Waiter, skip: boolean): boolean {
  return (skip || waitsFor === 'own process') && passed < passedMost;
}

/** Returns the first of `waiters` behind whom a new one of `tenant` has to wait; undefined: there is none. */
export function inTheWay(
  waiters: Iterable<Waiter>,
  tenant: string,
  skip: boolean,
): Waiter | undefined {
  for (const waiter of waiters) {
    if (standsBefore(waiter, tenant) && !letsOthersPass(waiter, skip)) return waiter;
  }
  return undefined;
}

/**
 * Counts for each of `waiters` that one of `tenant` was served before it. For waiters of the same tenant it
 * does not count: with a waiter of its own that may no longer be passed, a tenant would hold up all others.
 */
export function countPassed(waiters: Iterable<Waiter>, tenant: string) {
  for (const waiter of waiters) {
    const isOwn = tenant !== '' && waiter.request.tenant === tenant;
    if (!isOwn && standsBefore(waiter, tenant)) waiter.passed++;
  }
}

/**
 * Gives each its turn, head first: `serve` returns whether it was served, or sets what it waits for. One
 * that has to stay behind another of its tenant waits for the same as that one.
 */
export function takeTurns<W extends Waiter>(
  waiters: readonly W[],
  skip: boolean,
  serve: (waiter: W) => boolean,
) {
  const before: W[] = [];
  const behind = new Set<string>();
  for (const waiter of waiters) {
    const { tenant } = waiter.request;
    if (behind.has(tenant)) waiter.waitsFor = 'own sessions';
    else if (serve(waiter)) countPassed(before, tenant);
    else {
      before.push(waiter);
      if (letsOthersPass(waiter, skip)) continue;
      if (waiter.waitsFor === 'own sessions') behind.add(tenant);
      else if (standsBefore(waiter, tenant)) return;
    }
  }
}
