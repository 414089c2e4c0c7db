// What the server says on /v1/live (subprotocol json), and how it says no. The same as LiveMessage of
// monitor/src/api/live.ts, which a test holds: the page is checked without Node's types.
import type { LogLine, View } from '../../src/base/view.js';

export type LiveMessage =
  /** With the head of the queue; `queued`: how many wait in truth. */
  | { type: 'view'; view: View; queued: number }
  /** `missed`: lines that came before these and were left out. */
  | { type: 'logs'; lines: LogLine[]; missed: number };

/** An answer that is a refusal, in the server's words; or the network's, in ours. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: string;
  readonly remedy: string;
  /** HTTP status; 0: there was no answer. */
  readonly status: number;

  constructor(status: number, code: string, sentence: string, remedy: string) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.remedy = remedy;
  }
}
