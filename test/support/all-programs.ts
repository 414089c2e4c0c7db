// All programs that work remoted, for tests of what none of them may notice.
import { listPrograms } from '../../examples/build.mjs';
import { features, notRemoted, plainPrograms } from './features.js';
import { root } from './paths.js';
import { example, testProgram } from './program.js';

export interface Program {
  name: string;
  path: string;
  args: string[];
}

export const allPrograms: Program[] = [
  ...listPrograms(`${root}/examples`).map(({ name, testArgs }) => ({
    name,
    path: example(name),
    args: testArgs,
  })),
  ...[...plainPrograms, ...features]
    .filter(({ name }) => !notRemoted.has(name))
    .map(({ name }) => ({ name, path: testProgram(name), args: [] })),
];

/** At night, and where OUTBOARD_TEST_PROGRAMS names two, those from the first to the second by their names; else a few. */
export function wantedPrograms(all: readonly Program[], few: readonly string[]): Program[] {
  const range = process.env['OUTBOARD_TEST_PROGRAMS'];
  const [first = '', last = first] = range?.split(',') ?? [];
  if (range) return all.filter(({ name }) => name >= first && name <= last);
  return all.filter(({ name }) => process.env['NIGHTLY'] || few.includes(name));
}
