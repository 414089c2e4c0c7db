// Sessions move to other GPUs of their server, and to other processes, while their programs run: these say what they
// say natively. What cannot be moved is refused by name, and goes on.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { hashAccessToken, newAccessToken } from '../../../monitor/src/tenants/access-token.js';
import { authority, serverFiles } from '../../../monitor/test/support/certificates.js';
import { hasMoved, Steps, startTwoGpus } from '../../support/moving.js';
import { noPrograms, noTls } from '../../support/paths.js';
import {
  example,
  native,
  type Outcome,
  remoted,
  startNative,
  startRemoted,
  testProgram,
} from '../../support/program.js';

const words = [
  'step',
  'load',
  'late',
  'step',
  'load',
  'step',
  'late',
  'late',
  'step',
  'load',
  'step',
];

async function natively(all: readonly string[]): Promise<Outcome> {
  const steps = new Steps(startNative(testProgram('moved-steps'), { writes: true }));
  for (const word of all) await steps.say(word);
  return await steps.end();
}

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

t.test('between all steps of a program', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const here = await natively(words);
  t.equal(here.code, 0, here.stderr);
  for (const within of [false, true]) {
    const steps = new Steps(
      startRemoted(testProgram('moved-steps'), server.address, { writes: true }),
    );
    const { id, gpu } = await operator.session();
    let moves = 0;
    for (const word of words) {
      await steps.say(word);
      const answer = await operator.moveSoon(id, within ? { within } : {});
      if (!hasMoved(answer)) {
        t.fail(`${word}: ${answer.message}`);
        continue;
      }
      moves++;
      t.equal(answer.to.gpu, within ? gpu : answer.from.gpu === 0 ? 1 : 0);
    }
    const now = await operator.session();
    t.same([now.id, now.moves, now.hindrances], [id, moves, []]);
    const there = await steps.end();
    t.same(said(there), said(here), there.stderr);
    await operator.rested();
  }
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
  const freed = (await operator.state()).gpus.map(({ memory }) => memory.reserved);
  t.same(freed, [0, 0], 'nothing stays reserved');
});

t.test('from a process that has had arrays, to a new one', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t, ['--servers-per-gpu', '1']);
  // So both are of the other GPU's process.
  await operator.ask('PUT', '/v1/gpus/0/drain', { move: false });
  const before = await remoted(testProgram('array-copies'), server.address);
  t.equal(before.code, 0, before.stderr);
  await operator.rested();
  const here = await natively(words);
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), server.address, { writes: true }),
  );
  const { id, gpu, slotPid } = await operator.session();
  const { gpus } = await operator.state();
  const { slots } = gpus[gpu ?? 0] ?? { slots: [] };
  t.same(
    slots.map(({ pid, served }) => [pid, served]),
    [[slotPid, 2]],
    'it serves its second session',
  );
  await operator.ask('DELETE', '/v1/gpus/0/drain');
  for (const word of words) await steps.say(word);
  const answer = await operator.moveSoon(id, {});
  t.ok(hasMoved(answer), JSON.stringify(answer));
  const there = await steps.end();
  t.same(said(there), said(here), there.stderr);
  await operator.rested();
});

/** Of each of them; at night they move until their end. */
const most = process.env['NIGHTLY'] ? Number.POSITIVE_INFINITY : 4;

/** Examples with enough to do: many small kernels, streams that wait for each other, a few long kernels. */
const long = [
  ['kmeans', '--generate', '150000', '--k', '24', '--no-check'],
  ['stencil', '--steps', '600'],
  ['mandelbrot', '--width', '1024', '--height', '1024', '--iterations', '600'],
] as const;

t.test('a connection by TLS, whose keys go along', { skip: noPrograms || noTls }, async (t) => {
  const folder = t.testdir();
  const ours = authority(folder, 'ours');
  const { cert, key } = serverFiles(ours, null);
  const { server, operator } = await startTwoGpus(t, [
    ...['--tls-listen', '127.0.0.1:0', '--tls-cert', String(cert), '--tls-key', String(key)],
  ]);
  const address = String(server.tlsAddress).replace('127.0.0.1', 'localhost');
  const here = await natively(words);
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), address, {
      writes: true,
      env: { OUTBOARD_CA: ours.ca },
    }),
  );
  const { id } = await operator.session();
  let moves = 0;
  for (const word of words) {
    await steps.say(word);
    const answer = await operator.moveSoon(id, {});
    if (hasMoved(answer)) moves++;
    else t.fail(`${word}: ${answer.message}`);
  }
  t.equal((await operator.session()).moves, moves);
  const there = await steps.end();
  t.same(said(there), said(here), there.stderr);
  await operator.rested();
});

t.test('again and again while programs run', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  for (const [name, ...args] of long) {
    const here = await native(example(name), { args });
    const running = remoted(example(name), server.address, { args });
    let over = false;
    void running.then(() => {
      over = true;
    });
    let moves = 0;
    const refusals = new Set<string>();
    while (!over && moves < most) {
      const [session] = (await operator.state()).sessions;
      const answer = session && (await operator.move(session.id, {}));
      if (answer && hasMoved(answer)) moves++;
      else if (answer) refusals.add(answer.message);
    }
    t.same(said(await running), said(here), name);
    t.ok(moves > 0, `${moves} moves; ${[...refusals].join('; ')}`);
    await operator.rested();
  }
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
});

t.test('what cannot go along', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const all = ['step', 'link', 'step', 'free', 'step'];
  const here = await natively(all);
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), server.address, { writes: true }),
  );
  const session = await operator.session();
  const { id } = session;
  const refused = async (wish: object, why: RegExp, code = 'OB_MOVE') => {
    const answer = await operator.move(id, wish);
    t.match(answer, { code, message: why });
  };
  await steps.say('step');
  await refused({ gpu: session.gpu }, /it is on GPU \d already/);
  await refused({ gpu: 2 }, /there is no GPU 2, only 0 to 1/, 'OB_NO_GPU');
  await refused({ gpu: 1 - session.gpu, within: true }, /--within moves it to another process/);
  t.match(await operator.move(id + 1, {}), { code: 'OB_NO_SESSION' });
  await steps.say('link');
  await steps.say('step');
  await refused({}, /it has links that it has not ended/);
  await refused({ gpu: 2 }, /there is no GPU 2, only 0 to 1/, 'OB_NO_GPU');
  await steps.say('free');
  await steps.say('step');
  const answer = await operator.move(id, { gpu: 1 - session.gpu });
  t.same(said(await steps.end()), said(here));
  t.ok(hasMoved(answer), JSON.stringify(answer));
  if (!hasMoved(answer)) return;
  const place = `${answer.to.gpu}\\.${answer.to.slot}`;
  await server.logged(new RegExp(`"slot":"${place}".*"session":${id},.*"reason":"closed"`));
});

t.test('two at once, and one that ends meanwhile', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), server.address, { writes: true }),
  );
  const { id } = await operator.session();
  await steps.say('step');
  const both = await Promise.all([operator.move(id, {}), operator.move(id, {})]);
  t.equal(both.filter(hasMoved).length, 1);
  t.match(
    both.find((one) => !hasMoved(one)),
    { code: 'OB_MOVE', message: /it is being moved already/ },
  );
  const moving = operator.move(id, {});
  await operator.kill(id);
  const answer = await moving;
  // Which of the two is heard first nobody knows.
  if (!hasMoved(answer)) t.match(answer, { code: /^OB_(MOVE|NO_SESSION)$/ });
  await steps.say('step');
  const { code, stderr } = await steps.end();
  t.not(code, 0);
  t.match(stderr, /OB_KILLED|cudaError/);
  await operator.rested();
  const freed = (await operator.state()).gpus.map(({ memory }) => memory.reserved);
  t.same(freed, [0, 0], 'nothing stays reserved');
});

t.test('a tenant may forbid it', { skip: noPrograms }, async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const [token, ann] = [newAccessToken(), newAccessToken()];
  const tenants = (moves: string) =>
    writeFileSync(
      file,
      `version: v1
tenants:
  - name: still
    tokens: [{ hash: ${hashAccessToken(token)} }]
    moves: ${moves}
operators:
  - name: ann
    rights: act
    tokens: [{ hash: ${hashAccessToken(ann)} }]
`,
    );
  tenants('false');
  const { server, operator } = await startTwoGpus(t, ['--tenants', file], ann);
  const env = { OUTBOARD_TOKEN: token };
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), server.address, { writes: true, env }),
  );
  const { id } = await operator.session();
  await steps.say('step');
  t.match(await operator.session(), { hindrances: ['tenant'] });
  t.match((await operator.state()).tenants, [{ name: 'still', moves: false }]);
  t.match(await operator.move(id, {}), {
    code: 'OB_MOVE',
    message: /its tenant still forbids moves/,
  });
  tenants('true');
  await server.logged(/"msg":"tenants read"/);
  const answer = await operator.move(id, {});
  t.ok(hasMoved(answer), JSON.stringify(answer));
  await steps.say('step');
  t.equal((await steps.end()).code, 0);
});
