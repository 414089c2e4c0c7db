// Who may pass whom in the queue. It is first come, first served, but for one who would have to wait
// also if all other tenants were gone: it waits for its own sessions, and others do not wait with it.
import type { SessionRequest } from '../../policies/state.js';

/**
 * What one who waits waits for: sessions of others to end, only of its own tenant, more of its tenant's
 * limit, a process in place of one that its tenant has cost, or a GPU that can be used again.
 */
export type WaitsFor = 'others' | 'own sessions' | 'own limit' | 'own process' | 'no session';

/** How many that fit may pass one who waits, where they may: then they wait with it. */
export const passedMost = 100;

export interface Waiter {
  readonly request: Pick<SessionRequest, 'tenant'>;
  waitsFor: WaitsFor;
  /** How many have passed it. */
  passed: number;
}

/** Whether one of `tenant` that comes later takes what `waiter` waits for. */
function goesFirst({ waitsFor, request }: Waiter, tenant: string): boolean {
  if (waitsFor === 'own sessions') return request.tenant === tenant;
  return waitsFor === 'others' || waitsFor === 'own process';
}

/** `skip`: whether one that fits may pass others. */
export function mayBePassed({ passed, waitsFor }: Waiter, skip: boolean): boolean {
  return (skip || waitsFor === 'own process') && passed < passedMost;
}

/** Whom one of `tenant` that comes behind all of `waiters` has to wait with; undefined: nobody. */
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
 * One of `tenant` has been served before these. Those of the same tenant are not passed by it, or it could
 * make all others wait with one of its own.
 */
export function hasPassed(waiters: Iterable<Waiter>, tenant: string) {
  for (const waiter of waiters) {
    const isOwn = tenant !== '' && waiter.request.tenant === tenant;
    if (!isOwn && goesFirst(waiter, tenant)) waiter.passed++;
  }
}

/**
 * Gives each its turn, head first: `serve` says whether it is served, or sets what it waits for. Who has
 * to wait with one of its own tenant waits for what that one does.
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
