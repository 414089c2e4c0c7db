// That `npm run bench -- examples --quick` runs every example on both sides and finds the times
// that it prints. How long they take is not looked at.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, js } from '../../bin/paths.mjs';
import { deviceTime, sizes } from '../examples/sizes.js';

const skip =
  !existsSync(path.join(build, 'examples', 'vector-add')) &&
  (process.env['NVCC'] ? 'the CUDA programs are not built' : 'no nvcc');

t.test('the times of a program', async (t) => {
  const stderr = 'time: CPU                 100.000 ms\ntime: by host, here        2.500 ms\n';
  t.equal(deviceTime(stderr, ['by host, here']), 2.5);
  t.equal(deviceTime(stderr, ['CPU', 'by host, here']), 102.5);
  t.throws(() => deviceTime(stderr, ['by host']), /no time for "by host"/);
});

t.test('every example, natively and remoted', { skip, timeout: 300_000 }, async (t) => {
  const out = t.testdir();
  const { status, stderr } = spawnSync(
    process.execPath,
    [
      ...['--enable-source-maps', path.join(js, 'bench', 'examples', 'main.js')],
      ...['--quick', '--out', out],
    ],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows } = JSON.parse(readFileSync(path.join(out, 'examples.json'), 'utf8'));
  t.same(
    rows.map(({ program }: { program: string }) => program).sort(),
    sizes.map(({ program }) => program).sort(),
  );
  for (const row of rows) {
    t.ok(row.native > 0 && row.remoted > 0 && row.ratio > 0, row.program);
    t.ok(row.nativeDevice > 0 && row.remotedDevice > 0, row.program);
  }
  t.match(readFileSync(path.join(out, 'examples.md'), 'utf8'), /driver-api/);
});
