// cuBLAS whose calls travel whole, against NVIDIA's own: natively, with the real library in the
// program, and with ours in its place.
import { spawn } from 'node:child_process';
import t from 'tap';
import { outboard } from '../../monitor/test/support/serving.js';
import { counted, outcome, remoted, testProgram } from '../../test/support/program.js';
import { natively, real, serve, skip, withBound, withOurs, withReal } from './support.js';

const program = testProgram('cublas-calls');

t.test('results are the same, and cost less', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const here = await natively(program, ['few']);
  t.equal(here.stdout, 'all as the processor has it\n', here.stderr);
  const own = await counted(program, server.address, withReal(['few']));
  t.equal(own.stdout, here.stdout, own.stderr);
  const ours = await counted(program, server.address, withOurs(['few']));
  t.equal(ours.stdout, here.stdout, ours.stderr + server.log());
  t.comment(`with its own: ${JSON.stringify({ ...own.cost, images: own.imageBytes })}`);
  t.comment(`with ours: ${JSON.stringify(ours.cost)}`);
  t.ok(ours.cost.roundTrips < own.cost.roundTrips, 'fewer round trips');
  t.ok(ours.cost.commands < own.cost.commands, 'fewer commands');
  t.ok(ours.cost.bytesSent < own.cost.bytesSent, 'fewer bytes');
  t.equal(ours.imageBytes, 0, 'and no code of the library');
  const row = 'libraries (cuBLAS)';
  t.same(
    [own, ours].map(({ made }) => made.includes(row)),
    [false, true],
    'a row of their own',
  );
  const bound = await counted(program, server.address, withBound(['few']));
  t.equal(bound.stdout, here.stdout, bound.stderr);
  t.equal(bound.cost.commands, ours.cost.commands, 'as many where the program has one of its own');
});

t.test('the first product waits twice, and for its result', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const { phases, stdout, stderr } = await counted(program, server.address, withOurs(['first']));
  t.equal(stdout, 'all as the processor has it\n', stderr);
  t.equal(phases.attach.roundTrips, 1, 'for the session');
  t.equal(phases['set-up'].roundTrips, 1, 'for the handle');
  t.equal(phases.steady.roundTrips, 2, 'for its status, and by the copy of what it computed');
});

t.test('every function does what the real one does', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const here = await natively(program, ['all']);
  t.match(here.stdout, /^482 functions$/m, here.stderr);
  const ours = await remoted(program, server.address, withOurs(['all']));
  t.same(ours.stdout.split('\n'), here.stdout.split('\n'), ours.stderr);
});

t.test('what is wrong is answered as the real one does', { skip }, async (t) => {
  // It has a second handle for a while.
  const server = await serve(real ?? '', ['--module-memory', '512M']);
  t.teardown(() => server.stop());
  const here = await natively(program, ['bad']);
  const ours = await remoted(program, server.address, withOurs(['bad']));
  // The real one also complains on standard output. That of the server does so in the server's log.
  const complains = (line: string) => line.startsWith(' **');
  const said = here.stdout.split('\n');
  t.equal(said.filter(complains).length, 2);
  t.same(
    ours.stdout.split('\n'),
    said.filter((line) => !complains(line)),
    ours.stderr + server.log(),
  );
  const refusal = 'cuBLAS refuses a call: On entry to SGEMM ';
  await server.logged(new RegExp(`${refusal}.*${refusal}`, 's'));
  const again = await remoted(program, server.address, withOurs(['few']));
  t.equal(again.code, 0, 'and the server serves the next one');
});

t.test('what is not the program’s is refused, and the server goes on', { skip }, async (t) => {
  const server = await serve(real ?? '', ['--module-memory', '512M']);
  t.teardown(() => server.stop());
  const ours = await remoted(program, server.address, withOurs(['foreign']));
  const said = ours.stdout.trim().split('\n');
  const answers = said.slice(0, 6).map((line) => line.replace(/.*: CUBLAS_STATUS_/, ''));
  const none = 'NOT_INITIALIZED';
  const bad = 'INVALID_VALUE';
  t.same(answers, [none, none, none, none, bad, bad], ours.stdout + ours.stderr);
  // A status, and what the work comes to: as they are waited for, and then as they are not.
  const pairs = said
    .slice(6, -2)
    .join('\n')
    .split(/\n(?! )/);
  const told = (from: number, to: number) => pairs.slice(from, to).map(outcomeOf);
  t.same(told(0, 7), Array(7).fill(`${bad} 0`), ours.stdout);
  t.same(told(7, 8), ['SUCCESS 0'], 'what is right');
  t.same(told(8, 15), knownToBeWrong, ours.stdout);
  t.same(told(15, 16), ['SUCCESS 1'], 'a workspace of nobody’s');
  t.same(said.slice(-2), [
    'one that is not aligned: CUBLAS_STATUS_INVALID_VALUE',
    'and then it works: 0',
  ]);
  await server.logged(/cublasSaxpy_v2 is refused: it names memory that the session does not have/);
  const again = await remoted(program, server.address, withOurs(['few']));
  t.equal(again.code, 0, 'and the server serves the next one');
});

/** Sizes that no int holds are for the library to judge, and are waited for each time. */
const knownToBeWrong = [
  ...['SUCCESS 1', 'SUCCESS 1', 'INVALID_VALUE 0'],
  ...['SUCCESS 1', 'SUCCESS 1', 'SUCCESS 1', 'SUCCESS 1'],
];

function outcomeOf(lines: string): string {
  const [, status, work] = /CUBLAS_STATUS_(\w+)\n +of its work: (\d+)$/.exec(lines) ?? [];
  return `${status} ${work}`;
}

t.test('copies and settings are those of the real one', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const here = await natively(program, ['copies']);
  const ours = await remoted(program, server.address, withOurs(['copies']));
  t.match(here.stdout, /^all as the processor has it$/m, here.stderr);
  t.same(ours.stdout.split('\n'), here.stdout.split('\n'), ours.stderr + server.log());
});

t.test('handles where processes, threads and captures meet them', { skip }, async (t) => {
  // The library is reached also where slots may reach little else.
  const server = await serve(real ?? '', ['--sandbox', 'required']);
  t.teardown(() => server.stop());
  for (const how of ['fork', 'threads']) {
    const here = await natively(program, [how]);
    const ours = await remoted(program, server.address, withOurs([how]));
    // The software device goes on in a child, as no GPU does.
    const expected = here.stdout.replace('the child: 8', 'the child: 7');
    t.match(expected, how === 'fork' ? /^the child: 7$/m : /^two threads: done$/m);
    t.equal(ours.stdout, expected, ours.stderr + server.log());
  }
  const { args, env } = withOurs(['capture']);
  const log = { OUTBOARD_LOG: 'warn' };
  const ours = await remoted(program, server.address, { args, env: { ...env, ...log } });
  t.match(ours.stdout, /^(captured: CUBLAS_STATUS_NOT_SUPPORTED\n){3}/, ours.stderr);
  t.match(ours.stdout, /^and then: CUBLAS_STATUS_SUCCESS\na sum of 3$/m, ours.stderr);
  t.equal(ours.stderr.match(/in a stream that is captured is not served/g)?.length, 1, ours.stderr);
});

t.test('a slot has memory for one handle, and modules leave some for more', { skip }, async (t) => {
  for (const [more, status] of [
    [[], 3],
    [['--module-memory', '512M'], 0],
  ] as const) {
    const server = await serve(real ?? '', [...more]);
    const { args, env } = withOurs(['handles']);
    const log = { OUTBOARD_LOG: 'error' };
    const ours = await remoted(program, server.address, { args, env: { ...env, ...log } });
    t.equal(ours.stdout, `a second handle: ${status}\n`, ours.stderr + server.log());
    const refused = /no memory left for a handle of cuBLAS.*--module-memory/.test(ours.stderr);
    t.equal(refused, status !== 0, ours.stderr);
    await server.stop();
  }
});

t.test('a handle that a reset has ended is none any more', { skip }, async (t) => {
  const server = await serve(real ?? '');
  t.teardown(() => server.stop());
  const ours = await remoted(program, server.address, withOurs(['reset']));
  const said = 'a handle after a reset: 0\na second handle: 3\n';
  t.equal(ours.stdout, said, ours.stderr + server.log());
});

t.test(
  'where none is ready the first handle is of the session’s memory, too',
  { skip },
  async (t) => {
    for (const [more, refused] of [
      [[], true],
      [['--module-memory', '512M'], false],
    ] as const) {
      const server = await serve(real ?? '', ['--warm', 'context', ...more]);
      // What the first of all takes is known when it is there, and of the second session's before.
      for (const _ of [1, 2]) {
        const ours = await remoted(program, server.address, withOurs(['first']));
        const said = refused ? /cublasCreate_v2\(&handle\): 3 / : /^all as the processor has it$/m;
        t.match(ours.stdout, said, ours.stderr + server.log());
        await server.rested();
      }
      t.equal(/a handle of cuBLAS is refused/.test(server.log()), refused);
      await server.stop();
    }
  },
);

t.test('a server without cuBLAS says so', async (t) => {
  const server = await serve('none');
  t.teardown(() => server.stop());
  const log = { OUTBOARD_LOG: 'error' };
  const options = withOurs(['few']);
  const ours = await remoted(program, server.address, {
    ...options,
    env: { ...options.env, ...log },
  });
  t.match(ours.stdout, /cublasCreate_v2\(&handle\): 1 /);
  t.match(ours.stderr, /the server has no cuBLAS.*outboard serve --libraries auto/s);
  const args = ['run', '--libraries=remote', '--server', server.address, '--'];
  const words = [outboard, ...args, 'sh', '-c', `${program} few; ${program} few`];
  const run = spawn(process.execPath, words, { env: { ...process.env, ...options.env } });
  const { stdout, stderr } = await outcome(run);
  t.equal(stdout.match(/cublasCreate_v2\(&handle\): 1 /g)?.length, 2, stdout);
  t.equal(
    stderr,
    'outboard: the server has no cuBLAS for its sessions. Start it with `outboard serve --libraries auto`, or run the program with --libraries=guest\n',
    'and the person in front of it is told, once for all processes',
  );
});
