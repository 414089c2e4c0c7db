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

export interface Versions {
  samples: string;
  nvcc: string;
}

export function table(rows: Row[], versions: Versions): string {
  const sorted = [...rows].sort((a, b) => (a.place < b.place ? -1 : 1));
  const count = (verdict: Row['verdict']) => sorted.filter((row) => row.verdict === verdict).length;
  const countRemoted = (verdict: Row['verdict']) =>
    sorted.filter((row) => row.remoted?.verdict === verdict).length || '';
  const lines = [
    "# NVIDIA's cuda-samples on the software device",
    '',
    '<!-- Written by `npm run test:samples -- DIR --write`. -->',
    '',
    versionLine(versions),
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

/** The rows of a table of the same versions, so that one can be made from some samples alone. */
export function readTable(text: string, versions: Versions): Row[] {
  const lines = text.split('\n');
  if (!lines.includes(versionLine(versions))) return [];
  const rows: Row[] = [];
  for (const line of lines) {
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const [, place = '', natively, remoted, reasons = ''] = cells;
    const verdict = VERDICTS.find((each) => each === natively);
    if (cells.length !== 6 || !place.includes('/') || !verdict) continue;
    const text = reasons.replaceAll('\\|', '|').replaceAll('&lt;', '<');
    const how = VERDICTS.find((each) => each === remoted);
    const parts = how && /^(?:(.*); )?remoted: (.*)$/.exec(text);
    const why = parts ? (parts[1] ?? '') : text;
    const row: Row = { place, verdict, why };
    if (how && how !== 'not built') row.remoted = { verdict: how, why: parts?.[2] ?? why };
    rows.push(row);
  }
  return rows;
}

function versionLine({ samples, nvcc }: Versions): string {
  return `Samples at ${samples}, nvcc ${nvcc}, PTX for compute_80, run natively with`;
}

function bothReasons(natively: string, remoted: string): string {
  if (remoted === '' || remoted === natively) return natively;
  return natively === '' ? `remoted: ${remoted}` : `${natively}; remoted: ${remoted}`;
}

function escaped(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}
