// All policies by name, as the configuration names them. A new one is one line here.

import { none as noAdmission } from './admission/none.js';
import { smore } from './admission/smore.js';
import type { AdmissionPolicy } from './admission.js';
import { drain } from './migration/drain.js';
import { imbalance } from './migration/imbalance.js';
import type { MigrationPolicy } from './migration.js';
import { bestFit } from './placement/best-fit.js';
import { dilu as diluPlacement } from './placement/dilu.js';
import { pack } from './placement/pack.js';
import { spread } from './placement/spread.js';
import { worstFit } from './placement/worst-fit.js';
import type { PlacementPolicy } from './placement.js';
import { firstCome } from './queue/first-come.js';
import { strictFirst } from './queue/strict-first.js';
import type { QueuePolicy } from './queue.js';
import { deviceTime } from './quota/device-time.js';
import { dilu } from './quota/dilu.js';
import { hostTime } from './quota/host-time.js';
import { none } from './quota/none.js';
import { priority } from './quota/priority.js';
import { type QuotaParameters, type QuotaPolicy, usualQuotaParameters } from './quota.js';

/** Whoever runs a policy hands its memory on and never looks at it. */
export type AnyQuotaPolicy = QuotaPolicy<unknown>;

export const placementPolicies: ReadonlyMap<string, PlacementPolicy> = byName([
  worstFit,
  bestFit,
  spread,
  pack,
  diluPlacement,
]);

/** What they know of functions is in the file that `--functions` names. */
export const admissionPolicies: ReadonlyMap<string, AdmissionPolicy> = byName([noAdmission, smore]);

export const queuePolicies: ReadonlyMap<string, QueuePolicy> = byName([firstCome, strictFirst]);

/** `drain` is for GPUs that are being emptied, the others for `--migration` (docs/moving.md). */
export const migrationPolicies: ReadonlyMap<string, MigrationPolicy<unknown>> = byName([
  drain as MigrationPolicy<unknown>,
  imbalance as MigrationPolicy<unknown>,
]);

/** `parameters`: of the GPU they are for. */
export function quotaPoliciesFor(parameters: QuotaParameters): ReadonlyMap<string, AnyQuotaPolicy> {
  return byName<AnyQuotaPolicy>([
    deviceTime(parameters) as AnyQuotaPolicy,
    priority(parameters) as AnyQuotaPolicy,
    dilu('paper', parameters) as AnyQuotaPolicy,
    dilu('corrected', parameters) as AnyQuotaPolicy,
    hostTime(parameters) as AnyQuotaPolicy,
    none as AnyQuotaPolicy,
  ]);
}

export const quotaPolicies = quotaPoliciesFor(usualQuotaParameters);

function byName<Policy extends { name: string }>(policies: readonly Policy[]) {
  return new Map(policies.map((policy) => [policy.name, policy]));
}
