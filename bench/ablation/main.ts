// npm run bench -- ablation [--quick] [--only PROGRAM,...] [--repeat N] [--out FOLDER]
//
// What each design decision saves: example programs run as they are, then without batching, local
// answers, minted handles, deferred copies or the module cache, one by one, and without all of
// them; over networks of several round-trip times. Writes bench/results/ablation.{json,md,svg}.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { counted, example } from '../../test/support/program.js';
import { exampleRuns, secondsOf } from '../src/example-runs.js';
import { overLink, withSoftwareServer } from '../src/link.js';
import { machine } from '../src/machine.js';
import { type Measured, page } from './page.js';
import { plot } from './plot.js';
import { settings } from './settings.js';

const chosen = ['vector-add', 'matrix-multiply', 'reduction', 'histogram', 'stencil', 'kmeans'];
const roundTrips = [0.1, 1, 30];
const rate = 10;

const { quick, repeat, out, programs } = exampleRuns(chosen, 3);
const distances = quick ? roundTrips.slice(0, 1) : roundTrips;

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
            secondsOf(repeat, () => run(without, through)),
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
