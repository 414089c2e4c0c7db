// That `npm run bench -- latency --quick` runs a program over a link and says what it should take;
// and that the formula adds up. How fast anything is is not looked at.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, js } from '../../bin/paths.mjs';
import { expected } from '../latency/links.js';
import { plot } from '../latency/plot.js';

const skip =
  !existsSync(path.join(build, 'examples', 'vector-add')) &&
  (process.env['NVCC'] ? 'the CUDA programs are not built' : 'no nvcc');

t.test('round trips and bytes are added to what a program takes near by', async (t) => {
  const travel = { roundTrips: 3, bytesSent: 1e6, bytesReceived: 25e4 };
  t.equal(expected(0.5, travel, { roundTrip: 100, rate: 0.1 }), 0.5 + 0.4 + 0.1);
});

t.test('a chart has a point for each measurement', async (t) => {
  const line = { name: 'one', points: [1, 2].map((x) => ({ x, measured: x, expected: x })) };
  const svg = plot([{ title: 'a', axis: 'b', lines: [line] }]);
  t.equal(svg.match(/<circle/g)?.length, 2);
  t.notMatch(svg, /NaN/);
});

t.test('a program over a link', { skip, timeout: 300_000 }, async (t) => {
  const out = t.testdir();
  const main = path.join(js, 'bench', 'latency', 'main.js');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--enable-source-maps', main, '--quick', '--only', 'vector-add', '--out', out],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows } = JSON.parse(readFileSync(path.join(out, 'latency.json'), 'utf8'));
  t.equal(rows.length, 1);
  t.match(rows[0], { program: 'vector-add', roundTrip: 1, rate: 10 });
  t.ok(rows[0].measured >= (rows[0].roundTrips * rows[0].roundTrip) / 1e3, stdout);
  t.match(readFileSync(path.join(out, 'latency.md'), 'utf8'), /vector-add/);
});
