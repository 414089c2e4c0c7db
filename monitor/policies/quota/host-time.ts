// HAS-GPU's own quota tokens, to replay what it measured: one lets a session launch for a part of a
// window of wall time, of 40 ms there. What its kernels take on the device is not looked at, so a session
// with few long launches is hardly slowed down. A session asks for one by launching without it.
import {
  type QuotaInput,
  type QuotaOutput,
  type QuotaParameters,
  type QuotaPolicy,
  type QuotaSession,
  usualQuotaParameters,
} from '../quota.js';

/** Percent of the SMs that all sessions that hold a quota token have together. */
const wholeGpu = 100;

/** A quota token that was given: from when until when, in wall time. */
interface QuotaToken {
  readonly from: bigint;
  readonly until: bigint;
}

export interface HostTimeMemory {
  /** By session, oldest first; the last may still run. */
  readonly quotaTokens: ReadonlyMap<number, readonly QuotaToken[]>;
  /** By session: charged may reach this while its last quota token runs. */
  readonly limits: ReadonlyMap<number, bigint>;
}

/** Sessions hold quota tokens at the same time as long as their parts of the SMs add up to no more than all. */
export function hostTime({
  windowMs,
}: Pick<QuotaParameters, 'windowMs'> = usualQuotaParameters): QuotaPolicy<HostTimeMemory> {
  const windowNs = BigInt(windowMs) * 1_000_000n;
  return {
    name: 'host-time',
    summary:
      'quota tokens for launching in wall time, whatever the kernels take (HAS-GPU, to compare)',
    about:
      'To compare with the paper. Sessions launch at the same time as long as their parts of the SMs ' +
      '(`sm` in --functions) add up to no more than all. What kernels take is not measured, so that ' +
      'long ones get more than their share.',
    unit: 'host-time',
    periodMs: 1,
    start: () => ({ quotaTokens: new Map(), limits: new Map() }),
    step: (input) => step(input, windowNs),
  };
}

interface Asking {
  session: QuotaSession;
  used: number;
  need: number;
}

function step(
  { now, sessions, memory }: QuotaInput<HostTimeMemory>,
  windowNs: bigint,
): QuotaOutput<HostTimeMemory> {
  const quotaTokens = new Map<number, readonly QuotaToken[]>();
  const limits = new Map<number, bigint>();
  const asking: Asking[] = [];
  let holding = 0;
  for (const session of sessions) {
    const { id, charged, wants, shareRequest, shareLimit } = session;
    let mine = (memory.quotaTokens.get(id) ?? []).filter(({ until }) => until > now - windowNs);
    const last = mine.at(-1);
    const limit = memory.limits.get(id) ?? charged;
    const runs = last !== undefined && last.until > now && charged < limit;
    limits.set(id, runs ? limit : charged);
    if (runs) holding += smOf(session);
    else if (wants) {
      // It asks again: what is left of the last quota token is given back.
      if (last && last.until > now) mine = [...mine.slice(0, -1), { ...last, until: now }];
      const used = usedOf(mine, now, windowNs);
      if (percent(shareLimit, windowNs) - used > 0) {
        asking.push({ session, used, need: percent(shareRequest, windowNs) - used });
      }
    }
    quotaTokens.set(id, mine);
  }
  for (const { session, need, used } of asking.sort(inTurn)) {
    // Who has its turn is not passed by one that needs fewer SMs, or it would never have them.
    if (holding + smOf(session) > wholeGpu) break;
    // A session without a request may still use what nobody needs: its quota token is of its limit then.
    const share = session.shareRequest > 0 ? session.shareRequest : session.shareLimit;
    const length = BigInt(
      Math.round(need > 0 ? percent(share, windowNs) : room(session, used, share, windowNs)),
    );
    const { id, charged } = session;
    quotaTokens.set(id, given(quotaTokens.get(id) ?? [], now, now + length));
    limits.set(id, charged + length);
    holding += smOf(session);
  }
  return { limits, memory: { quotaTokens, limits } };
}

/** Percent of the SMs that it runs on. */
function smOf({ sm = wholeGpu }: QuotaSession): number {
  return Math.min(wholeGpu, sm);
}

/** With one more; what follows another at once is one with it, or long windows would hold ever so many. */
function given(before: readonly QuotaToken[], from: bigint, until: bigint): QuotaToken[] {
  const last = before.at(-1);
  if (last?.until !== from) return [...before, { from, until }];
  return [...before.slice(0, -1), { from: last.from, until }];
}

/** A quota token beyond the request ends where the limit is reached. */
function room({ shareLimit }: QuotaSession, used: number, share: number, windowNs: bigint): number {
  return Math.min(percent(share, windowNs), percent(shareLimit, windowNs) - used);
}

function percent(share: number, windowNs: bigint): number {
  return (Number(windowNs) * share) / 100;
}

/** Nanoseconds of the window behind `now` in which it held a quota token. */
function usedOf(quotaTokens: readonly QuotaToken[], now: bigint, windowNs: bigint): number {
  const begin = now - windowNs;
  let used = 0n;
  for (const { from, until } of quotaTokens) {
    const start = from > begin ? from : begin;
    const end = until < now ? until : now;
    if (end > start) used += end - start;
  }
  return Number(used);
}

/** Who needs most of what it was promised first; then who has used least. */
function inTurn(one: Asking, other: Asking): number {
  const urgency = ({ need, used }: Asking) => (need > 0 ? need / (need + used) : -1);
  return (
    urgency(other) - urgency(one) || one.used - other.used || one.session.id - other.session.id
  );
}
