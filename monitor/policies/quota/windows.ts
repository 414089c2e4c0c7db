// Shares of measured device time. Time here passes with the work that the device does, not with
// the clock: what was done in a period is divided among those who wanted it (owed.ts), and the
// difference to what each has used is its credit. Everyone may be a little ahead of the one that is
// furthest behind, so that the device never waits for the next step; whoever is further ahead is
// held until the others have caught up. A long kernel is a large negative credit, paid back in the
// same way. Limits are of wall time: a bucket that holds at most a window.
import {
  type QuotaInput,
  type QuotaOutput,
  type QuotaParameters,
  type QuotaPolicy,
  type QuotaSession,
  usualQuotaParameters,
} from '../quota.js';
import {
  type Account,
  awaitNs,
  balance,
  type Entry,
  isStill,
  keepUp,
  leadNs,
  periodMs,
  periodNs,
  settle,
} from './credits.js';
import { afterRest, type Debts } from './debts.js';
import { type Claim, fill, owedShares, type Ranking, sum, weightOf } from './owed.js';

/** What all together may use in a period at least; a little more, as the next step may be late. */
const enoughNs = 1.25 * periodNs;

/** Of the device's usual use; below, it stands idle because somebody is held. */
const idleBelow = 0.95;
/** What counts as recent for that, in periods: what is charged comes in lumps. */
const recentPeriods = 8;
/** How much of the estimate of the device's usual use is forgotten in each period. */
const peakDecay = 0.005;
/** Of what was spare, while the device does not stand idle. */
const spareKept = 0.7;

/** How far back a session's appetite looks, in periods; above the other, it has always wanted more. */
const appetitePeriods = 32;
const steadyAppetite = 0.95;
/** The same, below which it is not launches that leave gaps, nor chance. */
const stillBelow = 0.5;
/** Whoever let more pass than that needs as many of work, up to so many, to be waited for again. */
const stillMost = 32;

export interface WindowsMemory {
  readonly now: bigint | null;
  readonly accounts: ReadonlyMap<number, Account>;
  /** What tenants owe whose sessions have ended. */
  readonly debts: Debts;
  /** Work that was charged when it was released and has not run yet. */
  readonly ahead: number;
  /** The part of time in which the device worked, over the last few periods. */
  readonly recent: number;
  /** That when it is full: launches may leave gaps. */
  readonly peak: number;
  /** What everyone may use beyond its credit, because those it waits for did not: found by trying. */
  readonly spare: number;
}

export interface WindowsOptions {
  name: string;
  summary: string;
  about: string;
  rank: Ranking;
}

export function windows(
  { name, summary, about, rank }: WindowsOptions,
  { windowMs }: Pick<QuotaParameters, 'windowMs'> = usualQuotaParameters,
): QuotaPolicy<WindowsMemory> {
  const windowNs = windowMs * 1e6;
  return {
    name,
    summary,
    about,
    unit: 'device-time',
    periodMs,
    start: () => ({
      now: null,
      accounts: new Map(),
      debts: new Map(),
      ahead: 0,
      recent: 1,
      peak: 1,
      spare: 0,
    }),
    step: (input) => step(input, rank, windowNs),
  };
}

function step(
  { now, sessions, ended = [], memory }: QuotaInput<WindowsMemory>,
  rank: Ranking,
  windowNs: number,
): QuotaOutput<WindowsMemory> {
  const passed = memory.now === null ? 0 : Math.max(0, Number(now - memory.now));
  const debts = afterRest(memory.debts, passed, sessions.length);
  for (const session of ended) debts.leave(session, memory.accounts.get(session.id));
  const entries = sessions.map((session) => {
    const known = memory.accounts.get(session.id);
    return entryOf(session, known, passed, known ? 0 : debts.take(session.tenant));
  });
  const use = deviceUse(entries, passed, memory);
  divide(entries, passed, use, rank, windowNs);
  foresee(entries, rank);
  settle(entries, passed, windowNs);
  keepUp(entries);
  balance(entries);
  const limits = new Map<number, bigint | null>();
  const accounts = new Map<number, Account>();
  const present = entries.filter((entry) => entry.present);
  const moving = present.filter((entry) => !isStill(entry));
  const start = headStart(moving.length > 0 ? moving : present, windowNs);
  for (const entry of entries) {
    const { session, credit, level } = entry;
    const { id, charged, wants: wanted, shareLimit } = session;
    const alone = present.every((other) => other === entry);
    const allowed = allowance(entry, alone, start, use.spare);
    const limit = allowed === null ? null : charged + BigInt(Math.floor(Math.max(0, allowed)));
    limits.set(id, limit);
    accounts.set(id, {
      appetite: entry.appetite,
      still: entry.still,
      charged,
      wanted,
      present: entry.present,
      away: entry.away,
      limit,
      credit,
      booked: entry.booked,
      level,
      shareLimit,
      queued: session.queued === true,
    });
  }
  return {
    limits,
    memory: {
      now,
      accounts,
      debts: debts.left,
      ahead: use.ahead,
      recent: use.recent,
      peak: use.peak,
      spare: use.spare,
    },
  };
}

function entryOf(
  session: QuotaSession,
  known: Account | undefined,
  passed: number,
  debt: number,
): Entry {
  const { charged, wants, shareLimit } = session;
  const change = Number(charged - (known?.charged ?? session.began ?? charged));
  const used = Math.max(0, change);
  const limit = known?.limit ?? null;
  const refund = Math.max(0, -change);
  const held = wants && limit !== null && charged + BigInt(refund) >= limit;
  const hungry = wants && known?.wanted === true;
  const room = known && limit !== null ? Number(limit - known.charged) : 0;
  const still = known?.still ?? 0;
  const before = known?.appetite ?? 0.5;
  const appetite = before + (Number(wants) - before) / appetitePeriods;
  const away = wants ? 0 : (known?.away ?? 0) + passed;
  const was = wants || known?.wanted === true;
  const awaited = !was && known?.present === true && known.credit > 0 && away < awaitNs;
  return {
    session,
    known,
    used,
    refund,
    credit: known?.credit ?? -debt,
    before: known?.credit ?? -debt,
    booked: known?.booked ?? 0,
    // A new limit is in effect at once: nothing saved under the old one is used up first.
    level: known?.shareLimit === shareLimit ? known.level : Math.min(0, known?.level ?? 0),
    hungry,
    present: was || awaited,
    away,
    awaited,
    part: 0,
    hard: Number.POSITIVE_INFINITY,
    held,
    appetite,
    room: hungry && !held ? room : 0,
    still,
    queued: session.queued === true || known?.queued === true,
    steady: appetite > steadyAppetite,
  };
}

interface DeviceUse {
  /** Nanoseconds charged in the last period. */
  used: number;
  /** Nanoseconds that it did not work although somebody who was held had work for it. */
  idle: number;
  ahead: number;
  recent: number;
  peak: number;
  spare: number;
}

function deviceUse(entries: readonly Entry[], passed: number, memory: WindowsMemory): DeviceUse {
  const used = sum(entries.map((entry) => entry.used));
  if (passed === 0) return { ...memory, used, idle: 0 };
  // What is refunded was never done, and is not done later; what others used, they did.
  const undone = sum(entries.map((entry) => entry.refund));
  const work = Math.max(0, memory.ahead - undone) + used;
  const covered = Math.min(passed, work);
  const ahead = Math.min(1e9, work - covered);
  const change = (covered / passed - memory.recent) / recentPeriods;
  // While somebody waits for another one's work to end, the device works, whatever of that is charged.
  const works = entries.some(({ queued }) => queued);
  const recent = memory.recent + (works ? Math.max(0, change) : change);
  const held = entries.some((entry) => entry.held);
  const most = Math.max(0, ...entries.map((entry) => entry.used));
  // While somebody waits for one that has room, that it is not full tells nothing of what it can do.
  const telling = !(held && entries.some((entry) => entry.hungry && !hadTurns(entry, most)));
  const peak = Math.max(recent, memory.peak * (telling ? 1 - peakDecay : 1));
  const stands = held && recent < idleBelow * peak;
  for (const entry of entries) countStill(entry, held && recent < stillBelow * peak, most);
  const waitedFor = entries.some(
    (entry) => entry.present && !entry.held && (!entry.steady || isStill(entry)),
  );
  const idle = stands && waitedFor ? Math.max(0, peak * passed - covered) : 0;
  const spare = idle > 0 ? Math.min(periodNs, memory.spare + idle) : memory.spare * spareKept;
  return { used, idle, ahead, recent, peak, spare };
}

/**
 * While the device stands idle, only who uses its room counts as at work: a trickle of small kernels
 * does not help. While it is busy, who gets its turns does: others are in its way. They surely are in the
 * way of one that waits for their work to end, however little of a long kernel is charged while it runs; and
 * it does its part where it uses its turns.
 */
function countStill(entry: Entry, stands: boolean, most: number) {
  if (!entry.hungry) return;
  if (entry.queued) {
    if (entry.used > 0) entry.still = Math.max(0, entry.still - 1);
    return;
  }
  if (stands && entry.used < entry.room / 2) entry.still = Math.min(stillMost, entry.still + 1);
  else if (hadTurns(entry, most)) entry.still = Math.max(0, entry.still - 1);
}

/** Of what is charged in a period, next to whoever has used the most. */
function hadTurns({ used, room }: Entry, most: number): boolean {
  return used >= Math.min(room, most / 2) / 2;
}

/** Divides the last period among those who wanted it, and books what each has used of it. */
function divide(
  entries: readonly Entry[],
  passed: number,
  { used, idle }: DeviceUse,
  rank: Ranking,
  windowNs: number,
) {
  const amount = used + idle;
  const claims = entries.map((entry): Claim => {
    const { shareRequest, shareLimit } = entry.session;
    // Who had nothing to do at some moment, or could have had the idle device, had all it wanted.
    const could = isStill(entry) || (idle > 0 && !entry.steady);
    const more = entry.hungry && (entry.held || !could);
    const most = (Math.min(100, shareLimit) / 100) * Math.max(amount, passed);
    return {
      request: (shareRequest / 100) * amount,
      weight: weightOf(entry.session),
      most: more ? most : Math.max(0, Math.min(most, entry.used)),
      rank: rank(entry.session),
    };
  });
  const owed = fill(amount, claims);
  entries.forEach((entry, index) => {
    entry.credit += (owed[index] ?? 0) - entry.used;
    const rate = Math.min(100, entry.session.shareLimit) / 100;
    entry.level = Math.min(
      fullLevel(entry.session.shareLimit, windowNs),
      entry.level + rate * passed - entry.used,
    );
  });
}

/** What the coming period will bring. */
function foresee(entries: readonly Entry[], rank: Ranking) {
  const present = entries.filter((entry) => entry.present);
  const owed = owedShares(
    present.map(({ session }) => ({ ...session, wants: true })),
    rank,
  );
  const all = sum([...owed.values()]);
  for (const entry of entries) {
    const { session, level } = entry;
    const { id, shareRequest, shareLimit } = session;
    const share = owed.get(id);
    entry.part =
      share === undefined || all === 0
        ? Math.max(shareRequest / 100, 1 / entries.length)
        : share / all;
    if (shareLimit < 100) entry.hard = level + (shareLimit / 100) * periodNs;
  }
}

/**
 * By how much everyone may exceed its credit, as if it had the whole device. The lead is counted
 * from whoever is furthest behind; but all together may at least use the coming period, or the
 * device would stand idle while a long kernel is paid back.
 */
function headStart(present: readonly Entry[], windowNs: number): number {
  const most = Math.max(
    0,
    ...present.filter(({ part }) => part > 0).map(({ credit, part }) => credit / part),
  );
  const start = leadNs - most;
  const allowed = (start: number) =>
    sum(
      present.map(({ credit, part, hard }) => Math.max(0, Math.min(hard, credit + part * start))),
    );
  const starved = present.some((entry) => isStarved(entry, windowNs));
  if (allowed(start) >= enoughNs || starved) return start;
  let [low, high] = [start, Math.abs(start) + leadNs];
  // If limits do not let them use that much, everyone may go to its limit.
  while (allowed(high) < enoughNs && high < 1e13) [low, high] = [high, 2 * high];
  for (let halved = 0; halved < 60 && high - low > 1000; halved++) {
    const middle = (low + high) / 2;
    if (allowed(middle) < enoughNs) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * It is owed about as much as its limit, so that it can never catch up, and loses some now because
 * kernels of others leave it no room. What is owed comes before a busy device.
 */
function isStarved(
  { session: { shareLimit, wants }, credit, level, part }: Entry,
  windowNs: number,
): boolean {
  if (!wants || shareLimit >= 100 || part * 100 < 0.97 * shareLimit) return false;
  return credit > 0 && level >= fullLevel(shareLimit, windowNs);
}

/** The most that a bucket of wall time holds between two steps. */
function fullLevel(shareLimit: number, windowNs: number): number {
  return (Math.min(100, shareLimit) / 100) * (windowNs - periodNs);
}

/** How much it may use in the coming period; null: as much as it can. */
function allowance(entry: Entry, alone: boolean, start: number, spare: number): number | null {
  const { present, credit, part, hard } = entry;
  const fair = credit + part * (present ? start : leadNs) + spare;
  const allowed = alone ? hard : Math.min(fair, hard);
  return allowed === Number.POSITIVE_INFINITY ? null : allowed;
}
