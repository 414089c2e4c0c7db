// HAS-GPU's own quota tokens, to replay what it measured: one lets a session launch for a part of a
// window of 40 ms of wall time. What its kernels take on the device is not looked at, so a session
// with few long launches is hardly slowed down. A session asks for one by launching without it.
import type { QuotaInput, QuotaOutput, QuotaPolicy, QuotaSession } from '../quota.js';

const windowNs = 40_000_000n;
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

/** `sm`: percent of the SMs that each session runs on; with 100 one at a time holds a quota token. */
export function hostTime(sm = wholeGpu): QuotaPolicy<HostTimeMemory> {
  return {
    name: 'host-time',
    summary:
      'quota tokens for launching in wall time, whatever the kernels take (HAS-GPU, to compare)',
    unit: 'host-time',
    periodMs: 1,
    start: () => ({ quotaTokens: new Map(), limits: new Map() }),
    step: (input) => step(input, sm),
  };
}

interface Asking {
  session: QuotaSession;
  used: number;
  need: number;
}

function step(
  { now, sessions, memory }: QuotaInput<HostTimeMemory>,
  sm: number,
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
    if (runs) holding += sm;
    else if (wants) {
      // It asks again: what is left of the last quota token is given back.
      if (last && last.until > now) mine = [...mine.slice(0, -1), { ...last, until: now }];
      const used = usedOf(mine, now);
      if (percent(shareLimit) - used > 0) {
        asking.push({ session, used, need: percent(shareRequest) - used });
      }
    }
    quotaTokens.set(id, mine);
  }
  for (const { session, need, used } of asking.sort(inTurn)) {
    if (holding + sm > wholeGpu) break;
    // A session without a request may still use what nobody needs: its quota token is of its limit then.
    const share = session.shareRequest > 0 ? session.shareRequest : session.shareLimit;
    const length = BigInt(Math.round(need > 0 ? percent(share) : room(session, used, share)));
    const { id, charged } = session;
    quotaTokens.set(id, [...(quotaTokens.get(id) ?? []), { from: now, until: now + length }]);
    limits.set(id, charged + length);
    holding += sm;
  }
  return { limits, memory: { quotaTokens, limits } };
}

/** A quota token beyond the request ends where the limit is reached. */
function room({ shareLimit }: QuotaSession, used: number, share: number): number {
  return Math.min(percent(share), percent(shareLimit) - used);
}

function percent(share: number): number {
  return (Number(windowNs) * share) / 100;
}

/** Nanoseconds of the window behind `now` in which it held a quota token. */
function usedOf(quotaTokens: readonly QuotaToken[], now: bigint): number {
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
