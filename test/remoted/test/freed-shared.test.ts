// Memory that was shared and freed, by every way of freeing: nobody opens it by its old handle, not even who has it
// open, and who has it open harms nothing beside it. Of three processes, so with three sessions.
import t from 'tap';
import { onDevice } from '../../support/device.js';
import { noPrograms } from '../../support/paths.js';
import { native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

t.test('what is freed has no name any more', { skip: noPrograms }, async (t) => {
  const server = await startServer({
    args: [...onDevice, '--gpus', '1', '--servers-per-gpu', '3'],
  });
  t.teardown(() => server.stop());
  const program = testProgram('freed-shared');
  const here = await native(program);
  t.equal(here.code, 0, here.stderr);
  const there = await remoted(program, server.address);
  t.same(
    { code: there.code, stdout: there.stdout },
    { code: 0, stdout: here.stdout },
    there.stderr,
  );
});
