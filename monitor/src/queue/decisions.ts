// What was decided about one visitor and its session, with the reasons, for `outboard why`. Each visitor has its own,
// which goes with it; of those that have gone the last ones are kept. All of it is bounded.
import type { DecisionView, WhyView } from '../base/view.js';

export type DecisionKind = DecisionView['kind'];

interface Decision {
  /** Milliseconds since 1970: when it was made first, and last. */
  first: number;
  last: number;
  kind: DecisionKind;
  text: string;
  times: number;
}

/** So many are kept from the beginning, and so many of the newest. */
const firstMost = 8;
const newestMost = 24;
/** A reason may repeat what a guest or a policy has said. */
const textMost = 1000;
/** So many of those that have gone are remembered. */
const goneMost = 256;

export class Decisions {
  readonly #first: Decision[] = [];
  readonly #newest: Decision[] = [];
  #leftOut = 0;

  /** The same one again is counted, not kept twice. */
  add(kind: DecisionKind, text: string) {
    const now = Date.now();
    const cut = text.length > textMost ? `${text.slice(0, textMost - 1)}…` : text;
    const newest = this.#newest.at(-1) ?? this.#first.at(-1);
    if (newest?.kind === kind && newest.text === cut) {
      newest.last = now;
      newest.times++;
      return;
    }
    const decision = { first: now, last: now, kind, text: cut, times: 1 };
    if (this.#first.length < firstMost) {
      this.#first.push(decision);
      return;
    }
    this.#newest.push(decision);
    if (this.#newest.length <= newestMost) return;
    this.#newest.shift();
    this.#leftOut++;
  }

  /** Oldest first; `leftOut`: how many are missing between the first ones and the newest. */
  view(): Pick<WhyView, 'decisions' | 'leftOut'> {
    const decisions = [...this.#first, ...this.#newest].map(
      ({ first, last, kind, text, times }): DecisionView => ({
        time: new Date(first).toISOString(),
        last: new Date(last).toISOString(),
        ...{ kind, text, times },
      }),
    );
    return { decisions, leftOut: this.#leftOut };
  }
}

/** Who it was. */
export interface Gone {
  readonly id: number;
  readonly request: { readonly tenant: string; readonly name: string };
  readonly decisions: Decisions;
}

/** Those that have gone lately: sessions that have ended, and those who waited and left or were refused. */
export class RecentlyGone {
  readonly #gone = new Map<number, Gone>();

  /** Also what it adds to the decisions is the last one. */
  add({ id, request: { tenant, name }, decisions }: Gone, text: string) {
    decisions.add('end', text);
    this.#gone.delete(id);
    // Nothing else of a visitor is kept: it has a connection, and all that its Hello had.
    this.#gone.set(id, { id, request: { tenant, name }, decisions });
    if (this.#gone.size <= goneMost) return;
    const [oldest] = this.#gone.keys();
    if (oldest !== undefined) this.#gone.delete(oldest);
  }

  of(id: number): Gone | undefined {
    return this.#gone.get(id);
  }
}
