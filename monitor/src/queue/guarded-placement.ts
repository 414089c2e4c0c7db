// A placement policy that cannot hold up a server: where it throws, or takes too long, the usual one decides instead.
import type { PlacementPolicy } from '../../policies/placement.js';
import type { Placement } from '../../policies/state.js';

export type PolicyFailure = 'threw' | 'slow';

/** A decision may take so many milliseconds, which everybody waits for. */
const millisecondsMost = 50;

/**
 * The policy, with `instead` for each decision that it fails at. `failed` is told why, and in words what was wrong. What
 * else the machine does meanwhile does not count against it: a slow decision has used the processor for so long.
 */
export function guarded(
  policy: PlacementPolicy,
  instead: PlacementPolicy,
  failed: (policy: string, why: PolicyFailure, what: string) => void,
): PlacementPolicy {
  return {
    ...policy,
    place(...asked) {
      const begun = performance.now();
      const before = process.cpuUsage();
      let placement: Placement | null;
      try {
        placement = policy.place(...asked);
      } catch (error) {
        failed(policy.name, 'threw', error instanceof Error ? error.message : String(error));
        return instead.place(...asked);
      }
      if (performance.now() - begun <= millisecondsMost) return placement;
      const { user, system } = process.cpuUsage(before);
      const took = (user + system) / 1000;
      if (took <= millisecondsMost) return placement;
      failed(policy.name, 'slow', `a decision took ${took.toFixed(0)} ms`);
      return instead.place(...asked);
    },
  };
}
