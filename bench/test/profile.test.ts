// That `npm run bench -- profile --quick` writes a flame graph and the functions of both sides.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, js } from '../../bin/paths.mjs';
import { whyNoPerf } from '../profile/perf.js';

const needed = ['api-server/executor.node', 'bench/bench-measure'];
const missing = needed.filter((file) => !existsSync(path.join(build, file)));
const skip = missing.length > 0 ? `not built: ${missing.join(', ')}` : (whyNoPerf() ?? false);

t.test('the profile of calls', { skip, timeout: 120_000 }, async (t) => {
  const out = t.testdir();
  const { status, stderr } = spawnSync(
    process.execPath,
    [
      ...['--enable-source-maps', path.join(js, 'bench', 'profile', 'main.js')],
      ...['--quick', '--only', 'call', '--out', out],
    ],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const graph = readFileSync(path.join(out, 'call.svg'), 'utf8');
  // Which functions a short run is seen in is chance.
  t.match(graph, /<title>\S+.* \(\d+ samples\)/, 'there are frames');
  t.notMatch(graph, /<script|onmouse|data-/, 'and nothing but pictures');
  const functions = readFileSync(path.join(out, 'call.txt'), 'utf8');
  const [program = '', executor = ''] = functions.split('The API server process');
  for (const list of [program, executor]) t.match(list, /\d\.\d\d%\s+\S+\s+\[[.k]\] \S/);
});
