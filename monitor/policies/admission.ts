// What an admission policy is: a pure function that says whether a session may join those of a GPU, beside what memory,
// slots and promises say. Where it may not it waits, or goes elsewhere.
import type { SessionRequest, SessionState } from './state.js';

/** What is known of functions: from the file that `--functions` names. */
export interface FunctionsTable {
  functions: ReadonlyMap<string, FunctionProfile>;
  /** Of two that were never measured beside each other: by how much each becomes slower, as a part. */
  unknown: number;
  /** What one bears of which nothing else is known, as a part. */
  bound: number;
  /** What sums of more than one other are multiplied by, as pairs alone say too little. */
  safety: number;
}

export interface FunctionProfile {
  /** By how much it may become slower, as a part; infinite: it does not mind. Below 0: not even alone it is fast enough. */
  bears: number;
  /** By how much it is slower beside one of these functions, as a part. */
  slowed: ReadonlyMap<string, number>;
  /** Percent of the SMs that its kernels run on; null: all. */
  sm: number | null;
}

export const nothingProfiled: FunctionsTable = {
  ...{ functions: new Map(), unknown: 0.1, bound: 0.1, safety: 2 },
};

type Named = Pick<SessionState, 'name'>;

export interface AdmissionPolicy {
  /** As the configuration names it. */
  name: string;
  /** One line, for `outboard policies`. */
  summary: string;
  /** What it is good for and what it costs, in whole sentences, for `outboard policies NAME`. Those of index.ts have it. */
  about?: string;
  /** Why nobody can ever be served so that it has what it needs, in words for its user; null: it can. */
  never(request: Pick<SessionRequest, 'name'>, table: FunctionsTable): string | null;
  /** Why it may not join these, in words for an operator; null: it may. */
  against(
    request: Pick<SessionRequest, 'name'>,
    there: readonly Named[],
    table: FunctionsTable,
  ): string | null;
}

/** The policy and what it goes by, as those that place sessions ask it. */
export interface Admission {
  never(request: Pick<SessionRequest, 'name'>): string | null;
  against(request: Pick<SessionRequest, 'name'>, there: readonly Named[]): string | null;
}
