// npm run bench -- migration [--quick] [--scale 8] [--pairs 9] [--only kmeans,nlp,...]
//
// What a move costs a program: for how long it stands still, beside a plain copy of the same bytes the same way, in turn
// in one run; at the sizes of DGSF's Table 1, so many times smaller.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../../bin/paths.mjs';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { moved } from './moves.js';
import { page, sizes } from './page.js';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    scale: { type: 'string', default: '8' },
    pairs: { type: 'string', default: '9' },
    only: { type: 'string' },
  },
});
const scale = Number(values.scale);
const pairs = values.quick ? 1 : Number(values.pairs);
if (!(scale >= 1) || !(pairs >= 1))
  throw new Error('--scale and --pairs are numbers of at least 1');
const only = values.quick ? [sizes[0]?.name] : values.only?.split(',');
const chosen = sizes.filter(({ name }) => only?.includes(name) ?? true);

const rows = [];
for (const { name, megabytes } of chosen) {
  const bytes = Math.round(megabytes / scale) * 2 ** 20;
  const row = { name, ...(await moved(bytes, pairs)) };
  rows.push(row);
  console.log(
    name,
    row.pairs
      .map((pair) =>
        Object.entries(pair)
          .map(([what, ms]) => `${what} ${ms.toFixed(1)}`)
          .join(' '),
      )
      .join('\n  '),
  );
}
const result = { date: new Date().toISOString(), machine: machine(), scale, rows };
const whole = scale === 8 && pairs === 9 && only === undefined;
const folder = whole ? record : path.join(build, 'bench');
mkdirSync(folder, { recursive: true });
const text = page(result);
console.log(`\n${text}`);
writeFileSync(path.join(folder, 'migration.json'), `${JSON.stringify(result, null, 2)}\n`);
writeFileSync(path.join(folder, 'migration.md'), text);
console.log(`Written to ${path.relative(process.cwd(), path.join(folder, 'migration.md'))}.`);
