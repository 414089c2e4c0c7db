// That each step of `npm run bench -- libraries --only steps` costs what it leaves out, in the server as in the guest, and
// that the figures become a page. How fast anything is is not looked at.
import t from 'tap';
import { real, serve, skip, withOurs } from '../../libraries/test/support.js';
import { remoted, testProgram } from '../../test/support/program.js';
import { measureSteps, type Stepped, steps } from '../libraries/steps.js';
import { page, summary } from '../libraries/steps-page.js';

t.test('a page of two rows', async (t) => {
  const times = [{ first: 2, firstRatio: 1, steady: 4, steadyRatio: 1 }];
  const rows: Stepped[] = [
    { program: 'one', step: 'none', commands: 100, roundTrips: 80, times },
    { program: 'one', step: '+ all', commands: 25, roundTrips: 4, times },
  ];
  t.match(summary(rows), /75 % fewer commands \(25 instead of 100\), 95 % fewer round trips/);
  const machine = { cpu: 'one', cores: 2, memoryGiB: 4, kernel: '6', virtual: true, node: 'v20' };
  const made = { date: '2026-01-01T00:00', machine, repeat: 1, rate: 10, distances: [5] };
  const image = { name: 'small', bytes: 2e6, fresh: 3, first: 2, firstRatio: 0.5, steady: 1 };
  const text = page({ ...made, steps: rows, images: [image] });
  t.match(text, /\| one \| \+ all \| 25 \| 4 \| 2\.000 \| 1\.00 \| 4\.000 \| 1\.00 \|/);
  t.match(text, /\| small \| 2 \| 3\.000 \| 2\.000 \| 0\.50 \| 1\.000 \|/);
  t.match(page({ ...made, steps: rows, images: null }), /CuPy was not installed/);
});

t.test('a program after each step', { skip, timeout: 300_000 }, async (t) => {
  const rounds = 3;
  const program = {
    what: 'products',
    file: testProgram('cublaslt-calls'),
    options: withOurs(['steady', String(rounds)]),
  };
  const rows = await measureSteps([program], [0.1], 10, 1);
  t.comment(JSON.stringify(rows));
  t.same(
    rows.map(({ step }) => step),
    steps.map(({ name }) => name),
  );
  const [none, context, handles, descriptors, batching, last] = rows.map(
    ({ roundTrips }) => roundTrips,
  ) as [number, number, number, number, number, number];
  // What is warm in the server changes nothing of what travels.
  t.equal(context, none);
  t.equal(handles, none);
  // Two descriptors and a preference are made and ended, and one attribute is told, for each product and the first.
  t.equal(handles - descriptors, 7 * (rounds + 1));
  // Each product, at least, was waited for.
  t.ok(descriptors - batching >= rounds, `${descriptors}, ${batching}`);
  t.ok(last < batching, `${batching}, ${last}`);
});

t.test('a server is as warm as it is told', { skip, timeout: 120_000 }, async (t) => {
  for (const [warm, times] of [
    ['handles', 0],
    ['context', 0],
    ['none', 2],
  ] as const) {
    const memory = ['--module-memory', '512M'];
    const server = await serve(real ?? '', ['--log-level', 'debug', '--warm', warm, ...memory]);
    try {
      // The monitor has had it measured before.
      const opened = () => server.log().match(/was not kept open/g)?.length ?? 0;
      const before = opened();
      for (let session = 0; session < 2; session++) {
        const { code, stdout, stderr } = await remoted(
          testProgram('cublas-calls'),
          server.address,
          withOurs(['first']),
        );
        t.equal(code, 0, stderr + server.log());
        t.equal(stdout, 'all as the processor has it\n');
        await server.rested();
      }
      t.equal(opened() - before, times, warm);
    } finally {
      await server.stop();
    }
  }
});
