// An admission policy that cannot hold up a server: where it throws, or takes too long, nobody is kept out by it.

import { none } from '../../policies/admission/none.js';
import type { Admission, AdmissionPolicy, FunctionsTable } from '../../policies/admission.js';
import { guardedDecision, type OnFailure } from './guard.js';

/** The policy with what is known of functions; null: it keeps nobody out, and need not be asked. */
export function admissionBy(
  policy: AdmissionPolicy,
  table: FunctionsTable,
  failed: OnFailure,
): Admission | null {
  if (policy === none) return null;
  const ask = (decide: () => string | null) =>
    guardedDecision(policy.name, decide, () => null, failed);
  return {
    never: (request) => ask(() => policy.never(request, table)),
    against: (request, there) => ask(() => policy.against(request, there, table)),
  };
}
