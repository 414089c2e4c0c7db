// npm run bench -- libraries [--repeat N] [--out FILE]
//
// What programs ask of the server through the cuBLAS and cuBLASLt of their own, and through those of the server
// (docs/libraries.md): round trips, commands, bytes, each on a server that nobody has used; then how long they take over
// networks of several round-trip times, in turn. Writes bench/results/libraries.md.
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { real, serve, skip, withOurs, withReal } from '../../libraries/test/support.js';
import { glob } from '../../scripts/setup/glob.mjs';
import { type CountedOutcome, counted, remoted, testProgram } from '../../test/support/program.js';
import { secondsOf } from '../src/example-runs.js';
import { overLink } from '../src/link.js';
import { median } from '../src/row.js';

const { values } = parseArgs({
  options: { out: { type: 'string' }, repeat: { type: 'string', default: '5' } },
});
const repeat = Number(values.repeat);
if (!(repeat >= 1)) throw new Error('--repeat is a number of at least 1');
if (real === null) throw new Error(String(skip));

interface Program {
  what: string;
  file: string;
  args: string[];
  /** Beside what the libraries need. */
  env?: Record<string, string>;
  folders?: string[];
}

const script = (name: string) => path.join(root, 'test', 'clients', `${name}.py`);
const solver = glob(`${build}/solver/lib/python3*/site-packages/nvidia/cu13/lib`);
const cupy = (what: string, name: string): Program => ({
  what,
  file: path.join(build, 'clients', 'bin', 'python'),
  args: [script(name)],
  env: { CUPY_COMPILE_WITH_PTX: '1', CUPY_CACHE_DIR: path.join(build, 'clients', 'cupy-cache') },
  folders: solver,
});
const blas = (what: string, args: string[]): Program => {
  return { what, file: testProgram('cublas-calls'), args };
};
const lt = (what: string, args: string[]): Program => {
  return { what, file: testProgram('cublaslt-calls'), args };
};

const programs: Program[] = [
  blas('`cublasCreate`, one product and its result', ['first']),
  blas('60 products and sums, and four results for the host', ['few']),
  lt('20 products by cuBLASLt, a heuristic asked before each', ['few', '20']),
  lt('the same, 40 of them', ['few', '40']),
  lt('20 kinds of products by cuBLASLt, three times each', ['products']),
  cupy('CuPy: matrix products (`cupy_libraries.py`)', 'cupy_libraries'),
  ...(solver.some(existsSync)
    ? [cupy('CuPy: linear algebra by cuSOLVER (`cupy_solver.py`)', 'cupy_solver')]
    : []),
];

const startServer = () => serve(real ?? '', ['--module-memory', '1G']);

function optionsOf(program: Program, remote: boolean) {
  const { args, env } = remote ? withOurs(program.args) : withReal(program.args);
  const folders = [env.LD_LIBRARY_PATH, ...(remote ? [real] : []), ...(program.folders ?? [])];
  // Python's packages find theirs by its path.
  const bound = remote && { LD_AUDIT: path.join(build, 'libraries', 'outboard-binding.so') };
  return { args, env: { ...program.env, ...bound, LD_LIBRARY_PATH: folders.join(':') } };
}

async function measure(program: Program, remote: boolean): Promise<CountedOutcome> {
  const server = await startServer();
  try {
    const outcome = await counted(program.file, server.address, optionsOf(program, remote));
    if (outcome.code !== 0) throw new Error(`${program.what}: ${outcome.stdout}${outcome.stderr}`);
    return outcome;
  } finally {
    await server.stop();
  }
}

/** Milliseconds there and back; Gbit/s. */
const distances = [0, 1, 10, 30];
const rate = 10;

/** A whole run over each distance: of the first session on a server, and of those behind it. */
interface Times {
  first: number;
  next: number[];
}

/** In turn, so that whatever else the machine does hits both. */
async function timed(program: Program, roundTrip: number): Promise<{ own: Times; ours: Times }> {
  const servers = [await startServer(), await startServer()] as const;
  const run = (remote: boolean) =>
    overLink({ roundTrip, rate }, servers[remote ? 1 : 0].address, (through) =>
      secondsOf(1, () => remoted(program.file, through, optionsOf(program, remote))),
    );
  try {
    const own = { first: await run(false), next: [] as number[] };
    const ours = { first: await run(true), next: [] as number[] };
    for (let i = 0; i < repeat; i++) {
      own.next.push(await run(false));
      ours.next.push(await run(true));
    }
    return { own, ours };
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

async function timeRows(program: Program): Promise<string[]> {
  const rows: string[] = [];
  for (const roundTrip of distances) {
    const { own, ours } = await timed(program, roundTrip);
    const ratio = median(own.next.map((seconds, i) => (ours.next[i] ?? Number.NaN) / seconds));
    const cells = [own.first, ours.first, median(own.next), median(ours.next)];
    const seconds = cells.map((one) => one.toFixed(3)).join(' | ');
    rows.push(`| ${program.what} | ${roundTrip} | ${seconds} | ${ratio.toFixed(2)} |`);
    console.log(rows.at(-1));
  }
  return rows;
}

const kib = (bytes: number) => (bytes / 1024).toFixed(bytes < 102400 ? 1 : 0);

function row(what: string, own: CountedOutcome, ours: CountedOutcome): string {
  const pair = (of: (one: CountedOutcome) => string | number) => `${of(own)} | ${of(ours)}`;
  const figures = [
    pair(({ cost }) => cost.roundTrips),
    pair(({ cost }) => cost.commands),
    pair(({ cost, imageBytes }) => kib(cost.bytesSent + imageBytes)),
    pair(({ imageBytes }) => kib(imageBytes)),
  ];
  return `| ${what} | ${figures.join(' | ')} |`;
}

const rows: string[] = [];
for (const program of programs) {
  const own = await measure(program, false);
  const ours = await measure(program, true);
  rows.push(row(program.what, own, ours));
  console.log(rows.at(-1));
}

const times: string[] = [];
for (const program of programs.filter(({ file }) => !file.endsWith('python')))
  times.push(...(await timeRows(program)));

const text = `# Calls of cuBLAS, whole and kernel by kernel

Written by \`npm run bench -- libraries\`, on the software device with NVIDIA's cuBLAS 13.0.2.14. Each program ran with its own
libraries (\`own\`), whose kernels travel one by one, and with those of the server (\`server's\`,
[docs/libraries.md](../../docs/libraries.md)), on a server that nobody had used before. KiB that were sent include code,
which is the last pair; what is left of it with the server's is CuPy's, cuFFT's, cuRAND's and cuSOLVER's.

| program | round trips, own | server's | commands, own | server's | KiB sent, own | server's | KiB of code, own | server's |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
${rows.join('\n')}

Every first call of a kind waits for its status, as programs fall back when one fails, and a question about algorithms is
one more: the first session of a function that makes many kinds of calls, and few of each, waits no less often than with
its own (20 kinds, each with a heuristic and a check; cuSOLVER, whose own kernels are loaded as ever). These are all first
sessions. The next one of the function is told what was learnt: of the 139 round trips of the 20 kinds 83 are left then,
and 8 of the 11 of the 60 products (\`libraries/test/learnt.test.ts\` says so).

## Time over a network

Seconds that a whole run takes over ${rate} Gbit/s and so many milliseconds there and back: the first session on a server that nobody
had used, and the sessions behind it, medians of ${repeat}; *ratio* is the server's to own, the median of pairs. The software
device executes the kernels, of which there are the same both ways, on the processors that all of this shares.

| program | ms | first, own | server's | next, own | server's | ratio |
|---|--:|--:|--:|--:|--:|--:|
${times.join('\n')}
`;
writeFileSync(values.out ?? path.join(root, 'bench', 'results', 'libraries.md'), text);
