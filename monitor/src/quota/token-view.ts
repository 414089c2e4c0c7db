// What the quota runner needs of a token page, so that it can be tried without a slot.
import { noCounts, type TokenCounts, type TokenMode } from '../../../api-server/src/token-page.js';

export {
  noCounts,
  noLimit,
  type TokenCounts,
  type TokenMode,
} from '../../../api-server/src/token-page.js';

export interface TokenView {
  read(): TokenCounts;
  set(mode: TokenMode, limit: bigint): void;
}

/** A page that is memory and nothing else: nobody is woken. For tests and the simulator. */
export class MemoryPage implements TokenView {
  mode: TokenMode = 'open';
  limit: bigint;
  counts: TokenCounts = { ...noCounts };

  constructor() {
    this.limit = (1n << 64n) - 1n;
  }

  read(): TokenCounts {
    return { ...this.counts };
  }

  set(mode: TokenMode, limit: bigint) {
    this.mode = mode;
    this.limit = limit;
  }
}

/** What was spent since the session began, in the units of reports. */
export function spent({ deviceNs, gateWaits, gateWaitNs }: TokenCounts) {
  return {
    deviceNs: Number(deviceNs),
    gateWaits: Number(gateWaits),
    gateSeconds: Number(gateWaitNs) / 1e9,
  };
}
