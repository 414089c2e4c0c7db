// What a session learns of libraries is told to the next one of its function: which calls succeed, so that it does not wait
// for them, and what was asked, so that it does not ask.
import t from 'tap';
import { counted, testProgram } from '../../test/support/program.js';
import { real, serve, skip, withOurs, withReal } from './support.js';

const named = (args: string[], name: string) => {
  const { env, ...rest } = withOurs(args);
  return { ...rest, env: { ...env, OUTBOARD_NAME: name } };
};

t.test(
  'the second session of a function waits for less, and gets the same',
  { skip },
  async (t) => {
    const server = await serve(real ?? '', ['--module-memory', '512M']);
    t.teardown(() => server.stop());
    for (const [name, args, own] of [
      ['cublaslt-calls', ['products'], withReal(['products'])],
      ['cublaslt-calls', ['algorithms'], null],
      ['cublas-calls', ['few'], withReal(['few'])],
    ] as const) {
      const program = testProgram(name);
      const what = `${name} ${args}`;
      const first = await counted(program, server.address, named([...args], what));
      await server.rested();
      const second = await counted(program, server.address, named([...args], what));
      await server.rested();
      t.equal(second.stdout, first.stdout, `${what}: ${second.stderr}${server.log()}`);
      t.equal(second.code, 0);
      t.comment(`${what}: ${JSON.stringify([first.cost, second.cost])}`);
      t.ok(second.cost.roundTrips < first.cost.roundTrips, `${what}: fewer round trips`);
      t.ok(second.cost.bytesSent < first.cost.bytesSent, `${what}: fewer bytes`);
      if (!own) continue;
      const other = await counted(program, server.address, own);
      await server.rested();
      t.ok(second.cost.roundTrips < other.cost.roundTrips, `${what}: fewer than with its own`);
      const most = other.cost.roundTrips;
      t.ok(first.cost.roundTrips <= most, `${what}: ${first.cost.roundTrips} at first, of ${most}`);
      const stranger = await counted(program, server.address, named([...args], 'another function'));
      await server.rested();
      t.equal(stranger.cost.roundTrips, first.cost.roundTrips, 'other functions are told nothing');
    }
  },
);

t.test('what was learnt ends with a reset of the context', { skip }, async (t) => {
  const server = await serve(real ?? '', ['--module-memory', '512M']);
  t.teardown(() => server.stop());
  const program = testProgram('cublaslt-calls');
  const first = await counted(program, server.address, named(['reset'], 'resets'));
  t.equal(first.code, 0, first.stderr);
  await server.rested();
  const second = await counted(program, server.address, named(['reset'], 'resets'));
  t.equal(second.stdout, first.stdout, second.stderr + server.log());
});
