// What sessions owe each other of the device's time, and how that changes as they come, go, and are charged
// less than was foreseen.
import type { QuotaSession } from '../quota.js';
import { sum, weightOf } from './owed.js';

/** For so long after its last work one that is owed something is waited for. */
export const awaitNs = 40e6;
export const periodMs = 5;
export const periodNs = periodMs * 1e6;
/** How far anyone may be ahead, if it had the whole device: two periods, so that steps may be late. */
export const leadNs = 2 * periodNs;
/** So many idle periods anyone may let pass with room to work; then it was not others in its way. */
const stillPeriods = 8;

export interface Account {
  /** The part of steps at which it wanted something. */
  readonly appetite: number;
  /** Idle periods in which it had room and did next to nothing, less those in which it worked. */
  readonly still: number;
  readonly charged: bigint;
  readonly wanted: boolean;
  /** Whether it took part in what the others owe each other. */
  readonly present: boolean;
  /** Nanoseconds for which it has wanted nothing. */
  readonly away: number;
  /** What `charged` could reach in the last period; null: no limit. */
  readonly limit: bigint | null;
  /** Nanoseconds of device time that the others owe it; negative: that it owes. */
  readonly credit: number;
  /** By how much what was charged has put it back behind the others. */
  readonly booked: number;
  /** Nanoseconds until its limit of wall time; negative: over it. */
  readonly level: number;
  readonly shareLimit: number;
  /** Whether it waited for the work of others to end. */
  readonly queued: boolean;
}

/** A session in this step, with what becomes of its account. */
export interface Entry {
  session: QuotaSession;
  known: Account | undefined;
  /** Nanoseconds charged in the last period. */
  used: number;
  /** Nanoseconds that were charged before, more than it came to. */
  refund: number;
  credit: number;
  /** The credit that it had at the last step. */
  before: number;
  booked: number;
  level: number;
  /** It wanted more during the whole last period. */
  hungry: boolean;
  /** It wants more, or did at the last step: a pause between two launches is no absence. Or it is awaited. */
  present: boolean;
  /** Nanoseconds for which it has wanted nothing. */
  away: number;
  /**
   * It wants nothing, but did a moment ago, and is owed something: who owes it that waits, as its next kernel might
   * be a long one. That is paid for by what the session is owed.
   */
  awaited: boolean;
  /** Its part of what is used from now on, were it present. */
  part: number;
  /** Its own limit lets it use no more than this in the coming period. */
  hard: number;
  /** It came up against its limit in the last period. */
  held: boolean;
  appetite: number;
  /** What it could have used in the last period, if it had wanted more than it did. */
  room: number;
  still: number;
  /** It waits for the work of others to end, or did at the last step. */
  queued: boolean;
  /**
   * It always has work on the device or in front of it. If such a one uses less than it may, others
   * are in its way, and to give them its time would be wrong.
   */
  steady: boolean;
}

/** Others are not in its way, as the device stood idle: it waits for something else. */
export function isStill({ still }: Entry): boolean {
  return still > stillPeriods;
}

/** Those who come, and those who have gone. */
export function settle(entries: readonly Entry[], passed: number, windowNs: number) {
  const present = entries.filter((entry) => entry.present);
  for (const entry of entries) {
    if (!entry.present) {
      // Unused time is not kept, debts are paid with rest.
      entry.credit = Math.min(0, entry.credit + entry.part * passed);
    } else if (entry.awaited) {
      entry.credit = Math.max(0, entry.credit - passed);
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
 * Only who uses the device falls back behind the others. What one of them owes another would
 * otherwise be waited for by a third as well, who wanted nothing when it was booked, or was not
 * there. What was charged too much is undone by as much as it had put its session back: that pays
 * debts, and makes no credit.
 */
export function keepUp(entries: readonly Entry[]) {
  const present = entries.filter(({ present, part }) => present && part > 0);
  const stayed = present.filter((entry) => entry.known?.present === true && !isStill(entry));
  const was = Math.max(...stayed.map(({ before, part }) => before / part));
  const top = Math.max(...stayed.map(({ credit, part }) => credit / part));
  for (const entry of present) {
    if (stayed.length === 0) break;
    const { part, used, before, known } = entry;
    const behind = Math.max(0, (known?.present === true ? was : leadNs) - before / part);
    entry.credit = Math.max(entry.credit, part * (top - behind - used / part));
    if (used > 0) entry.booked += Math.max(0, part * (top - behind) - entry.credit);
  }
  for (const entry of entries) payBack(entry, stayed.length > 0 && entry.present ? top : 0);
}

/** Never further than to the one that is furthest behind. */
function payBack(entry: Entry, top: number) {
  const { refund, booked, part, credit } = entry;
  if (refund === 0) return;
  const undone = booked * Math.min(1, refund / (Number(entry.session.charged) + refund));
  entry.booked -= undone;
  entry.credit = Math.max(credit, Math.min(credit + undone, part * top));
}

/**
 * Credits of those present add up to nothing: what is owed to somebody who does not want it any
 * more, or owed by somebody who is not there, is spread over the others. What they owe each other
 * stays as it was.
 */
export function balance(entries: readonly Entry[]) {
  const present = entries.filter((entry) => entry.present && entry.part > 0);
  const total = sum(present.map(({ credit }) => credit));
  const parts = sum(present.map(({ part }) => part));
  for (const entry of present) entry.credit -= (total * entry.part) / parts;
}
