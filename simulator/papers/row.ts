// A figure of a paper beside ours.

export interface Row {
  paper: 'Dilu' | 'SMORE' | 'PROTEAN' | 'HAS-GPU' | 'DGSF';
  /** Section, table or figure. */
  where: string;
  what: string;
  unit: string;
  /** What the paper says; null: nothing that can be held against ours. */
  theirs: number | null;
  /** What came out here; null: it cannot be made, and `why` says what is missing. */
  ours: number | null;
  /** How far ours may be from theirs; null: it is shown, not judged. */
  within: number | null;
  /** Or: ours is at most this. */
  most?: number;
  /** Why it differs, how it was made, what it rests on. */
  why: string;
}

/** Whether ours is as near as it has to be; null: nothing was asked of it. */
export function holds({ theirs, ours, within, most }: Row): boolean | null {
  if (ours === null) return null;
  if (most !== undefined) return ours <= most;
  if (theirs === null || within === null) return null;
  return Math.abs(ours - theirs) <= within + 1e-9;
}

/** Whole data folders of the papers, as they were published: passed by path, never copied. */
export interface Data {
  /** The file below the folder. Throws an error that says what is missing. */
  file(name: string): string;
  has(name: string): boolean;
}
