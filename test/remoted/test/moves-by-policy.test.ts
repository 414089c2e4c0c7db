// Sessions that are moved without anybody's naming them: off a GPU that is emptied, and by DGSF's rule against
// imbalance. Their programs say what they say natively.
import t from 'tap';
import type { GpuDrainView, WhyView } from '../../../monitor/src/base/view.js';
import { hasMoved, type Operator, Steps, startTwoGpus } from '../../support/moving.js';
import { noPrograms } from '../../support/paths.js';
import { type Outcome, startNative, startRemoted, testProgram } from '../../support/program.js';
import type { TestServer } from '../../support/server.js';

const program = testProgram('moved-steps');

async function natively(words: readonly string[]): Promise<Outcome> {
  const steps = new Steps(startNative(program, { writes: true }));
  for (const word of words) await steps.say(word);
  return await steps.end();
}

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

/** Starts one, and returns it with its number once it runs. */
async function begin(server: TestServer, operator: Operator) {
  const before = new Set((await operator.state()).sessions.map(({ id }) => id));
  const steps = new Steps(startRemoted(program, server.address, { writes: true }));
  await steps.say('step');
  const { sessions } = await operator.state();
  const id = sessions.find((one) => !before.has(one.id))?.id ?? 0;
  return { id, steps };
}

async function until<T>(look: () => Promise<T>, there: (seen: T) => boolean): Promise<T> {
  for (;;) {
    const seen = await look();
    if (there(seen)) return seen;
  }
}

t.test('a GPU that is emptied', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const goes = await begin(server, operator);
  const stays = await begin(server, operator);
  const gpuOf = async (id: number) =>
    (await operator.state()).sessions.find((one) => one.id === id)?.gpu;
  const from = await gpuOf(goes.id);
  const other = from === 0 ? 1 : 0;
  if ((await gpuOf(stays.id)) !== from) {
    const answer = await operator.moveSoon(stays.id, { gpu: from });
    t.ok(hasMoved(answer), JSON.stringify(answer));
  }
  await stays.steps.say('link');
  await stays.steps.say('step');
  const route = `/v1/gpus/${from}/drain`;
  t.match(await operator.ask('PUT', '/v1/gpus/2/drain', { move: true }), {
    code: 'OB_NO_GPU',
    message: 'there is no GPU 2, only 0 to 1',
  });
  t.match(await operator.ask('PUT', route, { move: true }), { gpu: from, draining: 'moves' });
  const look = async () => (await operator.ask('GET', route)) as GpuDrainView;
  const left = await until(look, ({ sessions }) => sessions === 1);
  t.match(left.staying, [{ session: stays.id, why: /it has links that it has not ended/ }]);
  t.equal(await gpuOf(goes.id), other);
  t.match((await operator.state()).gpus[from ?? 0], {
    healthy: true,
    problem: null,
    draining: 'moves',
  });
  await goes.steps.say('step');
  await stays.steps.say('free');
  await stays.steps.say('step');
  await until(look, ({ sessions }) => sessions === 0);
  t.equal(await gpuOf(stays.id), other);
  const { decisions } = (await operator.ask('GET', `/v1/sessions/${goes.id}/why`)) as WhyView;
  const texts = decisions.map(({ text }) => text);
  t.ok(texts.includes(`drain wants it on GPU ${other}`), texts.join('\n'));
  t.match(await operator.ask('DELETE', route), { draining: null, sessions: 0 });
  t.match((await operator.state()).gpus[from ?? 0], {
    healthy: true,
    problem: null,
    draining: null,
  });
  for (const [{ steps }, words] of [
    [goes, ['step', 'step']],
    [stays, ['step', 'link', 'step', 'free', 'step']],
  ] as const)
    t.same(said(await steps.end()), said(await natively(words)));
  await operator.rested();
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
});

t.test('imbalance, also where no quota policy counts', { skip: noPrograms }, async (t) => {
  const policies = ['--migration', 'imbalance', '--placement', 'best-fit', '--quota', 'none'];
  const { server, operator } = await startTwoGpus(t, policies);
  const both = [await begin(server, operator), await begin(server, operator)];
  const words = ['step'];
  const placed = async () => (await operator.state()).sessions.map(({ gpu }) => gpu);
  await until(
    async () => {
      words.push('step');
      await Promise.all(both.map(({ steps }) => steps.say('step')));
      return await placed();
    },
    (gpus) => new Set(gpus).size === 2,
  );
  const { sessions, server: facts } = await operator.state();
  t.equal(facts.migration, 'imbalance');
  t.same(sessions.map(({ moves }) => moves).sort(), [0, 1], 'one has moved, once');
  const moved = sessions.find(({ moves }) => moves === 1);
  const { decisions } = (await operator.ask('GET', `/v1/sessions/${moved?.id}/why`)) as WhyView;
  t.ok(decisions.some(({ text }) => text === 'imbalance wants it on GPU 1'));
  const here = said(await natively(words));
  for (const { steps } of both) t.same(said(await steps.end()), here);
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
});
