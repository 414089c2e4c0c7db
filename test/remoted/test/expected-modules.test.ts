// The modules that a program's last session used are loaded before its next one asks: that has no
// round trip for them, and sends no byte of them.
import t, { type Test } from 'tap';
import { noPrograms } from '../../support/paths.js';
import { counted, example, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

async function withServer(t: Test, use: (run: Run) => Promise<void>) {
  const server: TestServer = await startServer();
  try {
    await use(async (program, env = {}) => {
      const result = await counted(program, server.address, { env });
      t.equal(result.code, 0, result.stderr);
      await server.rested();
      return { roundTrips: result.cost.roundTrips, imageBytes: result.imageBytes };
    });
  } finally {
    await server.stop();
  }
}
type Run = (
  program: string,
  env?: Record<string, string>,
) => Promise<{ roundTrips: number; imageBytes: number }>;

t.test('from the second session on', { skip: noPrograms }, (t) =>
  withServer(t, async (run) => {
    const first = await run(example('vector-add'));
    t.ok(first.imageBytes > 0);
    const known = { roundTrips: first.roundTrips - 1, imageBytes: 0 };
    t.same(await run(example('vector-add')), known);
    t.same(await run(example('vector-add')), known, 'and again');
  }),
);

t.test('by the name of the function', { skip: noPrograms }, (t) =>
  withServer(t, async (run) => {
    const first = await run(example('vector-add'), { OUTBOARD_NAME: 'one' });
    const other = await run(example('vector-add'), { OUTBOARD_NAME: 'other' });
    t.equal(other.roundTrips, first.roundTrips);
    const known = await run(example('vector-add'), { OUTBOARD_NAME: 'one' });
    t.equal(known.roundTrips, first.roundTrips - 1);
  }),
);

t.test('another program of the same name', { skip: noPrograms }, (t) =>
  withServer(t, async (run) => {
    const name = { OUTBOARD_NAME: 'function' };
    await run(example('vector-add'), name);
    const changed = await run(example('driver-api'), name);
    t.ok(changed.imageBytes > 0, 'loads what it has');
    const known = await run(example('driver-api'), name);
    t.equal(known.imageBytes, 0);
    // For the module, and for its variable, which the server learnt of.
    t.equal(known.roundTrips, changed.roundTrips - 2);
  }),
);

t.test('a guest that does without', { skip: noPrograms }, (t) =>
  withServer(t, async (run) => {
    const first = await run(example('vector-add'));
    const without = await run(example('vector-add'), { OUTBOARD_ABLATION: 'modules' });
    t.equal(without.roundTrips, first.roundTrips);
    t.equal(without.imageBytes, first.imageBytes);
  }),
);

t.test('a module that fixes the heap waits until it is asked for', { skip: noPrograms }, (t) =>
  withServer(t, async (run) => {
    const first = await run(testProgram('device-heap'));
    t.equal((await run(testProgram('device-heap'))).roundTrips, first.roundTrips);
  }),
);
