// npm run bench -- examples [--quick] [--only PROGRAM,...] [--repeat N] [--out FOLDER]
//
// What a whole program takes through Outboard, over loopback, against the same program natively:
// each example with enough work for the device, on the software device with as many workers on
// both sides, natively and remoted in turn. Writes bench/results/examples.{json,md}.
import { mkdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { example, native, type Outcome, remoted } from '../../test/support/program.js';
import { exampleRuns } from '../src/example-runs.js';
import { withSoftwareServer } from '../src/link.js';
import { type Machine, machine } from '../src/machine.js';
import { median, short } from '../src/row.js';
import { deviceTime, sizes } from './sizes.js';

const mark = 1.1;
/** Milliseconds; a program whose device works less says nothing about the mark. */
const leastWork = 100;

/** Medians; ratios are medians over pairs, each measured one right after the other. */
interface Row {
  program: string;
  args: string;
  /** Milliseconds of the device. */
  nativeDevice: number;
  remotedDevice: number;
  /** Seconds of the whole process. */
  native: number;
  remoted: number;
  ratio: number;
  deviceRatio: number;
  /** Null: the device worked too little. */
  met: boolean | null;
}

interface Times {
  seconds: number;
  device: number;
}

const workers = os.availableParallelism();
const env = { SOFTWARE_DEVICE_WORKERS: String(workers) };
const chosen = sizes.map(({ program }) => program);
const { quick, repeat, out, programs } = exampleRuns(chosen, 7);

const rows: Row[] = [];
await withSoftwareServer(async (address) => {
  for (const { name, testArgs } of programs) {
    const size = sizes.find(({ program }) => program === name);
    if (!size) throw new Error(`bench/examples/sizes.ts says nothing of ${name}`);
    const args = [...(quick ? testArgs : size.args), '--time'];
    const file = example(name);
    const here = () => timed(size.device, native(file, { args, env }));
    const there = () => timed(size.device, remoted(file, address, { args }));
    // What is translated, read or sent once has been before either side is measured.
    await here();
    await there();
    const pairs: [Times, Times][] = [];
    for (let i = 0; i < repeat; i++) pairs.push([await here(), await there()]);
    const row = rowOf(name, args.slice(0, -1).join(' '), pairs);
    rows.push(row);
    console.log(
      `${name.padEnd(16)} native ${row.native} s, remoted ${row.remoted} s: ${row.ratio} ` +
        `(device ${row.nativeDevice} ms, ${row.deviceRatio})${verdict(row)}`,
    );
  }
}, env);
write();

async function timed(lines: string[], run: Promise<Outcome>): Promise<Times> {
  const begun = performance.now();
  const { code, stderr } = await run;
  const seconds = (performance.now() - begun) / 1e3;
  if (code !== 0) throw new Error(`a program ended with ${code}: ${stderr}`);
  return { seconds, device: deviceTime(stderr, lines) };
}

function rowOf(program: string, args: string, pairs: [Times, Times][]): Row {
  const of = (value: (native: Times, remoted: Times) => number) =>
    short(median(pairs.map(([here, there]) => value(here, there))));
  const nativeDevice = of((here) => here.device);
  const ratio = of((here, there) => there.seconds / here.seconds);
  return {
    program,
    args,
    nativeDevice,
    remotedDevice: of((_, there) => there.device),
    native: of((here) => here.seconds),
    remoted: of((_, there) => there.seconds),
    ratio,
    deviceRatio: of((here, there) => there.device / here.device),
    met: nativeDevice < leastWork ? null : ratio <= mark,
  };
}

function verdict({ met }: Row): string {
  if (met === null) return ', too little work';
  return met ? '' : ', NOT met';
}

function write() {
  mkdirSync(out, { recursive: true });
  const here = machine();
  const date = new Date().toISOString();
  const record = { date, machine: here, repeat, workers, mark, leastWork, rows };
  writeFileSync(path.join(out, 'examples.json'), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(path.join(out, 'examples.md'), page(date, here));
  const judged = rows.filter(({ met }) => met !== null);
  const met = judged.filter((row) => row.met).length;
  console.log(`${met} of ${judged.length} within ${mark} of a native run.`);
}

function page(date: string, { cpu, cores }: Machine): string {
  const lines = rows.map((row) =>
    [
      `| ${row.program}`,
      `\`${row.args}\``,
      ...[row.native, row.remoted],
      `${row.ratio}${verdict(row)}`,
      ...[row.nativeDevice, row.remotedDevice],
      `${row.deviceRatio} |`,
    ].join(' | '),
  );
  return `# Whole programs, remoted and native

Made by \`npm run bench -- examples\`. Medians of ${repeat} pairs of runs on the software device, ${workers} workers on both sides; guest and
server on one machine, over loopback. *Seconds* are the whole process's, what it does on the processor included; the mark is
${mark} times a native run where the device works for ${leastWork} ms or more. *Device* is what the program itself times around its kernels
(\`--time\`), in vector-add with the copies. ${date.slice(0, 10)}, ${cpu}, ${cores} cores.

| program | arguments | native, s | remoted, s | ratio | device natively, ms | device remoted, ms | ratio |
|---|---|---|---|---|---|---|---|
${lines.join('\n')}
`;
}
