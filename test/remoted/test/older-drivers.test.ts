// A server whose driver is older than Outboard's facts (the trait `driver` of the software device)
// does what a new one does, and programs find what that driver has.
import path from 'node:path';
import t from 'tap';
import { listPrograms } from '../../../examples/build.mjs';
import { sharedRuntime } from '../../../scripts/setup/runtimes.mjs';
import { compileLookups, missingInRuntimeRun, oldRuntimeRun } from '../../clients/runtimes.js';
import { build, noPrograms, root } from '../../support/paths.js';
import { example, native, remoted } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const sequences = path.join(build, 'test', 'sequences', 'driver-sequences');

// For each change the oldest, which lacks most.
for (const version of process.env['NIGHTLY'] ? ['12.4', '12.6', '12.8', '13.0'] : ['12.4']) {
  // The programs are PTX of CUDA 13.0 here, where others have machine code.
  const env = { SOFTWARE_DEVICE_TRAITS: `driver=${version},newer-ptx` };
  t.test(`CUDA ${version}`, async (t) => {
    const server = await startServer({ env });
    t.teardown(() => server.stop());

    await t.test('look-ups', async (t) => {
      const lookups = compileLookups();
      const args = ['started'];
      const here = await native(lookups, { args, env });
      t.equal(here.code, 0, here.stderr);
      t.match(here.stdout, `driver ${version.replace('.', '0')}0\n`);
      t.match(here.stdout, /^cuKernelGetParamCount 0: 1000 500\(1\)$/m, 'what came with 13.2');
      t.match(here.stdout, /^cuMemAlloc 0: .* 3020 cuMemAlloc_v2$/m);
      t.equal((await remoted(lookups, server.address, { args })).stdout, here.stdout);
    });

    await t.test('sequences of calls', async (t) => {
      for (const seed of ['1', '2', '3', '4']) {
        const args = [seed, '300'];
        const here = await native(sequences, { args });
        const there = await remoted(sequences, server.address, { args });
        t.equal(there.code, 0, there.stderr);
        t.equal(there.stdout, here.stdout, `as on a new driver: ${seed}`);
      }
    });

    // Their runtime is of CUDA 13, which asks for the driver's version before there is a session.
    // One has none.
    const isRefused = (name: string) => version.startsWith('12.') && name !== 'driver-api';
    for (const { name, testArgs: args } of listPrograms(`${root}/examples`)) {
      await t.test(`example ${name}`, { skip: noPrograms }, async (t) => {
        const here = await native(example(name), { args, env });
        const there = await remoted(example(name), server.address, { args });
        t.equal(here.code !== 0, isRefused(name), here.stderr);
        if (isRefused(name)) t.match(here.stderr, 'driver version is insufficient');
        t.equal(there.stdout, here.stdout);
        t.equal(there.stderr, here.stderr);
        t.equal(there.code, here.code);
      });
    }

    const noRuntime = !sharedRuntime('11.8') && 'the CUDA runtime 11.8 is not installed';
    await t.test('a runtime that is older', { skip: noRuntime }, async (t) => {
      const run = oldRuntimeRun();
      const { program, args } = run;
      const here = await native(program, { args, env });
      t.equal(here.code, 0, here.stderr);
      t.same(missingInRuntimeRun(run, here.stdout), []);
      t.equal((await remoted(program, server.address, { args })).stdout, here.stdout);
    });
  });
}
