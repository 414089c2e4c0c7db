// The table in docs/: the same for the same samples and the same device, wherever it is made.
import type { Verdict } from './run.js';

export interface Row {
  place: string;
  verdict: Verdict | 'not built';
  why: string;
  /** The same binary through a server, if it was tried. */
  remoted?: { verdict: Verdict; why: string };
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
  const countRemoted = (verdict: Row['verdict']) =>
    sorted.filter((row) => row.remoted?.verdict === verdict).length || '';
  const lines = [
    "# NVIDIA's cuda-samples on the software device",
    '',
    '<!-- Written by `npm run test:samples -- DIR --write`. -->',
    '',
    `Samples at ${versions.samples}, nvcc ${versions.nvcc}, PTX for compute_80, run natively with`,
    'the arguments of their own `test_args.json`.',
    '',
    'The same binaries then run remoted: through guest library, wire and a server on the same device.',
    'Those that want several GPUs have as many, of one server.',
    '',
    '| result | natively | remoted | means |',
    '|---|--:|--:|---|',
    ...VERDICTS.map(
      (verdict) =>
        `| ${verdict} | ${count(verdict)} | ${countRemoted(verdict)} | ${MEANING[verdict]} |`,
    ),
    '',
    '| sample | natively | remoted | |',
    '|---|---|---|---|',
    ...sorted.map(
      ({ place, verdict, why, remoted }) =>
        `| ${place} | ${verdict} | ${remoted?.verdict ?? '–'} | ${escaped(bothReasons(why, remoted?.why ?? ''))} |`,
    ),
    '',
  ];
  return lines.join('\n');
}

function bothReasons(natively: string, remoted: string): string {
  if (remoted === '' || remoted === natively) return natively;
  return natively === '' ? `remoted: ${remoted}` : `${natively}; remoted: ${remoted}`;
}

function escaped(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}
