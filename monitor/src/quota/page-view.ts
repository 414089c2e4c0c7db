// What the quota runner needs of a quota page; an interface, so that it can be tried without a slot.
import { noCounts, type QuotaCounts, type QuotaMode } from '../../../api-server/src/quota-page.js';

export {
  noCounts,
  noLimit,
  type QuotaCounts,
  type QuotaMode,
} from '../../../api-server/src/quota-page.js';

export interface QuotaPageView {
  read(): QuotaCounts;
  set(mode: QuotaMode, limit: bigint): void;
}

/** A page that is memory and nothing else: nobody is woken. For tests and the simulator. */
export class MemoryPage implements QuotaPageView {
  mode: QuotaMode = 'open';
  limit: bigint;
  counts: QuotaCounts = { ...noCounts };

  constructor() {
    this.limit = (1n << 64n) - 1n;
  }

  read(): QuotaCounts {
    return { ...this.counts };
  }

  set(mode: QuotaMode, limit: bigint) {
    this.mode = mode;
    this.limit = limit;
  }
}

/** What was spent since the session began, in the units of reports; of the device's time null if that is not measured. */
export function spent({ deviceNs, gateWaits, gateWaitNs }: QuotaCounts, measured: boolean) {
  return {
    deviceNs: measured ? Number(deviceNs) : null,
    gateWaits: Number(gateWaits),
    gateSeconds: Number(gateWaitNs) / 1e9,
  };
}
