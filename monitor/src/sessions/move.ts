// One move of a session from a process to another: what both have said of it, and what follows from that.
import { closeSync } from 'node:fs';
import type { Placement } from '../../policies/state.js';
import type { OutboardError } from '../base/errors.js';
import type { MovePhase, MoveView } from '../base/view.js';
import type { Slot } from '../slots/slot.js';
import type { Session } from './session.js';

export class Move {
  readonly session: Session;
  readonly source: Slot;
  /** Reserved for it; null: that was given back. */
  from: Placement | null;
  readonly to: Placement;
  readonly done: (result: MoveView) => void;
  readonly failed: (error: OutboardError) => void;
  readonly #began = performance.now();
  /** Whether a process is being started for it. */
  starting = true;
  /** That process, from when it is offered the session. */
  target: Slot | null = null;
  /** What was said of the session by either process, or that it has gone; null: nothing yet. */
  sourceSays: 'moved' | 'stays' | 'gone' | null = null;
  targetSays: 'arrived' | 'gone' | null = null;
  /** Whether the session is over in the source's process, or that has gone. */
  sourceIsOver = false;
  why = '';
  timer: NodeJS.Timeout | undefined;
  /** For how long its commands were not carried out, as its old process says. */
  stoppedMs = 0;
  /** Whether who has asked for it was answered. */
  answered = false;
  /** The end of the link for the source, until it has it. */
  #link: number | null = null;

  constructor(
    session: Session,
    to: Placement,
    done: (result: MoveView) => void,
    failed: (error: OutboardError) => void,
  ) {
    this.session = session;
    this.source = session.slot;
    this.from = session.placement;
    this.to = to;
    this.done = done;
    this.failed = failed;
  }

  /** Where the session is; null: that is not known yet. */
  get outcome(): 'there' | 'here' | 'lost' | null {
    if (this.targetSays === 'arrived') return 'there';
    if (this.sourceSays === 'stays') return 'here';
    return this.targetSays === 'gone' && this.sourceSays !== null ? 'lost' : null;
  }

  /** What is being done; null: the session is somewhere. */
  get phase(): MovePhase | null {
    if (this.outcome !== null) return null;
    if (this.target === null) return 'starting';
    return this.#link === null ? 'transferring' : 'preparing';
  }

  /** Whether a process or what is reserved for one is still to be seen to. */
  get over(): boolean {
    if (this.outcome === null || this.starting || !this.answered) return false;
    if (this.outcome === 'there') return this.from === null;
    if (this.outcome === 'lost' && this.from !== null) return false;
    return this.target === null || this.targetSays === 'gone';
  }

  get seconds(): number {
    return (performance.now() - this.#began) / 1000;
  }

  set link(link: number) {
    this.#link = link;
  }

  /** Tells the source, and has no link any more. False: it cannot be told. */
  tellSource(): boolean {
    const told = this.#link !== null && this.source.move(this.#link);
    this.closeLink();
    return told;
  }

  closeLink() {
    if (this.#link !== null) closeSync(this.#link);
    this.#link = null;
  }
}
