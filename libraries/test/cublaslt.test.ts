// cuBLASLt whose calls travel whole, against NVIDIA's own: natively, with the real library in the
// program, and with ours in its place.
import t from 'tap';
import { counted, remoted, testProgram } from '../../test/support/program.js';
import { natively, real, serve, skip, withBound, withOurs, withReal } from './support.js';

const program = testProgram('cublaslt-calls');

t.test('descriptors are what the real ones are, without a server', { skip }, async (t) => {
  const here = await natively(program, ['descriptors']);
  // Nobody answers there.
  const ours = await remoted(program, '127.0.0.1:1', withOurs(['descriptors']));
  t.equal(here.code, 0, here.stderr);
  t.match(here.stdout, /^a copy: 7 rows$/m);
  t.same(ours.stdout.split('\n'), here.stdout.split('\n'), ours.stderr);
});

t.test('functions do what the real ones do', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  for (const how of ['products', 'algorithms', 'bad', 'reset']) {
    const here = await natively(program, [how]);
    t.equal(here.code, 0, here.stderr);
    const ours = await remoted(program, server.address, withOurs([how]));
    t.same(ours.stdout.split('\n'), here.stdout.split('\n'), ours.stderr + server.log());
  }
  const here = await natively(program, ['products', 'cublas']);
  const ours = await remoted(program, server.address, withOurs(['products', 'cublas']));
  t.same(ours.stdout, here.stdout, `with a handle of cuBLAS: ${ours.stderr}`);
});

t.test('a product is asked once, and costs less', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  // Each is a function of its own, which is told nothing of the others.
  const run = (name: string, { args, env }: ReturnType<typeof withOurs>) =>
    counted(program, server.address, { args, env: { ...env, OUTBOARD_NAME: name } });
  const own = await run('own', withReal(['few', '20']));
  const ours = await run('ours', withOurs(['few', '20']));
  const more = await run('more', withOurs(['few', '40']));
  t.match(ours.stdout, /^all as the processor has it$/m, ours.stderr + server.log());
  t.equal(own.stdout, ours.stdout, own.stderr);
  t.comment(`with its own: ${JSON.stringify({ ...own.cost, images: own.imageBytes })}`);
  t.comment(`with ours: ${JSON.stringify(ours.cost)}`);
  t.equal(more.cost.roundTrips, ours.cost.roundTrips, 'twenty more wait for nothing');
  t.equal(more.cost.commands, ours.cost.commands + 20, 'and are one command each');
  t.ok(ours.cost.roundTrips < own.cost.roundTrips, 'fewer round trips');
  t.ok(ours.cost.bytesSent < own.cost.bytesSent, 'fewer bytes');
  t.equal(ours.imageBytes, 0, 'and no code of the library');
  const bound = await run('bound', withBound(['few', '20']));
  t.equal(bound.cost.commands, ours.cost.commands, 'as many where the program has one of its own');
});

t.test('what is not the program’s is refused, and the server goes on', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const ours = await remoted(program, server.address, withOurs(['foreign']));
  const lines = ours.stdout.trim().split('\n');
  t.equal(lines.length, 16, ours.stdout + ours.stderr);
  for (const line of lines) {
    const expected = line.startsWith('a handle of nobody')
      ? 'NOT_INITIALIZED'
      : line.startsWith('a tile that there is not')
        ? 'NOT_SUPPORTED'
        : 'INVALID_VALUE';
    t.ok(line.endsWith(`: CUBLAS_STATUS_${expected}`), line);
  }
  await server.logged(/cuBLASLt is refused: its algorithm is none that this server's library/);
  await server.logged(/cuBLASLt is refused: it names memory that the session does not have/);
  const again = await remoted(program, server.address, withOurs(['few']));
  t.equal(again.code, 0, 'and the server serves the next one');
});

t.test('where processes and captures meet it', { skip }, async (t) => {
  const server = await serve(real ?? '', ['--sandbox', 'required']);
  t.teardown(() => server.stop());
  const child = await remoted(program, server.address, withOurs(['fork']));
  t.equal(
    child.stdout,
    'before: CUBLAS_STATUS_SUCCESS\nthe child: 7\nafter: CUBLAS_STATUS_SUCCESS\n',
    child.stderr,
  );
  const { args, env } = withOurs(['capture']);
  const log = { OUTBOARD_LOG: 'warn' };
  const ours = await remoted(program, server.address, { args, env: { ...env, ...log } });
  t.match(
    ours.stdout,
    /^before: CUBLAS_STATUS_SUCCESS\n(captured: CUBLAS_STATUS_NOT_SUPPORTED\n){3}/,
  );
  t.match(ours.stdout, /^and then: CUBLAS_STATUS_SUCCESS$/m, ours.stderr);
  t.equal(ours.stderr.match(/in a stream that is captured is not served/g)?.length, 1, ours.stderr);
});

t.test('a server without it says so', async (t) => {
  const server = await serve('none');
  t.teardown(() => server.stop());
  const { args, env } = withOurs(['few']);
  const log = { OUTBOARD_LOG: 'error' };
  const ours = await remoted(program, server.address, { args, env: { ...env, ...log } });
  t.match(ours.stdout, /cublasLtCreate\(&handle\): 1 /);
  t.match(ours.stderr, /the server has no cuBLAS.*outboard serve --libraries auto/s);
});
