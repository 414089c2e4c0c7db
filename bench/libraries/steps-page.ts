// The page of steps (steps.ts) and images (image.ts).
import type { Machine } from '../src/machine.js';
import type { Imaged } from './image.js';
import type { Stepped } from './steps.js';

export interface MeasuredSteps {
  date: string;
  machine: Machine;
  /** Runs that a median is of; Gbit/s; milliseconds there and back. */
  repeat: number;
  rate: number;
  distances: readonly number[];
  steps: readonly Stepped[];
  /** Null: CuPy was not there. */
  images: readonly Imaged[] | null;
}

const seconds = (value: number) => value.toFixed(3);
const ratio = (value: number) => value.toFixed(2);

function stepRows({ steps }: MeasuredSteps): string {
  return steps
    .map(({ program, step, commands, roundTrips, times }) => {
      const cells = times.map(({ first, firstRatio, steady, steadyRatio }) =>
        [seconds(first), ratio(firstRatio), seconds(steady), ratio(steadyRatio)].join(' | '),
      );
      return `| ${[program, step, commands, roundTrips, ...cells].join(' | ')} |`;
    })
    .join('\n');
}

function imageTable({ images, distances }: MeasuredSteps): string {
  if (!images) return 'CuPy was not installed where this was measured.';
  const rows = images.map(({ name, bytes, fresh, first, firstRatio, steady }) => {
    const megabytes = (bytes / 1e6).toFixed(0);
    const cells = [name, megabytes, seconds(fresh), seconds(first), ratio(firstRatio)];
    return `| ${[...cells, seconds(steady)].join(' | ')} |`;
  });
  return `| environment | MB | first result, fresh server | first result | ratio | steady |
|---|--:|--:|--:|--:|--:|
${rows.join('\n')}

Seconds, over ${distances[0]} ms there and back.`;
}

/** From the first row of each program to its last. */
export function summary(steps: readonly Stepped[]): string {
  const programs = [...new Set(steps.map(({ program }) => program))];
  const lines = programs.map((program) => {
    const rows = steps.filter((row) => row.program === program);
    const [none, last] = [rows[0], rows.at(-1)];
    if (!none || !last) throw new Error(`no rows of ${program}`);
    const fewer = (is: number, was: number) => `${((1 - is / was) * 100).toFixed(0)} %`;
    const { commands, roundTrips } = last;
    return `- ${program}: ${fewer(commands, none.commands)} fewer commands (${commands} instead of ${none.commands}), ${fewer(roundTrips, none.roundTrips)} fewer round trips (${roundTrips} instead of ${none.roundTrips}).`;
  });
  return lines.join('\n');
}

export function page(measured: MeasuredSteps): string {
  const { date, machine, repeat, rate, distances, steps } = measured;
  const columns = distances.flatMap((ms) => [
    `first, ${ms} ms`,
    'ratio',
    `steady, ${ms} ms`,
    'ratio',
  ]);
  return `# What each step saves a program that calls cuBLAS

Written by \`npm run bench -- libraries --only steps\`, on the software device with NVIDIA's cuBLAS 13.0.2.14: programs that
call the server's (\`--libraries=remote\`, [docs/libraries.md](../../docs/libraries.md)), first with nothing warm and nothing spared,
then with one thing more in each row, as in DGSF's Fig. 4. *first*: seconds from the start of the process until its first
product is there and looked at; *steady*: from there until its rounds are done and their results there. Medians of ${repeat} over
${rate} Gbit/s and so many milliseconds there and back, all steps in turn; *ratio* is to the first row of the program, the median of
pairs. The server has served each program once before. *commands*: frames sent; *waits*: how often the program waited for
the server. ${date.slice(0, 10)}, ${machine.cpu}, ${machine.cores} cores.

| step | means |
|---|---|
| none | the process of the server opens the device for each session; a handle of cuBLAS is made when it is asked for; every call waits until the server has taken it up, also those of descriptors and those that the guest could answer |
| + warm context | the context is there before the session |
| + warm handles | a handle of cuBLAS is, too |
| + descriptors of the guest's own | those of cuBLASLt are made, set and ended without the server. DGSF takes them from a pool; here they are the program's own, and travel with the call that uses them |
| + batching | calls whose result is known beforehand are posted, many in one packet; copies to the host come later |
| + local answers, minted handles | what the guest knows it does not ask, and it names what it makes: as it is |

| program | step | commands | waits | ${columns.join(' | ')} |
|---|---|--:|--:|${columns.map(() => '--:').join('|')}|
${stepRows(measured)}

From the first to the last row:

${summary(steps)}

DGSF's paper has, for face identification on a V100, 14.5 s without and 9.6 s with a warm context, of inference 7.2, 5.7
and 2.3 s (pools, then batching), and 48 % fewer calls forwarded for ONNX, 96 % fewer for TensorFlow. What is warm saves little
here: a context and a handle of the software device cost milliseconds where those of a GPU cost seconds (3.2 s and 0.2 s
there). What that saves has to be measured on a GPU. What is waited for costs a round trip on any
device: that part is the same there. CuPy's first result is mostly Python's imports, in which ratios near 1 tell nothing.

## A container without cuBLAS

The packages that a function with CuPy's matrix products needs (\`bench/libraries/products.py\`: CuPy, NumPy, what they require,
and NVIDIA's cuBLAS), with \`libcublas.so.13\` and \`libcublasLt.so.13\` and without. Python and the system are not counted. The
results are looked at in all three. Files are read from memory: what a smaller container saves until it has been pulled and
read is not in the times.

${imageTable(measured)}
`;
}
