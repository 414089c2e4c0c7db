// Who may pass whom in the queue. The rule is first come, first served, with one exception: who would have
// to wait even if all other tenants were gone waits for its own sessions, and may be passed by others.
import type { SessionRequest } from '../../policies/state.js';

/**
 * What a waiter waits for.
 * others: that sessions of other tenants end. own sessions: that sessions of its own tenant end, too.
 * own limit: that its tenant's limit leaves more. own process: for a new process in place of one that its
 * tenant has used. no session: for a GPU that cannot be used now.
 */
export type WaitsFor = 'others' | 'own sessions' | 'own limit' | 'own process' | 'no session';

/** At most so many others pass a waiter that may be passed; after them, all others wait behind it. */
export const passedMost = 100;

export interface Waiter {
  readonly request: Pick<SessionRequest, 'tenant'>;
  waitsFor: WaitsFor;
  /** How many others were served before it since it came. */
  passed: number;
}

/** Whether `waiter` has to be served before one of `tenant` that came later, who would take what it waits for. */
function goesFirst({ waitsFor, request }: Waiter, tenant: string): boolean {
  if (waitsFor === 'own sessions') return request.tenant === tenant;
  return waitsFor === 'others' || waitsFor === 'own process';
}

/** Whether others may be served before this waiter. `skip`: whether whoever fits may pass others in general. */
export function mayBePassed({ passed, waitsFor }: Waiter, skip: boolean): boolean {
  return (skip || waitsFor === 'own process') && passed < passedMost;
}

/** Returns the first of `waiters` behind whom a new one of `tenant` has to wait; undefined: there is none. */
export function inTheWay(
  waiters: Iterable<Waiter>,
  tenant: string,
  skip: boolean,
): Waiter | undefined {
  for (const waiter of waiters) {
    if (goesFirst(waiter, tenant) && !mayBePassed(waiter, skip)) return waiter;
  }
  return undefined;
}

/**
 * Counts for each of `waiters` that one of `tenant` was served before it. For waiters of the same tenant it
 * does not count: with a waiter of its own that may no longer be passed, a tenant would hold up all others.
 */
export function hasPassed(waiters: Iterable<Waiter>, tenant: string) {
  for (const waiter of waiters) {
    const isOwn = tenant !== '' && waiter.request.tenant === tenant;
    if (!isOwn && goesFirst(waiter, tenant)) waiter.passed++;
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
  const held = new Set<string>();
  for (const waiter of waiters) {
    const { tenant } = waiter.request;
    if (held.has(tenant)) waiter.waitsFor = 'own sessions';
    else if (serve(waiter)) hasPassed(before, tenant);
    else {
      before.push(waiter);
      if (mayBePassed(waiter, skip)) continue;
      if (waiter.waitsFor === 'others' || waiter.waitsFor === 'own process') return;
      if (waiter.waitsFor === 'own sessions') held.add(tenant);
    }
  }
}
