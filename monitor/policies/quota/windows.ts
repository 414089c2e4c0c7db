// Shares of measured device time. Time here passes with the work that the device does, not with
// the clock: what was done in a period is divided among those who wanted it (owed.ts), and the
// difference to what each has used is its credit. Everyone may be a little ahead of the one that is
// furthest behind, so that the device never waits for the next step; whoever is further ahead is
// held until the others have caught up. A long kernel is a large negative credit, paid back in the
// same way. Limits are of wall time: a bucket that holds at most a window.
import type { QuotaInput, QuotaOutput, QuotaPolicy, QuotaSession } from '../quota.js';
import { type Claim, fill, owedShares, type Ranking, sum, weightOf } from './owed.js';

export const windowNs = 40e6;
export const periodMs = 5;
const periodNs = periodMs * 1e6;
/** How far anyone may be ahead, if it had the whole device: two periods, so that steps may be late. */
const leadNs = 2 * periodNs;
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

interface Account {
  /** The part of steps at which it wanted something. */
  readonly appetite: number;
  readonly charged: bigint;
  readonly wanted: boolean;
  /** Whether it took part in what the others owe each other. */
  readonly present: boolean;
  /** What `charged` could reach in the last period; null: no limit. */
  readonly limit: bigint | null;
  /** Nanoseconds of device time that the others owe it; negative: that it owes. */
  readonly credit: number;
  /** Nanoseconds until its limit of wall time; negative: over it. */
  readonly level: number;
  readonly shareLimit: number;
}

export interface WindowsMemory {
  readonly now: bigint | null;
  readonly accounts: ReadonlyMap<number, Account>;
  /** Work that was charged when it was released and has not run yet. */
  readonly ahead: number;
  /** The part of time in which the device worked, over the last few periods. */
  readonly recent: number;
  /** That when it is full: launches may leave gaps. */
  readonly peak: number;
  /** What everyone may use beyond its credit, because those it waits for did not: found by trying. */
  readonly spare: number;
}

/** A session in this step, with what becomes of its account. */
interface Entry {
  session: QuotaSession;
  known: Account | undefined;
  used: number;
  credit: number;
  level: number;
  /** It wanted more during the whole last period. */
  hungry: boolean;
  /** It wants more, or did at the last step: a pause between two launches is no absence. */
  present: boolean;
  /** Its part of what is used from now on, were it present. */
  part: number;
  /** Its own limit lets it use no more than this in the coming period. */
  hard: number;
  /** It came up against its limit in the last period. */
  held: boolean;
  appetite: number;
  /**
   * It always has work on the device or in front of it. If such a one uses less than it may, others
   * are in its way, and to give them its time would be wrong.
   */
  steady: boolean;
}

export interface WindowsOptions {
  name: string;
  summary: string;
  rank: Ranking;
}

export function windows({ name, summary, rank }: WindowsOptions): QuotaPolicy<WindowsMemory> {
  return {
    name,
    summary,
    unit: 'device-time',
    periodMs,
    start: () => ({ now: null, accounts: new Map(), ahead: 0, recent: 1, peak: 1, spare: 0 }),
    step: (input) => step(input, rank),
  };
}

function step(
  { now, sessions, memory }: QuotaInput<WindowsMemory>,
  rank: Ranking,
): QuotaOutput<WindowsMemory> {
  const passed = memory.now === null ? 0 : Math.max(0, Number(now - memory.now));
  const entries = sessions.map((session) => entryOf(session, memory.accounts.get(session.id)));
  const use = deviceUse(entries, passed, memory);
  divide(entries, passed, use, rank);
  foresee(entries, rank);
  settle(entries, passed);
  balance(entries);
  const limits = new Map<number, bigint | null>();
  const accounts = new Map<number, Account>();
  const present = entries.filter((entry) => entry.present);
  const start = headStart(present);
  for (const entry of entries) {
    const { session, credit, level } = entry;
    const { id, charged, wants: wanted, shareLimit } = session;
    const alone = present.every((other) => other === entry);
    const allowed = allowance(entry, alone, start, use.spare);
    const limit = allowed === null ? null : charged + BigInt(Math.floor(Math.max(0, allowed)));
    limits.set(id, limit);
    accounts.set(id, {
      appetite: entry.appetite,
      charged,
      wanted,
      present: entry.present,
      limit,
      credit,
      level,
      shareLimit,
    });
  }
  return {
    limits,
    memory: {
      now,
      accounts,
      ahead: use.ahead,
      recent: use.recent,
      peak: use.peak,
      spare: use.spare,
    },
  };
}

function entryOf(session: QuotaSession, known: Account | undefined): Entry {
  const { charged, wants, shareLimit } = session;
  const limited = known !== undefined && known.limit !== null;
  const before = known?.appetite ?? 0.5;
  const appetite = before + (Number(wants) - before) / appetitePeriods;
  return {
    session,
    known,
    // A prediction that is corrected can make it negative.
    used: known ? Number(charged - known.charged) : 0,
    credit: known?.credit ?? 0,
    // A new limit is in effect at once: nothing saved under the old one is used up first.
    level: known?.shareLimit === shareLimit ? known.level : Math.min(0, known?.level ?? 0),
    hungry: wants && known?.wanted === true,
    present: wants || known?.wanted === true,
    part: 0,
    hard: Number.POSITIVE_INFINITY,
    held: wants && limited && charged >= (known.limit ?? 0n),
    appetite,
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
  const used = Math.max(0, sum(entries.map((entry) => entry.used)));
  if (passed === 0) return { ...memory, used, idle: 0 };
  const covered = Math.min(passed, memory.ahead + used);
  const ahead = Math.min(1e9, memory.ahead + used - covered);
  const recent = memory.recent + (covered / passed - memory.recent) / recentPeriods;
  const peak = Math.max(recent, memory.peak - peakDecay);
  const held = entries.some((entry) => entry.held);
  const waitedFor = entries.some((entry) => entry.present && !entry.held && !entry.steady);
  const idle =
    held && waitedFor && recent < idleBelow * peak ? Math.max(0, peak * passed - covered) : 0;
  const spare = idle > 0 ? Math.min(periodNs, memory.spare + idle) : memory.spare * spareKept;
  return { used, idle, ahead, recent, peak, spare };
}

/** Divides the last period among those who wanted it, and books what each has used of it. */
function divide(
  entries: readonly Entry[],
  passed: number,
  { used, idle }: DeviceUse,
  rank: Ranking,
) {
  const amount = used + idle;
  const claims = entries.map((entry): Claim => {
    const { shareRequest, shareLimit } = entry.session;
    // Who had nothing to do at some moment, or could have had the idle device, had all it wanted.
    const more = entry.hungry && (idle === 0 || entry.held || entry.steady);
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
      fullLevel(entry.session.shareLimit),
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

/** Those who come, and those who have gone. */
function settle(entries: readonly Entry[], passed: number) {
  const present = entries.filter((entry) => entry.present);
  for (const entry of entries) {
    if (!entry.present) {
      // Unused time is not kept, debts are paid with rest.
      entry.credit = Math.min(0, entry.credit + entry.part * passed);
    } else if (entry.known?.present === false && entry.credit < 0) {
      reclaim(present, entry);
    }
    // More than its own limit will soon let it use, the others need not owe it.
    const { shareLimit } = entry.session;
    if (shareLimit < 100) {
      const most = Math.max(0, entry.hard) + (shareLimit / 100) * windowNs;
      entry.credit = Math.min(entry.credit, most);
    }
  }
}

/** It comes back with a debt: there must be somebody who is owed it. */
function reclaim(present: readonly Entry[], debtor: Entry) {
  const others = present.filter((other) => other !== debtor);
  const weights = sum(others.map(({ session }) => weightOf(session)));
  for (const other of others) {
    other.credit -= (debtor.credit * weightOf(other.session)) / weights;
  }
}

/**
 * Credits of those present add up to nothing: what is owed to somebody who does not want it any
 * more, or owed by somebody who is not there, is spread over the others. What they owe each other
 * stays as it was.
 */
function balance(entries: readonly Entry[]) {
  const present = entries.filter((entry) => entry.present && entry.part > 0);
  const total = sum(present.map(({ credit }) => credit));
  const parts = sum(present.map(({ part }) => part));
  for (const entry of present) entry.credit -= (total * entry.part) / parts;
}

/**
 * By how much everyone may exceed its credit, as if it had the whole device. The lead is counted
 * from whoever is furthest behind; but all together may at least use the coming period, or the
 * device would stand idle while a long kernel is paid back.
 */
function headStart(present: readonly Entry[]): number {
  const most = Math.max(
    0,
    ...present.filter(({ part }) => part > 0).map(({ credit, part }) => credit / part),
  );
  const start = leadNs - most;
  const allowed = (start: number) =>
    sum(
      present.map(({ credit, part, hard }) => Math.max(0, Math.min(hard, credit + part * start))),
    );
  if (allowed(start) >= enoughNs || present.some(isStarved)) return start;
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
function isStarved({ session: { shareLimit, wants }, credit, level, part }: Entry): boolean {
  if (!wants || shareLimit >= 100 || part * 100 < 0.97 * shareLimit) return false;
  return credit > 0 && level >= fullLevel(shareLimit);
}

/** The most that a bucket of wall time holds between two steps. */
function fullLevel(shareLimit: number): number {
  return (Math.min(100, shareLimit) / 100) * (windowNs - periodNs);
}

/** How much it may use in the coming period; null: as much as it can. */
function allowance(entry: Entry, alone: boolean, start: number, spare: number): number | null {
  const { present, credit, part, hard } = entry;
  const fair = credit + part * (present ? start : leadNs) + spare;
  const allowed = alone ? hard : Math.min(fair, hard);
  return allowed === Number.POSITIVE_INFINITY ? null : allowed;
}
