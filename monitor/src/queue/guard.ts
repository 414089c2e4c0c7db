// A decision of a policy that cannot hold up a server: where the policy throws, or takes too long, the usual one decides.

export type PolicyFailure = 'threw' | 'slow';

/** Is told which policy failed, how, and in words what was wrong. */
export type OnFailure = (policy: string, why: PolicyFailure, what: string) => void;

/** A decision may take so many milliseconds, which everybody waits for. */
const millisecondsMost = 50;

/**
 * What `decide` returns, or `instead` where it fails. What else the machine does meanwhile does not count against it: a
 * slow decision has used the processor for so long.
 */
export function guardedDecision<Decision>(
  policy: string,
  decide: () => Decision,
  instead: () => Decision,
  failed: OnFailure,
): Decision {
  const begun = performance.now();
  const before = process.cpuUsage();
  let decision: Decision;
  try {
    decision = decide();
  } catch (error) {
    failed(policy, 'threw', error instanceof Error ? error.message : String(error));
    return instead();
  }
  if (performance.now() - begun <= millisecondsMost) return decision;
  const { user, system } = process.cpuUsage(before);
  const took = (user + system) / 1000;
  if (took <= millisecondsMost) return decision;
  failed(policy, 'slow', `a decision took ${took.toFixed(0)} ms`);
  return instead();
}
