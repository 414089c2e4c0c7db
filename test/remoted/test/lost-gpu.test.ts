// A GPU that is lost while it is served: every call of the driver fails (the trait `lost-gpu`). Programs get an error,
// nobody is given to a process that has lost it, and when it is there again it is served again.
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { example, outcome, remoted, startRemoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

t.test('lost, and there again', { skip: noPrograms }, async (t) => {
  const lost = path.join(t.testdir({}), 'lost');
  const server = await startServer({ env: { SOFTWARE_DEVICE_TRAITS: `lost-gpu=${lost}` } });
  t.teardown(() => server.stop());
  const working = startRemoted(testProgram('endless-launch'), server.address);
  const ended = outcome(working);
  await new Promise((begun) => working.stdout?.once('data', begun));
  writeFileSync(lost, '');
  const { code, stdout } = await ended;
  t.equal(code, 0);
  t.match(stdout, /^then: cudaErrorUnknown$/m);

  // Both processes have lost it: the one that served it and the one that waits.
  const next = await remoted(example('vector-add'), server.address, {
    env: { OUTBOARD_LOG: 'error' },
  });
  t.not(next.code, 0);
  t.match(next.stderr, /OB_NO_SLOT\): .*GPU 0 is not there any more: /);
  t.match(server.log(), /OB_GPU_LOST.*does not say how much memory is free any more/);

  rmSync(lost);
  const again = async () => (await remoted(example('vector-add'), server.address)).code === 0;
  while (!(await again())) await server.logged(/./);
  t.pass('it is served again');
});
