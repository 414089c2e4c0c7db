// A driver takes memory of the device that nobody asked for (the trait `hidden-memory` of the software device). What
// a session was told that it may have is there all the same.
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

// A KiB of stack takes 24 MiB there.
const env = {
  SOFTWARE_DEVICE_TRAITS: 'hidden-memory',
  SOFTWARE_DEVICE_MEMORY: '1G',
  SOFTWARE_DEVICE_MULTIPROCESSORS: '16',
};

t.test('all memory and large stacks', { skip: noPrograms }, async (t) => {
  const args = ['--device', 'software', '--servers-per-gpu', '1'];
  const little = ['--pinned-memory', 'none', '--module-memory', '4M'];
  const server = await startServer({ args: [...args, ...little], env });
  t.teardown(() => server.stop());
  const program = testProgram('large-stacks');
  const here = await native(program, { env });
  t.equal(here.code, 0, here.stderr);
  t.match(here.stdout, 'then: cudaErrorMemoryAllocation\n8 KiB beside all: cudaErrorMemoryAlloc');
  // Stacks that grew in one session are not the next one's.
  for (const round of ['first', 'second']) {
    const there = await remoted(program, server.address);
    t.equal(there.code, 0, there.stderr);
    t.equal(there.stdout, here.stdout, round);
    t.match(there.stderr, '2 KiB beside all: cudaSuccess\n');
    await server.rested();
  }
  t.match(server.log(), 'a launch is refused: stacks of 8192 bytes');
});
