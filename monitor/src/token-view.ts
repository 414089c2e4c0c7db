// What the quota runner needs of a token page, so that it can be tried without a slot.
import type { TokenCounts, TokenMode } from '../../api-server/src/token-page.js';

export { noLimit, type TokenCounts, type TokenMode } from '../../api-server/src/token-page.js';

export interface TokenView {
  read(): TokenCounts;
  set(mode: TokenMode, limit: bigint): void;
}

/** A page that is memory and nothing else: nobody is woken. For tests and the simulator. */
export class MemoryPage implements TokenView {
  mode: TokenMode = 'open';
  limit: bigint;
  counts: TokenCounts = {
    session: 0n,
    unit: 'device-time',
    charged: 0n,
    deviceNs: 0n,
    blocks: 0n,
    launches: 0n,
    gateWaits: 0n,
    gateWaitNs: 0n,
    held: 0n,
    inflightNs: 0n,
  };

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
