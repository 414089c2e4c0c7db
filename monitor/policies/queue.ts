// What a queue policy is: a pure function that says in which order those who wait get their turn. Whoever has its turn is
// served if it fits; whom it keeps from being served is not the policy's (src/queue/overtaking.ts).
import type { QueuedState } from './state.js';

export interface WaitingState extends QueuedState {
  /** How many that came after it were served before it, on GPUs that it may use. */
  readonly overtaken: number;
}

/** Under a policy that puts later ones first, so many of them are served before one; nobody more. */
export const overtakenMost = 100;

export interface QueuePolicy {
  /** As the configuration names it. */
  name: string;
  /** One line, for `outboard policies`. */
  summary: string;
  /** What it is good for and what it costs, in whole sentences, for `outboard policies NAME`. Those of index.ts have it. */
  about?: string;
  /** Of those who wait, in order of arrival: the same, who has its turn first in front. */
  order(waiting: readonly WaitingState[]): readonly WaitingState[];
}
