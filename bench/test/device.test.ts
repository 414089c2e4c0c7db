// That `npm run bench -- device --quick` measures every figure, and that kernels and C agree. How
// fast anything is is not looked at.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, js } from '../../bin/paths.mjs';
import { figures } from '../device/marks.js';

const library = path.join(build, 'software-device', 'libcuda.so.1');
const skip =
  (!existsSync(library) && `not built: ${library}`) ||
  (!process.env['NVCC'] && 'there is no nvcc here');

t.test('every figure of the device has a row', { skip, timeout: 300_000 }, async (t) => {
  const out = path.join(t.testdir(), 'device.json');
  const argv = ['--enable-source-maps', path.join(js, 'bench', 'device', 'main.js')];
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...argv, '--quick', '--out', out],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows } = JSON.parse(readFileSync(out, 'utf8'));
  t.same(
    rows.map((row: { name: string }) => row.name),
    figures.map(({ name }) => name),
  );
  for (const row of rows) {
    t.ok(row.value >= 0 && row.min <= row.value && row.value <= row.max, row.name);
    t.ok(row.unit && row.what && stdout.includes(row.name), row.name);
    if (row.comparedWith) t.ok(row.ratio > 0 && row.comparedValue > 0, row.name);
  }
});
