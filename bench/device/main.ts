// npm run bench -- device [--quick] [--out FILE]
//
// What the software device reaches: kernels beside the same work in plain C, launches, translation.
// Writes bench/results/device.json. Throughput is measured in processor time of the process, with
// one worker; latencies, and what a second worker gains, in wall time.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { buildExamples } from '../../examples/build.mjs';
import { machine } from '../src/machine.js';
import { median, meets, short } from '../src/row.js';
import { type Figure, figures } from './marks.js';

/** One line of the program's output. */
interface Line {
  name: string;
  unit: string;
  device: number;
  plain: number;
}

const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } },
});
const runs = values.quick ? 1 : 5;
const nvcc = process.env['NVCC'];
if (!nvcc) throw new Error('bench device compiles CUDA programs, and there is no nvcc');

const sources = path.join(root, 'bench', 'device');
const folder = path.join(build, 'bench');
const device = path.join(build, 'software-device');
await buildExamples({ nvcc, sources, out: folder, libcuda: device });
const corpus = path.join(folder, 'bench-corpus.ptx');
execFileSync(nvcc, ['-ptx', '-arch=compute_80', '-std=c++17', '-o', corpus, 'corpus.cu'], {
  cwd: sources,
});

const samples = new Map<string, Line[]>();
for (let run = 0; run < runs; run++) {
  for (const line of [
    ...measure(1, 'throughput'),
    ...measure(1, 'latency'),
    ...measure(1, 'translate', corpus),
    ...workers(),
  ]) {
    samples.set(line.name, [...(samples.get(line.name) ?? []), line]);
  }
}
const rows = figures.map(row);
const out =
  values.out ??
  (values.quick
    ? path.join(folder, 'device.json')
    : path.join(root, 'bench', 'results', 'device.json'));
mkdirSync(path.dirname(out), { recursive: true });
const result = { date: new Date().toISOString(), machine: machine(), rows };
writeFileSync(out, `${JSON.stringify(result, null, 2)}\n`);
print();

function measure(count: number, ...args: string[]): Line[] {
  const text = execFileSync(
    path.join(folder, 'bench-device'),
    values.quick ? [...args, 'quick'] : args,
    {
      encoding: 'utf8',
      env: {
        ...process.env,
        LD_LIBRARY_PATH: device,
        SOFTWARE_DEVICE_WORKERS: String(count),
      },
    },
  );
  return text
    .trim()
    .split('\n')
    .map((line): Line => JSON.parse(line));
}

/** One worker and two, right behind one another. */
function workers(): Line[] {
  const [one] = measure(1, 'parallel');
  const [two] = measure(2, 'parallel');
  if (!one || !two) throw new Error('the program printed nothing');
  return [{ name: 'two-workers', unit: 'per s', device: 1 / two.device, plain: 1 / one.device }];
}

function row({ name, what, comparedWith, mark }: Figure) {
  const lines = samples.get(name) ?? [];
  const [first] = lines;
  if (!first) throw new Error(`the program printed no ${name}`);
  const reached = median(lines.map((line) => line.device));
  const ratio = median(lines.map((line) => line.device / line.plain));
  const all = lines.map((line) => line.device);
  return {
    name,
    what,
    unit: first.unit,
    value: short(reached),
    min: short(Math.min(...all)),
    max: short(Math.max(...all)),
    repetitions: lines.length,
    comparedWith: comparedWith ?? null,
    comparedValue: comparedWith ? short(median(lines.map((line) => line.plain))) : null,
    ratio: comparedWith ? short(ratio) : null,
    mark: mark ? { ...mark, met: meets(mark, mark.of === 'value' ? reached : ratio) } : null,
  };
}

function print() {
  for (const { name, value, unit, ratio, comparedValue, mark } of rows) {
    const compared = ratio === null ? '' : `ratio ${ratio} (to ${comparedValue})`;
    const bound = mark ? (mark.most === undefined ? `>= ${mark.least}` : `<= ${mark.most}`) : '';
    const verdict = mark ? `${mark.of} ${bound}: ${mark.met ? 'met' : 'NOT met'}` : '';
    console.log(
      `${name.padEnd(26)}${`${value} ${unit}`.padEnd(24)}${compared.padEnd(28)}${verdict}`.trimEnd(),
    );
  }
  console.log(`\nWritten to ${path.relative(process.cwd(), out)}.`);
}
