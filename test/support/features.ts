// The programs that show one feature each, and which of them do not work remoted yet.
import { readFileSync } from 'node:fs';
import { listFeatures, listPrograms } from '../../examples/build.mjs';
import { root } from './paths.js';
import { native, type Outcome, testProgram } from './program.js';

export const features = listFeatures(`${root}/test/programs`);

// Run by bad-input.test.ts, peers.test.ts and several-devices.test.ts.
const elsewhere = [
  ...[
    'endless-copy',
    'endless-kernel',
    'endless-launch',
    'endless-peers',
    'leftover-heap',
    'leftovers',
    'lost-callbacks',
  ],
  ...['peer-limit', 'peer-managed', 'peer-memory', 'peer-variable'],
  ...['several-devices', 'several-managed'],
];

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
export async function nativeOutcome(name: string): Promise<Outcome> {
  const run = await native(testProgram(name));
  return { ...run, stderr: run.stderr.replace(/^software-device: .*\n/gm, '') };
}
