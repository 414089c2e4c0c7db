// All policies of a cluster. A new one is a file that exports it, and one line here.

import { protean as proteanPartition } from './partition/protean.js';
import { dilu } from './placement/dilu.js';
import { diluAuthors } from './placement/dilu-authors.js';
import { diluWhole } from './placement/dilu-whole.js';
import { exclusive } from './placement/exclusive.js';
import { inflessL } from './placement/infless-l.js';
import { inflessR } from './placement/infless-r.js';
import { protean as proteanSlices } from './placement/protean.js';
import { smore as smorePlacement } from './placement/smore.js';
import { type ClusterPolicy, type PolicyKind, policyKinds } from './policy.js';
import { smore as smorePrewarm } from './prewarm/smore.js';
import { protean as proteanProcurement } from './procurement/protean.js';
import { protean as proteanQueue } from './queue/protean.js';
import { smore as smoreQueue } from './queue/smore.js';
import { dilu as diluScaling } from './scaling/dilu.js';
import { hasGpu } from './scaling/has-gpu.js';
import { protean as proteanScaling } from './scaling/protean.js';

/** Whoever runs a policy hands its memory on and never looks at it. */
export type AnyClusterPolicy = ClusterPolicy<unknown, string>;

const all = [
  dilu,
  diluAuthors,
  diluWhole,
  inflessL,
  inflessR,
  exclusive,
  smorePlacement,
  smoreQueue,
  smorePrewarm,
  proteanQueue,
  proteanSlices,
  proteanScaling,
  proteanPartition,
  proteanProcurement,
  hasGpu,
  diluScaling,
] as const;

export const clusterPolicies: readonly AnyClusterPolicy[] =
  all as readonly unknown[] as readonly AnyClusterPolicy[];

/** Returns the policy. Throws a RangeError that names those there are. */
export function clusterPolicy(kind: PolicyKind, name: string): AnyClusterPolicy {
  const ofKind = clusterPolicies.filter((policy) => policy.kind === kind);
  const found = ofKind.find((policy) => policy.name === name);
  if (found) return found;
  const names = ofKind.map((policy) => policy.name).join(', ') || 'none yet';
  throw new RangeError(`there is no ${kind} policy ${name}: expected one of ${names}`);
}

export type Combination = Partial<Record<PolicyKind, string>>;

/**
 * The policies that decide together. Throws a RangeError where one is unknown, or makes no sense beside the others: what
 * it needs is then named.
 */
export function combine(names: Combination): ReadonlyMap<PolicyKind, AnyClusterPolicy> {
  for (const kind of Object.keys(names)) {
    if (!policyKinds.includes(kind as PolicyKind)) {
      throw new RangeError(
        `there is no kind of policies ${kind}: expected ${policyKinds.join(', ')}`,
      );
    }
  }
  const chosen = new Map<PolicyKind, AnyClusterPolicy>();
  for (const kind of policyKinds) {
    const name = names[kind];
    if (name !== undefined) chosen.set(kind, clusterPolicy(kind, name));
  }
  for (const { name, kind, needs = {} } of chosen.values()) {
    for (const needed of policyKinds) {
      const among = needs[needed];
      const has = chosen.get(needed)?.name;
      if (!among || (has !== undefined && among.includes(has))) continue;
      const instead = has === undefined ? 'there is none' : `not ${has}`;
      throw new RangeError(
        `${kind} ${name} makes no sense without ${needed} ${among.join(' or ')}: ${instead}`,
      );
    }
  }
  return chosen;
}
