// npm run bench -- libraries [--only calls,steps] [--quick] [--repeat N] [--out FOLDER]
//
// What programs ask of the server through the cuBLAS and cuBLASLt of their own, and through those of the server
// (docs/libraries.md): round trips, commands, bytes, each on a server that nobody has used; then how long they take over
// networks of several round-trip times, in turn. Writes bench/results/libraries.md. And what each step from a server with
// nothing warm to one as it is saves them, and a container without cuBLAS (steps.ts, image.ts). Writes
// bench/results/library-steps.{json,md}.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { real, serve, skip, withOurs, withReal } from '../../libraries/test/support.js';
import {
  costsOfLibraries,
  clients as cupyThere,
  frameworks,
  libraries,
} from '../../test/clients/scripts.js';
import { type CountedOutcome, counted, remoted, testProgram } from '../../test/support/program.js';
import { secondsOf } from '../src/example-runs.js';
import { overLink } from '../src/link.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { median } from '../src/row.js';
import { cupyProducts, measureImages } from './image.js';
import { measureSteps, type Steady } from './steps.js';
import { page } from './steps-page.js';

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: 'calls,steps' },
    quick: { type: 'boolean', default: false },
    out: { type: 'string', default: record },
    repeat: { type: 'string' },
  },
});
const parts = values.only.split(',');
if (!parts.every((part) => part === 'calls' || part === 'steps'))
  throw new Error('--only is calls, steps or both');
const repeat = values.quick ? 1 : Number(values.repeat ?? 5);
if (!(repeat >= 1)) throw new Error('--repeat is a number of at least 1');
if (real === null) throw new Error(String(skip));

type Costs = Record<'own' | 'served', CountedOutcome>;
interface Program {
  what: string;
  measure: () => Promise<Costs>;
  /** A run with the server's libraries or its own; absent: it takes too long to be timed. */
  run?: (remote: boolean, address: string) => ReturnType<typeof remoted>;
}

const startServer = () => serve(real ?? '', ['--module-memory', '1G']);

const native = (what: string, name: string, args: string[]): Program => ({
  what,
  measure: async () => {
    const run = async (options: ReturnType<typeof withOurs>) => {
      const server = await startServer();
      try {
        return await counted(testProgram(name), server.address, options);
      } finally {
        await server.stop();
      }
    };
    return { own: await run(withReal(args)), served: await run(withOurs(args)) };
  },
  run: (remote, address) =>
    remoted(testProgram(name), address, remote ? withOurs(args) : withReal(args)),
});
const blas = (what: string, args: string[]) => native(what, 'cublas-calls', args);
const lt = (what: string, args: string[]) => native(what, 'cublaslt-calls', args);

const scripts: Record<string, string> = {
  cupy_libraries: 'CuPy: matrix products',
  cupy_solver: 'CuPy: linear algebra by cuSOLVER',
  torch_layers: 'PyTorch: matmul, bmm, linear, training steps',
  onnx_answers: 'ONNX Runtime: question answering as of BERT',
};
/** What is there of it: `npm run test:clients` installs all. */
const clients = [...libraries, ...frameworks]
  .filter(({ served, installed }) => served && !installed.skip)
  .map((script): Program => {
    const what = `${scripts[script.name] ?? script.name} (\`${script.name}.py\`)`;
    return { what, measure: () => costsOfLibraries(script) };
  });

const programs: Program[] = [
  blas('`cublasCreate`, one product and its result', ['first']),
  blas('60 products and sums, and four results for the host', ['few']),
  lt('20 products by cuBLASLt, a heuristic asked before each', ['few', '20']),
  lt('the same, 40 of them', ['few', '40']),
  lt('20 kinds of products by cuBLASLt, three times each', ['products']),
  ...clients,
];

/** Milliseconds there and back; Gbit/s. */
const distances = [0, 1, 10, 30];
const rate = 10;

/** Seconds that whole runs took: of the first session on a server, and of those behind it. */
interface Times {
  first: number;
  next: number[];
}

/** In turn, so that whatever else the machine does hits both. */
async function timed(
  run: NonNullable<Program['run']>,
  roundTrip: number,
): Promise<{ own: Times; served: Times }> {
  const servers = [await startServer(), await startServer()] as const;
  const seconds = (remote: boolean) =>
    overLink({ roundTrip, rate }, servers[remote ? 1 : 0].address, (through) =>
      secondsOf(1, () => run(remote, through)),
    );
  try {
    const own = { first: await seconds(false), next: [] as number[] };
    const served = { first: await seconds(true), next: [] as number[] };
    for (let i = 0; i < repeat; i++) {
      own.next.push(await seconds(false));
      served.next.push(await seconds(true));
    }
    return { own, served };
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

async function timeRows({ what, run }: Program): Promise<string[]> {
  const rows: string[] = [];
  if (!run) return rows;
  for (const roundTrip of distances) {
    const { own, served } = await timed(run, roundTrip);
    const ratio = median(own.next.map((seconds, i) => (served.next[i] ?? Number.NaN) / seconds));
    const cells = [own.first, served.first, median(own.next), median(served.next)];
    const seconds = cells.map((one) => one.toFixed(3)).join(' | ');
    rows.push(`| ${what} | ${roundTrip} | ${seconds} | ${ratio.toFixed(2)} |`);
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
    pair(({ cost }) => kib(cost.bytesReceived)),
  ];
  return `| ${what} | ${figures.join(' | ')} |`;
}

async function writeCalls() {
  const rows: string[] = [];
  for (const { what, measure } of programs) {
    const { own, served } = await measure();
    for (const { code, stdout, stderr } of [own, served])
      if (code !== 0) throw new Error(`${what}: ${stdout}${stderr}`);
    rows.push(row(what, own, served));
    console.log(rows.at(-1));
  }

  const times: string[] = [];
  for (const program of programs) times.push(...(await timeRows(program)));

  const text = `# Calls of cuBLAS, whole and kernel by kernel

Written by \`npm run bench -- libraries\`, on the software device with NVIDIA's cuBLAS 13.0.2.14. Each program ran with its own
libraries (\`own\`), whose kernels travel one by one, and with those of the server (\`server's\`,
[docs/libraries.md](../../docs/libraries.md)), on a server that nobody had used before. KiB that were sent include code,
which is the next pair; what is left of it with the server's is CuPy's, cuFFT's, cuRAND's, cuSOLVER's and ONNX Runtime's.
KiB received have no code in them.

| program | round trips, own | server's | commands, own | server's | KiB sent, own | server's | KiB of code, own | server's | KiB received, own | server's |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
${rows.join('\n')}

Which calls wait, and which one answers for many: [docs/libraries.md](../../docs/libraries.md). A question about algorithms
waits once each: 20 kinds, each with a heuristic, are where both are alike. These are all first sessions. The next one of
the function is told what was learnt: of the 113 round trips of the 20 kinds 82 are left then, and 8 of the 9 of the 60
products (\`libraries/test/learnt.test.ts\` says so). PyTorch's own cuBLAS is a later release than the server's here.

## Time over a network

Seconds that a whole run takes over ${rate} Gbit/s and so many milliseconds there and back: the first session on a server that nobody
had used, and the sessions behind it, medians of ${repeat}; *ratio* is the server's to own, the median of pairs. The software
device executes the kernels, of which there are the same both ways, on the processors that all of this shares.

| program | ms | first, own | server's | next, own | server's | ratio |
|---|--:|--:|--:|--:|--:|--:|
${times.join('\n')}
`;
  writeFileSync(path.join(values.out, 'libraries.md'), text);
}

/** Written small: what is measured is the way there. */
const steady = (what: string, name: string, rounds: number): Steady => ({
  what,
  file: testProgram(name),
  options: withOurs(['steady', String(rounds)]),
});

async function writeSteps() {
  const rounds = 20;
  const distances = values.quick ? [0.1] : [0.1, 10];
  const measured = [
    steady(`cuBLAS: ${3 * rounds} products and sums`, 'cublas-calls', rounds),
    steady(`cuBLASLt: ${rounds} products, each with its descriptors`, 'cublaslt-calls', rounds),
    ...(cupyThere.skip ? [] : [cupyProducts(rounds)]),
  ];
  const written = {
    date: new Date().toISOString(),
    machine: machine(),
    repeat,
    rate,
    distances,
    steps: await measureSteps(measured, distances, rate, repeat),
    images: await measureImages(rounds, distances[0] ?? 0, rate, repeat),
  };
  const file = (ending: string) => path.join(values.out, `library-steps.${ending}`);
  writeFileSync(file('json'), `${JSON.stringify(written, null, 2)}\n`);
  writeFileSync(file('md'), page(written));
}

mkdirSync(values.out, { recursive: true });
if (parts.includes('calls')) await writeCalls();
if (parts.includes('steps')) await writeSteps();
