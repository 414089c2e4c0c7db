// npm run bench [-- --only NAME,...] [--quick] [--out FILE]
//
// Measures every figure through Outboard on loopback, side by side with its counterparts, prints a
// table and writes bench/results/latest.json. npm run bench has built what this needs.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../bin/paths.mjs';
import { buildExamples } from '../examples/build.mjs';
import { named } from '../test/support/device.js';
import { type Measurement, measurements, type Placement, quick } from './src/figures.js';
import { machine } from './src/machine.js';
import { processors } from './src/placement.js';
import { type Row, row, table } from './src/row.js';
import { Samples, sample } from './src/sample.js';
import { startServing } from './src/serving.js';

async function main() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      out: { type: 'string' },
    },
  });
  // Only a whole run is worth keeping.
  const whole = !values.only && !values.quick && named === null;
  const out =
    values.out ??
    (whole
      ? path.join(root, 'bench', 'results', 'latest.json')
      : path.join(build, 'bench', 'partial.json'));
  const nvcc = process.env['NVCC'];
  const chosen = choose(values.only?.split(','), nvcc !== undefined);
  if (nvcc !== undefined) await buildRuntimeProgram(nvcc);
  else console.log('No nvcc: the figures of the runtime API are left out.');

  const rows = await measureAll(values.quick ? chosen.map(quick) : chosen);
  mkdirSync(path.dirname(out), { recursive: true });
  writeFileSync(out, `${JSON.stringify(rows, null, 2)}\n`);
  console.log(`${table(rows)}\n\nWritten to ${path.relative(process.cwd(), out)}.`);
}

function choose(only: string[] | undefined, nvcc: boolean): Measurement[] {
  const names = measurements.flatMap(({ figures }) => figures.map(({ name }) => name));
  const unknown = only?.filter((name) => !names.includes(name)) ?? [];
  if (unknown.length > 0) {
    throw new Error(`There is no figure ${unknown.join(', ')}. The figures: ${names.join(', ')}.`);
  }
  return measurements
    .filter(({ program }) => nvcc || program !== 'runtime')
    .map((measurement) => {
      const figures = measurement.figures.filter(({ name }) => only?.includes(name) ?? true);
      return { ...measurement, figures };
    })
    .filter(({ figures }) => figures.length > 0);
}

async function buildRuntimeProgram(nvcc: string) {
  const sources = path.join(root, 'bench', 'programs');
  await buildExamples({ nvcc, sources, out: path.join(build, 'bench') });
}

async function measureAll(chosen: Measurement[]): Promise<Row[]> {
  for (const file of [
    'bench/bench-measure',
    'bench/bench-memory',
    'bench/bench-peer',
    'guest-lib/libcuda.so.1',
  ]) {
    if (existsSync(path.join(build, file))) continue;
    throw new Error(`${path.join(build, file)} is missing. Use npm run bench, which builds it.`);
  }
  const folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-bench-'));
  const date = new Date().toISOString();
  const here = machine();
  const rows: Row[] = [];
  try {
    for (const placement of ['apart', 'one-core'] satisfies Placement[]) {
      const mine = chosen.filter((measurement) => measurement.placement === placement);
      if (mine.length === 0) continue;
      const samples = await measurePlacement(placement, mine, folder);
      for (const { figures } of mine) {
        for (const figure of figures) rows.push(row(figure, samples, date, here));
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return rows;
}

/** All of them once, then all of them again: what disturbs one run of a figure spares the next. */
async function measurePlacement(placement: Placement, chosen: Measurement[], folder: string) {
  const samples = new Samples();
  const where = processors(placement);
  const serving = await startServing(where, folder);
  const surroundings = { serving, processors: where, stats: path.join(folder, 'stats') };
  try {
    for (let run = 0; chosen.some(({ runs }) => run < runs); run++) {
      for (const measurement of chosen) {
        if (run >= measurement.runs) continue;
        if (process.stdout.isTTY)
          process.stdout.write(`\r\x1b[K${measurement.figures[0]?.name} ${run + 1}`);
        sample(measurement, surroundings, samples);
      }
    }
  } finally {
    if (process.stdout.isTTY) process.stdout.write('\r\x1b[K');
    await serving.stop();
  }
  return samples;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
