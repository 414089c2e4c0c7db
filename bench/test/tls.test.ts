// That `npm run bench -- tls --quick` measures each way. How fast anything is is not looked at.
// Run nightly: each figure is measured six times, by processes of its own.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { js } from '../../bin/paths.mjs';
import { noTls } from '../../test/support/paths.js';

t.test('in clear, by TLS and by an agent', { skip: noTls, timeout: 300_000 }, async (t) => {
  const out = path.join(t.testdir(), 'tls.json');
  const main = path.join(js, 'bench', 'tls', 'main.js');
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--enable-source-maps', main, '--quick', '--out', out],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows } = JSON.parse(readFileSync(out, 'utf8'));
  t.match(rows, [{ name: 'upload-64' }, { name: 'download-64' }, { name: 'call' }, {}, {}, {}]);
  for (const row of rows)
    for (const way of ['plain', 'tls', 'agent', 'tlsToPlain']) t.ok(row[way] > 0, way);
});
