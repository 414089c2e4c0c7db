// Machine code on the software device (the trait `empty-cubins`): its kernels and variables are what
// the same source is as PTX, by all that a program can ask, natively and remoted; but nothing is
// executed.
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const device = { SOFTWARE_DEVICE_TRAITS: 'device=h100' };
const empty = { SOFTWARE_DEVICE_TRAITS: 'device=h100,empty-cubins' };
const code = testProgram('machine-code');

t.test('natively', { skip: noPrograms }, async (t) => {
  const ptx = await native(testProgram('machine-code-ptx'), { env: device });
  t.equal(ptx.code, 0, ptx.stderr);
  t.match(ptx.stdout, /^kernel larger: .*, 5000 at 0, 1 at 5000, 5000 at 5001, 8 at 10008;/m);
  t.match(ptx.stdout, /^kernels do something: 1$/m);
  const here = await native(code, { env: empty });
  t.equal(here.code, 0, here.stderr);
  t.equal(here.stdout, ptx.stdout.replace('something: 1', 'something: 0'));

  const refused = await native(code, { env: device });
  t.match(refused.stderr, /cudaErrorNoKernelImageForDevice/);
  const other = { SOFTWARE_DEVICE_TRAITS: 'device=a10,empty-cubins' };
  const elsewhere = await native(code, { env: other });
  t.match(elsewhere.stderr, /cudaErrorNoKernelImageForDevice/, 'code for another architecture');
  const both = await native(testProgram('machine-code-ptx'), { env: empty });
  t.equal(both.stdout, ptx.stdout, 'PTX is executed all the same');
});

t.test('remoted', { skip: noPrograms }, async (t) => {
  const server = await startServer({ env: empty });
  t.teardown(() => server.stop());
  const here = await native(code, { env: empty });
  const there = await remoted(code, server.address);
  t.equal(there.code, 0, there.stderr);
  t.equal(there.stdout, here.stdout);
});
