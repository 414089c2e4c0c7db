// npm run bench:ablation [-- --quick] [--only PROGRAM,...] [--repeat N] [--out FOLDER]
//
// What each design decision saves: example programs run as they are, then without batching, local
// answers, minted handles, deferred copies or the module cache, one by one, and without all of
// them; over networks of several round-trip times. Writes bench/results/ablation.{json,md,svg}.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { listPrograms } from '../../examples/build.mjs';
import { root } from '../../scripts/setup/paths.mjs';
import { counted, example } from '../../test/support/program.js';
import { overLink, withSoftwareServer } from '../src/link.js';
import { machine } from '../src/machine.js';
import { median } from '../src/row.js';
import { type Measured, page } from './page.js';
import { plot } from './plot.js';
import { settings } from './settings.js';

const chosen = ['vector-add', 'matrix-multiply', 'reduction', 'histogram', 'stencil', 'kmeans'];
const roundTrips = [0.1, 1, 30];
const rate = 10;

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    repeat: { type: 'string' },
    out: { type: 'string' },
  },
});
const repeat = values.quick ? 1 : Number(values.repeat ?? 3);
const out = values.out ?? path.join(root, 'bench', 'results');
const wanted = values.only?.split(',') ?? chosen;
const distances = values.quick ? roundTrips.slice(0, 1) : roundTrips;
const programs = listPrograms().filter(({ name }) => wanted.includes(name));

await withSoftwareServer(async (address) => {
  const all: Measured[] = [];
  for (const program of programs) {
    // Work that takes moments: what is measured is the way there.
    const file = example(program.name);
    const run = (setting: string, to: string) =>
      counted(file, to, { args: program.testArgs, env: { OUTBOARD_ABLATION: setting } });
    // The first run leaves the program's modules on the server.
    await run('', address);
    for (const { name, without } of settings) {
      const { code, stderr, cost, imageBytes } = await run(without, address);
      if (code !== 0) throw new Error(`${program.name} without ${name}: ${stderr}`);
      const seconds: number[] = [];
      for (const roundTrip of distances)
        seconds.push(
          await overLink({ roundTrip, rate }, address, (through) =>
            time(() => run(without, through)),
          ),
        );
      const { calls, commands, bytesSent, bytesReceived } = cost;
      const bytes = bytesSent + imageBytes + bytesReceived;
      const row = { calls, commands, roundTrips: cost.roundTrips, bytes, seconds };
      all.push({ program: program.name, setting: name, ...row });
      console.log(
        `${program.name.padEnd(16)} ${name.padEnd(22)} ${commands} commands, ` +
          `${cost.roundTrips} round trips, ${seconds.map((s) => `${s.toFixed(3)} s`).join(', ')}`,
      );
    }
  }
  mkdirSync(out, { recursive: true });
  const file = (ending: string) => path.join(out, `ablation.${ending}`);
  const record = { date: new Date().toISOString(), machine: machine(), repeat, rate };
  writeFileSync(
    file('json'),
    `${JSON.stringify({ ...record, roundTrips: distances, rows: all }, null, 2)}\n`,
  );
  writeFileSync(file('md'), page(all, distances, record));
  writeFileSync(file('svg'), plot(all, distances));
});

async function time(run: () => Promise<{ code: number | null; stderr: string }>): Promise<number> {
  const taken: number[] = [];
  for (let i = 0; i < repeat; i++) {
    const start = performance.now();
    const { code, stderr } = await run();
    taken.push((performance.now() - start) / 1e3);
    if (code !== 0) throw new Error(`a program ended with ${code}: ${stderr}`);
  }
  return median(taken);
}
