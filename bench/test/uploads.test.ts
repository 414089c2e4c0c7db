// That `npm run bench -- uploads --quick` sends the same bytes in every way. How fast anything is is
// not looked at.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { js } from '../../bin/paths.mjs';

t.test('over two links, three ways', { timeout: 300_000 }, async (t) => {
  const out = path.join(t.testdir(), 'uploads.json');
  const main = path.join(js, 'bench', 'uploads', 'main.js');
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--enable-source-maps', main, '--quick', '--out', out],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows } = JSON.parse(readFileSync(out, 'utf8'));
  t.match(rows, [{ rate: 1 }, { rate: 10 }]);
  for (const row of rows) {
    for (const way of ['plain', 'new', 'again']) t.ok(row[way] > 0, `${way}: ${row[way]} ms`);
  }
});
