// npm run bench -- profile [--quick] [--only PATH,...] [--out FOLDER]
//
// Where the processor time of the hot paths goes: a program that does nothing but launch, call, upload
// or download, and its API server process on the null device, sampled by perf. Writes a flame graph
// of both and the functions of each to bench/results/profiles.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import type { View } from '../../monitor/src/base/view.js';
import { Loaded } from '../load/serving.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { measuredDevice } from '../src/serving.js';
import { functionsOf, recordProcess, recordProgram, samplesOf, whyNoPerf } from './perf.js';

/** Arguments of bench-measure, for some seconds of each. */
const paths = [
  { name: 'launch', figure: 'launch', repetitions: 100, count: 200_000 },
  { name: 'call', figure: 'call', repetitions: 150, count: 2000 },
  { name: 'upload', figure: 'upload-16', repetitions: 150, count: 8 },
  { name: 'download', figure: 'download-16', repetitions: 150, count: 8 },
];
const program = 'bench-measure';
/** Narrower frames, in pixels of 1200, are left out. */
const leastWidth = 2;

async function main() {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      out: { type: 'string' },
    },
  });
  const why = whyNoPerf();
  if (why !== null) throw new Error(`bench profile samples with perf, and ${why}`);
  const wanted = values.only?.split(',');
  const out =
    values.out ?? path.join(...(wanted || values.quick ? [build, 'bench'] : [record]), 'profiles');
  mkdirSync(out, { recursive: true });
  const folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-profile-'));
  const server = await Loaded.start(1, 1, ['--device', measuredDevice.serve]);
  try {
    const slot = await slotOf(server);
    for (const { name, figure, repetitions, count } of paths) {
      if (wanted && !wanted.includes(name)) continue;
      const [guest, executor] = [path.join(folder, 'guest'), path.join(folder, 'executor')];
      const times = Math.ceil(repetitions / (values.quick ? 20 : 1));
      await recordProcess(executor, slot, () =>
        recordProgram(guest, [
          ...['env', `LD_LIBRARY_PATH=${path.join(build, 'guest-lib')}`],
          `OUTBOARD_SERVER=127.0.0.1:${server.address.port}`,
          ...[path.join(build, 'bench', program), figure, String(times), String(count)],
        ]),
      );
      const samples = samplesOf(guest, program) + samplesOf(executor);
      writeFileSync(path.join(out, `${name}.svg`), flameGraph(samples));
      const functions = [functionsOf(guest, program), functionsOf(executor)] as const;
      writeFileSync(path.join(out, `${name}.txt`), page(name, ...functions));
      console.log(`${path.relative(process.cwd(), path.join(out, name))}.{svg,txt}`);
    }
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true });
  }
}

async function slotOf({ http }: Loaded): Promise<number> {
  const view = (await (await fetch(`${http}v1/state`)).json()) as View;
  const pid = view.gpus[0]?.slots[0]?.pid;
  if (!pid) throw new Error('the server has no API server process');
  return pid;
}

function flameGraph(samples: string): string {
  const renderer = path.join(root, 'node_modules', 'flamegraph', 'bin', 'flamegraph.js');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [renderer, '-t', 'perf', '--minwidth', String(leastWidth)],
    { input: samples, encoding: 'utf8', maxBuffer: 1 << 26 },
  );
  if (status !== 0) throw new Error(`flamegraph ended with ${status}: ${stderr}`);
  // What is for a page around it is no XML, and half of the file.
  return stdout
    .replace(/<script[\s\S]*?<\/script>\n*/g, '')
    .replace(/ (?:on|data-)[a-z-]+="[^"]*"/g, '')
    .replace(/(\d+\.\d\d)\d+/g, '$1');
}

function page(name: string, guest: string, executor: string): string {
  const { cpu, cores } = machine();
  return `${name}: percent of the processor time, by function (npm run bench -- profile, ${new Date().toISOString().slice(0, 10)}, ${cores} cores of ${cpu})

The program
${guest}

The API server process
${executor}
`;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
