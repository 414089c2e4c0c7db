// The programs that show one feature each, and which of them do not work remoted yet.
import { readFileSync } from 'node:fs';
import type { Test } from 'tap';
import { listFeatures, listPrograms } from '../../examples/build.mjs';
import { elsewhere } from './elsewhere.js';
import { root } from './paths.js';
import { example, native, type Outcome, remoted, testProgram } from './program.js';

export const features = listFeatures(`${root}/test/programs`);

/** The other programs, but for those that have tests of their own. */
export const plainPrograms = listPrograms(`${root}/test/programs`).filter(
  ({ name, source }) => !source.includes('/') && !elsewhere.includes(name),
);

/** By program, what is missing. */
export const notRemoted = new Map(
  readFileSync(`${root}/test/programs/features/not-remoted.tsv`, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split('\t') as [string, string]),
);

/** What a program does natively, without the log of the software device, which lies in its process. */
export async function nativeOutcome(
  name: string,
  env: Record<string, string> = {},
): Promise<Outcome> {
  const run = await native(testProgram(name), { env });
  return { ...run, stderr: run.stderr.replace(/^software-device: .*\n/gm, '') };
}

/** Of many that are alike, for each change only every fifth, from `first` on: at night all. */
export function sample<T>(all: readonly T[], first: number): T[] {
  return all.filter((_, index) => process.env['NIGHTLY'] || index % 5 === first);
}

/**
 * Every program does and says on the server what it does natively in this environment: features, examples, and the
 * other programs, of which only exit status and output are compared. Of `unsteady` features only that they succeed;
 * those of `beyond` ask for more than the device has, or can do in time. `choose` may leave out some.
 */
export async function sameOnServer(
  t: Test,
  address: string,
  env: Record<string, string> = {},
  unsteady: ReadonlyMap<string, string> = new Map(),
  beyond: ReadonlyMap<string, string> = new Map(),
  choose = <T>(all: readonly T[]): readonly T[] => all,
) {
  for (const { name } of choose(features)) {
    if (notRemoted.has(name) || beyond.has(name)) continue;
    const here = await nativeOutcome(name, env);
    const there = await remoted(testProgram(name), address);
    if (unsteady.has(name)) t.same([there.code, here.code], [0, 0], name);
    else t.same(there, here, name);
  }
  for (const { name, testArgs: args } of choose(listPrograms(`${root}/examples`))) {
    const here = await native(example(name), { args, env });
    t.same(await remoted(example(name), address, { args }), here, `example ${name}`);
  }
  for (const { name } of choose(plainPrograms)) {
    const here = await native(testProgram(name), { env });
    const there = await remoted(testProgram(name), address);
    t.same({ code: there.code, stdout: there.stdout }, { code: 0, stdout: here.stdout }, name);
  }
}
