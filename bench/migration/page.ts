// What `npm run bench -- migration` has found, for people.
import type { Machine } from '../src/machine.js';
import { median } from '../src/row.js';
import type { Moved, Pair } from './moves.js';

/** DGSF's Table 1, in megabytes and milliseconds, the smallest first. */
export const sizes = [
  { name: 'kmeans', megabytes: 323, paper: 12 },
  { name: 'face-id', megabytes: 3514, paper: 711 },
  { name: 'nlp', megabytes: 4028, paper: 555 },
  { name: 'resnet', megabytes: 7650, paper: 798 },
  { name: 'covid', megabytes: 7802, paper: 805 },
  { name: 'face-det', megabytes: 13194, paper: 1064 },
];

/** The mark: at most so many times the plain copy, and so many milliseconds. */
const times = 1.2;
const beside = 20;

export interface Result {
  date: string;
  machine: Machine;
  scale: number;
  rows: (Moved & { name: string })[];
}

export function page({ date, machine, scale, rows }: Result): string {
  const { cpu, cores } = machine;
  return `# What a move costs

Made by \`npm run bench -- migration\` on ${date.slice(0, 10)}: ${cpu}, ${cores} processors that others used as well, two software GPUs.
A program has so much memory, none of it zeros, and reads a word of it again and again. It is moved to the other GPU and
back, and before each move another program copies as many bytes from one GPU to the other, through pinned memory of the
host, both ways at once, into memory that was touched before. Sizes are those of DGSF's Table 1, ${scale} times smaller. Medians of
${rows[0]?.pairs.length ?? 0} pairs, milliseconds.

*Stop*: for how long the session's commands were not carried out. *Seen*: the longest that one call of the program took.
*Mark*: a stop of at most ${times} times the plain copy and ${beside} ms; *above*: medians of the stop less the plain copy, and of their quotient, of
pairs.

| | bytes, MB | plain copy | stop | seen | whole move | above | ratio | mark | pairs within it |
|---|---|---|---|---|---|---|---|---|---|
${rows.map(line).join('\n')}

Bytes are equal at the end, each time.

## Beside others

| | bytes, MB | DGSF | at its speed for the bytes here | stop here |
|---|---|---|---|---|
${rows.map(beside_).join('\n')}

DGSF copies between V100s by their own engines and links; here processors copy, to the host's memory and out of it again. NVIDIA's own
way, cuCheckpointProcess, took an H200 1,760 ms for 2 GiB and 10.6 s for 16 GiB (checkpoint, restore and both locks).
`;
}

const ms = (value: number) => (value < 10 ? value.toFixed(1) : value.toFixed(0));
const megabytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);

function line({ name, bytes, pairs }: Moved & { name: string }): string {
  const of = (which: (pair: Pair) => number) => median(pairs.map(which));
  const mark = times * of(({ plain }) => plain) + beside;
  const within = pairs.filter(({ plain, stopped }) => stopped <= times * plain + beside).length;
  return `| ${[
    name,
    megabytes(bytes),
    ms(of(({ plain }) => plain)),
    ms(of(({ stopped }) => stopped)),
    ms(of(({ seen }) => seen)),
    ms(of(({ whole }) => whole)),
    ms(of(({ stopped, plain }) => stopped - plain)),
    of(({ stopped, plain }) => stopped / plain).toFixed(2),
    `${ms(mark)}: ${of(({ stopped }) => stopped) <= mark ? 'met' : 'NOT met'}`,
    `${within} of ${pairs.length}`,
  ].join(' | ')} |`;
}

function beside_({ name, bytes, pairs }: Moved & { name: string }): string {
  const size = sizes.find((one) => one.name === name);
  if (!size) return '';
  const there = (size.paper * bytes) / 2 ** 20 / size.megabytes;
  return `| ${[name, size.megabytes, size.paper, ms(there), ms(median(pairs.map(({ stopped }) => stopped)))].join(' | ')} |`;
}
