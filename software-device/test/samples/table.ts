// The table in docs/: the same for the same samples and the same device, wherever it is made.
import type { Verdict } from './run.js';

export interface Row {
  place: string;
  verdict: Verdict | 'not built';
  why: string;
}

export const VERDICTS: Row['verdict'][] = [
  'pass',
  'waived',
  'refused',
  'fail',
  'unfinished',
  'not built',
];

const MEANING: Record<Row['verdict'], string> = {
  pass: 'it ended with status 0 and reported no failure',
  waived: 'the sample itself says that this device, or this machine, has not what it shows',
  refused: 'the device refused an instruction or a function, by name',
  fail: 'anything else',
  unfinished: 'it was ended after some time; much work for a CPU',
  'not built': 'graphics, or a library that was not there',
};

export function table(rows: Row[], versions: { samples: string; nvcc: string }): string {
  const sorted = [...rows].sort((a, b) => (a.place < b.place ? -1 : 1));
  const count = (verdict: Row['verdict']) => sorted.filter((row) => row.verdict === verdict).length;
  const lines = [
    "# NVIDIA's cuda-samples on the software device",
    '',
    '<!-- Written by `npm run test:samples -- DIR --write`. -->',
    '',
    `Samples at ${versions.samples}, nvcc ${versions.nvcc}, PTX for compute_80, run natively with`,
    'the arguments of their own `test_args.json`.',
    '',
    '| result | samples | means |',
    '|---|---|---|',
    ...VERDICTS.map((verdict) => `| ${verdict} | ${count(verdict)} | ${MEANING[verdict]} |`),
    '',
    '| sample | result | |',
    '|---|---|---|',
    ...sorted.map(({ place, verdict, why }) => `| ${place} | ${verdict} | ${escaped(why)} |`),
    '',
  ];
  return lines.join('\n');
}

function escaped(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}
