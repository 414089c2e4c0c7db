// Device time that ended sessions owe: their tenant's next session begins with it, or a new session for
// each kernel would have time without limit. It is paid by resting, as that of a session is.
import type { QuotaSession } from '../quota.js';

interface Debt {
  /** Nanoseconds of device time. */
  readonly owed: number;
  /** Percent of the GPU: of those that it was promised. */
  readonly share: number;
}

/** How a session stood at the last step: what it had used, and what others owed it. */
interface Standing {
  readonly charged: bigint;
  readonly credit: number;
}

/** By tenant. */
export type Debts = ReadonlyMap<string, Debt>;

/** Debts after so many nanoseconds of rest beside so many sessions. */
export function afterRest(debts: Debts, passed: number, sessions: number) {
  const left = new Map<string, Debt>();
  for (const [tenant, { owed, share }] of debts) {
    const rest = owed - Math.max(share / 100, 1 / (sessions + 1)) * passed;
    if (rest > 0) left.set(tenant, { owed: rest, share });
  }
  return {
    left: left as Debts,
    /** What the tenant's next session begins with. */
    take(tenant = ''): number {
      const owed = left.get(tenant)?.owed ?? 0;
      left.delete(tenant);
      return owed;
    },
    /** It has ended; `known` is how it stood. Sessions of nobody have nobody to pay. */
    leave({ tenant = '', shareRequest, charged, began = charged }: QuotaSession, known?: Standing) {
      const since = Math.max(0, Number(charged - (known?.charged ?? began)));
      const owed = since - (known?.credit ?? 0);
      if (tenant === '' || owed <= 0) return;
      left.set(tenant, { owed: owed + (left.get(tenant)?.owed ?? 0), share: shareRequest });
    },
  };
}
