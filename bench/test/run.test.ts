// That `npm run bench -- --quick` measures every figure. Of what it measures, only memory is
// looked at: it does not depend on how fast the machine is.
// Run nightly: all suites are run, one after the other.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { js } from '../../bin/paths.mjs';
import { notBuilt } from '../../test/support/paths.js';
import { measurements } from '../src/figures.js';
import type { Row } from '../src/row.js';

const skip = notBuilt(
  'api-server/executor.node',
  'bench/bench-measure',
  'bench/bench-memory',
  'bench/bench-peer',
  'bench/null-device/libcuda.so.1',
  'guest-lib/libcuda.so.1',
);

function bench(args: string[]) {
  const argv = ['--enable-source-maps', path.join(js, 'bench', 'run.js'), ...args];
  return spawnSync(process.execPath, argv, { encoding: 'utf8' });
}

t.test('every figure has a row that says all of it', { skip, timeout: 300_000 }, async (t) => {
  const out = path.join(t.testdir(), 'rows.json');
  const { status, stdout, stderr } = bench(['--quick', '--out', out]);
  t.equal(stderr, '');
  t.equal(status, 0);
  const rows: Row[] = JSON.parse(readFileSync(out, 'utf8'));
  const nvcc = process.env['NVCC'] !== undefined;
  const expected = measurements.filter(({ program }) => nvcc || program !== 'runtime');
  const names = expected.flatMap(({ figures }) => figures.map(({ name }) => name));
  t.same(rows.map(({ name }) => name).sort(), names.sort());
  for (const { name, machine, ...row } of rows) {
    t.ok(row.value > 0 && row.comparedValue > 0 && row.ratio > 0 && row.native > 0, name);
    t.ok(row.min <= row.value && row.value <= row.max && row.repetitions >= 1, name);
    t.ok(row.unit && row.what && row.comparedWith && !Number.isNaN(Date.parse(row.date)), name);
    t.ok(machine.cpu && machine.kernel && machine.cores > 0, name);
    t.ok(stdout.includes(name), `${name} is in the table`);
  }
});

t.test('memory stays within its marks', { skip, timeout: 60_000 }, async (t) => {
  const out = path.join(t.testdir(), 'rows.json');
  t.equal(bench(['--quick', '--only', 'memory.idle,memory.busy', '--out', out]).status, 0);
  const rows: Row[] = JSON.parse(readFileSync(out, 'utf8'));
  t.same(
    rows.map(({ name, mark }) => [name, mark?.met]),
    [
      ['memory.idle', true],
      ['memory.busy', true],
    ],
    rows.map(({ name, value }) => `${name}: ${value} MiB`).join(', '),
  );
});

t.test('one figure by name; a name that is none', { skip, timeout: 60_000 }, async (t) => {
  const out = path.join(t.testdir(), 'rows.json');
  t.equal(bench(['--quick', '--only', 'call', '--out', out]).status, 0);
  const rows: Row[] = JSON.parse(readFileSync(out, 'utf8'));
  t.same(
    rows.map(({ name }) => name),
    ['call'],
  );
  const wrong = bench(['--only', 'speed']);
  t.equal(wrong.status, 1);
  t.match(wrong.stderr, /no figure speed\. The figures: launch\.returned, .*attach/);
});
