// All policies by name, as the configuration names them. A new one is one line here.

import { bestFit } from './placement/best-fit.js';
import { dilu } from './placement/dilu.js';
import { pack } from './placement/pack.js';
import { spread } from './placement/spread.js';
import { worstFit } from './placement/worst-fit.js';
import type { PlacementPolicy } from './placement.js';

export const placementPolicies: ReadonlyMap<string, PlacementPolicy> = byName([
  bestFit,
  worstFit,
  dilu,
  spread,
  pack,
]);

function byName<Policy extends { name: string }>(policies: readonly Policy[]) {
  return new Map(policies.map((policy) => [policy.name, policy]));
}
