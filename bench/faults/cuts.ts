// The connection of a program is cut at a random byte, either way, by an end or by a reset.
// Whatever the program was doing must come to an end at once, by itself, with an error of CUDA's.
import { createServer, connect as dial, type Socket } from 'node:net';
import { root } from '../../bin/paths.mjs';
import { listFeatures, listPrograms } from '../../examples/build.mjs';
import { Random } from '../../simulator/server/random.js';
import {
  example,
  native,
  type Outcome,
  outcome,
  startRemoted,
  testProgram,
} from '../../test/support/program.js';
import { withSoftwareServer } from '../src/link.js';

export interface CutOptions {
  seed: number;
  cuts: number;
}

export interface CutReport {
  cuts: number;
  /** Of them, behind the last byte that mattered to the program. */
  unharmed: number;
  /** Milliseconds from the cut to the end of the program. */
  slowest: number;
  wrong: string[];
}

interface Point {
  /** From the program, or to it. */
  up: boolean;
  /** How many bytes pass. */
  bytes: number;
  reset: boolean;
}

interface Target {
  name: string;
  file: string;
  args: string[];
  gpus: string;
  /** Of a whole run. */
  up: number;
  down: number;
  stdout: string;
}

/** Whoever has not ended by then hangs. */
const patience = 20_000;

const examples = ['vector-add', 'reduction', 'stencil'];
/** What a program that shows errors and goes on has to show; numbers are those of CUresult. */
const shown = /CUDA_ERROR_|cudaError|\b(46|802)\b/;
/** What the log says. */
const logged = /outboard .* error: .*\bserver\b/;
/** They wait for what only a kernel or a function in a stream changes, and call nothing meanwhile. */
const deaf = ['mapped-flags', 'host-functions'];
/** Their sessions share memory, for which both have to be on one GPU. */
const ofTwoProcesses = ['ipc', 'pool-sharing', 'shared-pieces'];
const features = listFeatures(`${root}/test/programs`)
  .map(({ name }) => name)
  .filter((name) => !deaf.includes(name) && !ofTwoProcesses.includes(name));
/** Of two connections: the bytes of both count, and one of them is cut. */
const ofTwoGpus = ['several-devices'];

/** Passes one connection on until a point is reached. */
class Cutter {
  readonly #server;
  #point: Point | null = null;
  passed = { up: 0, down: 0 };
  /** When the connection was cut. */
  cutAt: number | null = null;

  private constructor(to: number) {
    this.#server = createServer({ noDelay: true }, (program) => {
      // Who comes again finds nobody.
      if (this.cutAt !== null) {
        program.destroy();
        return;
      }
      const onward = dial({ host: '127.0.0.1', port: to, noDelay: true });
      this.#pass(program, onward, 'up');
      this.#pass(onward, program, 'down');
    });
  }

  static async start(to: number): Promise<Cutter> {
    const cutter = new Cutter(to);
    await new Promise<void>((ready) => cutter.#server.listen(0, '127.0.0.1', ready));
    return cutter;
  }

  get address(): string {
    const at = this.#server.address();
    return `127.0.0.1:${typeof at === 'object' ? at?.port : at}`;
  }

  aim(point: Point | null) {
    this.#point = point;
    this.passed = { up: 0, down: 0 };
    this.cutAt = null;
  }

  close() {
    this.#server.close();
  }

  #pass(from: Socket, to: Socket, way: 'up' | 'down') {
    from.on('data', (chunk: Buffer) => {
      const point = this.#point;
      // One connection is cut; others of the program go on.
      const aimed = this.cutAt === null && point?.up === (way === 'up');
      const left = aimed ? point.bytes - this.passed[way] : Infinity;
      const whole = chunk.length <= left;
      this.passed[way] += Math.min(chunk.length, left);
      to.write(whole ? chunk : chunk.subarray(0, left));
      if (whole || this.cutAt !== null) return;
      this.cutAt = performance.now();
      for (const end of [from, to]) point?.reset ? end.resetAndDestroy() : end.destroySoon();
    });
    from.on('end', () => to.end()).on('error', () => to.destroy());
  }
}

export async function cutConnections({ seed, cuts }: CutOptions): Promise<CutReport> {
  const random = new Random(seed);
  const report: CutReport = { cuts, unharmed: 0, slowest: 0, wrong: [] };
  const cutAt = async (address: string, names: string[], count: number) => {
    const cutter = await Cutter.start(Number(address.split(':').at(-1)));
    try {
      const targets = await measured(cutter, names);
      for (let i = 0; i < count; i++) {
        const target = targets[random.below(targets.length)];
        if (!target) throw new Error('there is no program to cut');
        const up = random.uniform() < 0.5;
        const bytes = random.below(up ? target.up : target.down);
        const point = { up, bytes, reset: random.uniform() < 0.5 };
        cutter.aim(point);
        const ended = await endOf(target, cutter);
        judge(report, target, point, ended, cutter.cutAt);
      }
      // Whoever comes next is served.
      cutter.aim(null);
      for (const target of targets) {
        const { stdout } = await endOf(target, cutter);
        if (stdout !== target.stdout) report.wrong.push(`${target.name} afterwards: ${stdout}`);
      }
    } finally {
      cutter.close();
    }
  };
  const most = [...examples, ...features, ...ofTwoGpus];
  const shared = Math.ceil((cuts * ofTwoProcesses.length) / most.length);
  await withSoftwareServer((address) => cutAt(address, most, cuts - shared), {}, 2);
  await withSoftwareServer((address) => cutAt(address, ofTwoProcesses, shared), {}, 1);
  return report;
}

async function measured(cutter: Cutter, names: string[]): Promise<Target[]> {
  const listed = listPrograms(`${root}/examples`);
  const targets: Target[] = [];
  for (const name of names) {
    const file = examples.includes(name) ? example(name) : testProgram(name);
    const args = listed.find((one) => one.name === name)?.testArgs ?? [];
    const gpus = ofTwoGpus.includes(name) ? '2' : '1';
    const { stdout } = await native(file, { args, env: { SOFTWARE_DEVICE_GPUS: gpus } });
    const target = { name, file, args, gpus, up: 0, down: 0, stdout };
    cutter.aim(null);
    const there = await endOf(target, cutter);
    // Those that are not remoted yet tell nothing.
    if (there.code !== 0 || there.stdout !== stdout) continue;
    targets.push({ ...target, up: cutter.passed.up, down: cutter.passed.down });
  }
  return targets;
}

async function endOf(
  target: Target,
  cutter: Cutter,
): Promise<Outcome & { hung: boolean; at: number }> {
  const { file, args, gpus } = target;
  const env = { OUTBOARD_GPUS: gpus, OUTBOARD_LOG: 'error' };
  const child = startRemoted(file, cutter.address, { args, env });
  let hung = false;
  const timer = setTimeout(() => {
    hung = true;
    child.kill('SIGKILL');
  }, patience);
  const result = await outcome(child);
  clearTimeout(timer);
  return { ...result, hung, at: performance.now() };
}

function judge(
  report: CutReport,
  target: Target,
  point: Point,
  ended: Outcome & { hung: boolean; at: number },
  cutAt: number | null,
) {
  const where =
    `${target.name}, ${point.up ? 'to' : 'from'} the server, byte ${point.bytes}` +
    `${point.reset ? ', reset' : ''}`;
  const { hung, signal, code, stderr, stdout } = ended;
  if (hung) report.wrong.push(`${where}: hangs`);
  else if (signal !== null) report.wrong.push(`${where}: ended by ${signal}`);
  else if (code === 0 && stdout !== target.stdout && !shown.test(stdout))
    report.wrong.push(`${where}: wrong output, and no error shown`);
  else if (code !== 0 && !logged.test(stderr))
    report.wrong.push(`${where}: the log does not say why it failed: ${stderr}`);
  if (code === 0) report.unharmed++;
  if (cutAt !== null && !hung) report.slowest = Math.max(report.slowest, ended.at - cutAt);
}
