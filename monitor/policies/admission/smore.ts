// SMORE's admission (its Algorithm 1, lines 4 and 5): one may join those of a GPU where neither it nor any of them is
// predicted to become slower than it bears. The prediction is the sum of what a table says of pairs, as the paper has
// it before anything is learned; with more than two on a GPU times a factor on the safe side.
import type { AdmissionPolicy, FunctionsTable } from '../admission.js';

export const smore: AdmissionPolicy = {
  name: 'smore',
  summary: 'a session joins others only where nobody is predicted to become slower than it bears',
  about:
    'For functions of which you have measured who slows down whom: the table is a file ' +
    '(--functions), and nothing is learned while the server runs. Who would be too slow ' +
    'everywhere waits. Functions are known by the names that programs give themselves, so it ' +
    'is for tenants who trust each other.',
  never({ name }, { functions }) {
    const bears = functions.get(name)?.bears ?? 0;
    return bears < 0 ? `${name} takes longer than its objective even alone` : null;
  },
  against({ name }, there, table) {
    const names = [name, ...there.map((one) => one.name)];
    if (names.length === 1) return null;
    for (const [self, its] of names.entries()) {
      const slower = predicted(names, self, table);
      const bears = Math.max(0, table.functions.get(its)?.bears ?? table.bound);
      if (slower > bears)
        return `${its} would become ${percent(slower)} slower, and bears ${percent(bears)}`;
    }
    return null;
  },
};

/** By how much the one at `self` becomes slower beside the others, as a part. */
function predicted(names: readonly string[], self: number, table: FunctionsTable): number {
  const slowed = table.functions.get(names[self] ?? '')?.slowed;
  let sum = 0;
  for (const [at, other] of names.entries()) {
    if (at !== self) sum += slowed?.get(other) ?? table.unknown;
  }
  return names.length > 2 ? sum * table.safety : sum;
}

function percent(part: number): string {
  return `${Number((100 * part).toFixed(1))} %`;
}
