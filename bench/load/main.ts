// npm run bench -- load [--only NAME,...]
//
// Puts a real server through what a bad day brings, with guests that attach and leave, and writes
// what it saw to bench/results/load.json. Guests and server share this machine's processors.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../../bin/paths.mjs';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { type Figure, scenarios } from './scenarios.js';

const { values } = parseArgs({ options: { only: { type: 'string' } } });
const wanted = values.only?.split(',');
const rows: (Figure & { met: boolean | null })[] = [];
for (const { name, run } of scenarios) {
  if (wanted && !wanted.includes(name)) continue;
  for (const figure of await run()) {
    const row = { ...figure, met: met(figure) };
    rows.push(row);
    const judged = row.met === null ? '' : row.met ? 'met' : 'NOT MET';
    const value = figure.value.toFixed(figure.value < 100 ? 2 : 0);
    console.log(
      `${figure.name.padEnd(22)} ${value.padStart(8)} ${figure.unit.padEnd(4)} ${bound(figure).padEnd(10)} ${judged.padEnd(8)} ${figure.what}`,
    );
  }
}
const folder = wanted ? path.join(build, 'bench') : record;
mkdirSync(folder, { recursive: true });
const file = path.join(folder, 'load.json');
const result = { date: new Date().toISOString(), machine: machine(), rows };
writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
console.log(`\nWritten to ${path.relative(process.cwd(), file)}.`);

function met({ value, mark }: Figure): boolean | null {
  if (!mark) return null;
  return value >= (mark.least ?? value) && value <= (mark.most ?? value);
}

function bound({ mark }: Figure): string {
  if (mark?.least !== undefined) return `>= ${mark.least}`;
  return mark?.most === undefined ? '' : `<= ${mark.most}`;
}
