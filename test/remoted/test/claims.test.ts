// A GPU claims more than travels (the trait `device` of the software device): programs are told only
// of what a call then does.
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

for (const name of ['h100', 'a10', 'l4', 't4']) {
  t.test(`nothing is claimed and then refused: ${name}`, { skip: noPrograms }, async (t) => {
    const env = { SOFTWARE_DEVICE_TRAITS: `device=${name}` };
    const program = testProgram('claims');
    const here = await native(program, { env });
    t.equal(here.code, 2, 'the device itself refuses what it claims');
    t.match(here.stdout, 'SPARSE_CUDA_ARRAY_SUPPORTED is 1: CUDA_ERROR_NOT_SUPPORTED');
    const server = await startServer({ env });
    t.teardown(() => server.stop());
    const there = await remoted(program, server.address);
    t.equal(there.code, 0, there.stdout);
    t.match(there.stdout, 'SPARSE_CUDA_ARRAY_SUPPORTED is 0: CUDA_ERROR_NOT_SUPPORTED');
    t.match(there.stdout, 'VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED is 1: CUDA_SUCCESS');
  });
}
