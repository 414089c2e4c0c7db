// The backbone: the same CUDA program, natively on the software device and remoted, gives the same.
import t from 'tap';
import { listPrograms } from '../../../examples/build.mjs';
import { onDevice } from '../../support/device.js';
import { plainPrograms } from '../../support/features.js';
import { noPrograms, root } from '../../support/paths.js';
import { example, native, remoted, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

let server: TestServer;
t.before(async () => {
  if (!noPrograms) server = await startServer();
});
t.teardown(async () => {
  if (!noPrograms) await server.stop();
});

for (const program of listPrograms(`${root}/examples`)) {
  t.test(`example ${program.name}`, { skip: noPrograms }, async (t) => {
    const args = program.testArgs;
    const here = await native(example(program.name), { args });
    const there = await remoted(example(program.name), server.address, { args });
    t.equal(here.code, 0, `natively: ${here.stderr}`);
    t.equal(there.code, 0, `remoted: ${there.stderr}`);
    t.equal(there.stdout, here.stdout);
    t.equal(there.stderr, '', 'nothing on stderr');
  });
}

for (const program of plainPrograms) {
  t.test(`program ${program.name}`, { skip: noPrograms }, async (t) => {
    const here = await native(testProgram(program.name));
    const there = await remoted(testProgram(program.name), server.address);
    t.equal(here.code, 0, `natively: ${here.stderr}`);
    t.equal(there.code, 0, `remoted: ${there.stderr}`);
    t.equal(there.stdout, here.stdout);
    t.notMatch(here.stdout, /WRONG/);
  });
}

// A heap that a kernel has used cannot be resized: a context does not serve another session then.
t.test('a heap of its own for each program', { skip: noPrograms }, async (t) => {
  const args = [...onDevice, '--gpus', '1', '--servers-per-gpu', '1'];
  const alone = await startServer({ args });
  t.teardown(() => alone.stop());
  for (const name of ['virtual-functions', 'device-heap', 'virtual-functions', 'device-heap']) {
    const there = await remoted(testProgram(name), alone.address);
    t.equal(there.code, 0, `${name}: ${there.stderr}`);
  }
});

for (const loading of ['LD_PRELOAD', 'LD_LIBRARY_PATH'] as const) {
  for (const name of ['symbols', 'shared-cudart']) {
    t.test(`${name} through ${loading}`, { skip: noPrograms }, async (t) => {
      const here = await native(testProgram(name), { loading });
      const there = await remoted(testProgram(name), server.address, { loading });
      t.equal(here.code, 0, here.stderr);
      t.equal(there.code, 0, there.stderr);
      t.equal(there.stdout, here.stdout);
    });
  }
}
