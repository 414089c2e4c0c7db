// HAS-GPU's own tokens, to replay what it measured: a token lets a session launch for a part of a
// window of 40 ms of wall time. What its kernels take on the device is not looked at, so a session
// with few long launches is hardly slowed down. Tokens are asked for by launching without one.
import type { QuotaInput, QuotaOutput, QuotaPolicy, QuotaSession } from '../quota.js';

const windowNs = 40_000_000n;
/** Of the SMs, all sessions that hold a token together. */
const wholeGpu = 100;

/** A token that was given: from when until when, in wall time. */
interface Token {
  readonly from: bigint;
  readonly until: bigint;
}

export interface HostTimeMemory {
  /** By session, oldest first; the last may still run. */
  readonly tokens: ReadonlyMap<number, readonly Token[]>;
  /** By session: charged may reach this while its last token runs. */
  readonly limits: ReadonlyMap<number, bigint>;
}

/** `sm`: percent of the SMs that each session runs on; with 100 one at a time holds a token. */
export function hostTime(sm = wholeGpu): QuotaPolicy<HostTimeMemory> {
  return {
    name: 'host-time',
    summary: 'tokens for launching in wall time, whatever the kernels take (HAS-GPU, to compare)',
    unit: 'host-time',
    periodMs: 1,
    start: () => ({ tokens: new Map(), limits: new Map() }),
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
  const tokens = new Map<number, readonly Token[]>();
  const limits = new Map<number, bigint>();
  const asking: Asking[] = [];
  let holding = 0;
  for (const session of sessions) {
    const { id, charged, wants, shareRequest, shareLimit } = session;
    let mine = (memory.tokens.get(id) ?? []).filter(({ until }) => until > now - windowNs);
    const last = mine.at(-1);
    const limit = memory.limits.get(id) ?? charged;
    const runs = last !== undefined && last.until > now && charged < limit;
    limits.set(id, runs ? limit : charged);
    if (runs) holding += sm;
    else if (wants) {
      // It asks again: what is left of the last token is given back.
      if (last && last.until > now) mine = [...mine.slice(0, -1), { ...last, until: now }];
      const used = usedOf(mine, now);
      if (percent(shareLimit) - used > 0) {
        asking.push({ session, used, need: percent(shareRequest) - used });
      }
    }
    tokens.set(id, mine);
  }
  for (const { session, need, used } of asking.sort(inTurn)) {
    if (holding + sm > wholeGpu) break;
    // A session without a request may still use what nobody needs: its token is of its limit then.
    const share = session.shareRequest > 0 ? session.shareRequest : session.shareLimit;
    const length = BigInt(Math.round(need > 0 ? percent(share) : room(session, used, share)));
    const { id, charged } = session;
    tokens.set(id, [...(tokens.get(id) ?? []), { from: now, until: now + length }]);
    limits.set(id, charged + length);
    holding += sm;
  }
  return { limits, memory: { tokens, limits } };
}

/** A token beyond the request ends where the limit is reached. */
function room({ shareLimit }: QuotaSession, used: number, share: number): number {
  return Math.min(percent(share), percent(shareLimit) - used);
}

function percent(share: number): number {
  return (Number(windowNs) * share) / 100;
}

/** Nanoseconds of the window behind `now` in which it held a token. */
function usedOf(tokens: readonly Token[], now: bigint): number {
  const begin = now - windowNs;
  let used = 0n;
  for (const { from, until } of tokens) {
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
