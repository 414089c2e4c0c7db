// A placement policy that cannot hold up a server: where it throws, or takes too long, the usual one decides instead.
import type { PlacementPolicy } from '../../policies/placement.js';
import { guardedDecision, type OnFailure } from './guard.js';

export type { PolicyFailure } from './guard.js';

/** The policy, with `instead` for each decision that it fails at. */
export function guarded(
  policy: PlacementPolicy,
  instead: PlacementPolicy,
  failed: OnFailure,
): PlacementPolicy {
  return {
    ...policy,
    place: (...asked) =>
      guardedDecision(
        policy.name,
        () => policy.place(...asked),
        () => instead.place(...asked),
        failed,
      ),
  };
}
