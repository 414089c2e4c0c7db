// That `npm run bench -- ablation --quick` runs a program without each decision, that each costs
// what it should, and that the results become a page. How fast anything is is not looked at.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, js } from '../../bin/paths.mjs';
import type { Measured } from '../ablation/page.js';
import { summary } from '../ablation/page.js';
import { plot, slower } from '../ablation/plot.js';

const skip =
  !existsSync(path.join(build, 'examples', 'vector-add')) &&
  (process.env['NVCC'] ? 'the CUDA programs are not built' : 'no nvcc');

t.test('a page of two rows', async (t) => {
  const row = { program: 'one', calls: 100, bytes: 5 };
  const rows: Measured[] = [
    { ...row, setting: 'as it is', commands: 10, roundTrips: 4, seconds: [1] },
    { ...row, setting: 'none of them', commands: 90, roundTrips: 80, seconds: [3] },
  ];
  t.match(summary(rows), /89 % fewer \(10 instead of 90\), round trips 95 % fewer/);
  t.ok(Math.abs(slower(rows, 'none of them', 0) - 3) < 1e-9);
  const svg = plot(rows, [1]);
  t.match(svg, /none of them: 3\.00x/);
  t.notMatch(svg, /NaN/);
});

t.test('a program without each decision', { skip, timeout: 300_000 }, async (t) => {
  const out = t.testdir();
  const { status, stderr } = spawnSync(
    process.execPath,
    [
      ...['--enable-source-maps', path.join(js, 'bench', 'ablation', 'main.js')],
      ...['--quick', '--only', 'vector-add', '--out', out],
    ],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows } = JSON.parse(readFileSync(path.join(out, 'ablation.json'), 'utf8'));
  const of = (setting: string) => rows.find((row: Measured) => row.setting === setting);
  const base = of('as it is');
  t.ok(of('no local answers').roundTrips > base.roundTrips + 50);
  t.ok(of('no minted handles').roundTrips > base.roundTrips);
  t.ok(of('no module cache').bytes >= base.bytes);
  t.ok(of('none of them').commands > base.commands);
  t.match(readFileSync(path.join(out, 'ablation.md'), 'utf8'), /vector-add/);
});
