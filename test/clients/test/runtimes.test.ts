// An old and a new CUDA runtime, shared, linked and together in one process: natively on the
// software device and remoted they say the same. `npm run test:clients` takes all versions.
import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { sharedRuntime } from '../../../scripts/setup/runtimes.mjs';
import { cudartFolder } from '../../support/paths.js';
import { native, remoted } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';
import { compileLookups, fewRuntimeRuns, missingInRuntimeRun } from '../runtimes.js';

const skip = !sharedRuntime('11.8')
  ? 'the CUDA runtime 11.8 is not installed'
  : existsSync(path.join(cudartFolder, 'libcudart_static.a'))
    ? false
    : 'there is no CUDA toolkit';

let server: TestServer;
t.before(async () => {
  if (!skip) server = await startServer();
});
t.teardown(() => server?.stop());

for (const run of skip ? [] : fewRuntimeRuns()) {
  t.test(run.name, async (t) => {
    const here = await native(run.program, { args: run.args });
    t.equal(here.signal ?? here.code, 0, here.stderr);
    t.same(missingInRuntimeRun(run, here.stdout), [], 'all was done');
    const there = await remoted(run.program, server.address, { args: run.args });
    t.equal(there.stdout, here.stdout, 'the same remoted');
    t.equal(there.signal ?? there.code, 0, there.stderr);
  });
}

t.test('look-ups by any version', { skip }, async (t) => {
  const program = compileLookups();
  const here = await native(program);
  t.equal(here.signal ?? here.code, 0, here.stderr);
  t.match(here.stdout, /^cuGraphInstantiate 0: .* 12000 cuGraphInstantiateWithFlags/m);
  t.match(here.stdout, /^cuMemAllocAsync 2: .* 11020 cuMemAllocAsync_ptsz$/m);
  const there = await remoted(program, server.address);
  t.equal(there.stdout, here.stdout, 'the same remoted');
});
