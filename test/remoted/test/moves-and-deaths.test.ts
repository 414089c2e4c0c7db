// Processes are killed while a session moves between them, and who has asked for the move goes away: the session goes
// on at one place and says what it says natively, or it ends with an error; and the server is whole after that.
import t from 'tap';
import { hasMoved, type Operator, Steps, startTwoGpus } from '../../support/moving.js';
import { kill, phases, until, type Who } from '../../support/moving-deaths.js';
import { noPrograms } from '../../support/paths.js';
import { type Outcome, startNative, startRemoted, testProgram } from '../../support/program.js';
import type { TestServer } from '../../support/server.js';

const program = testProgram('moved-steps');
const words = ['step', 'load', 'late', 'step'];
/** Random deaths beside those in each phase; at night many. */
const most = process.env['NIGHTLY'] ? 150 : 3;

async function natively(): Promise<Outcome> {
  const steps = new Steps(startNative(program, { writes: true }));
  for (const word of words) await steps.say(word);
  return await steps.end();
}

interface Death {
  phase: (typeof phases)[number];
  who: Who;
}

/** One program, a move, and a death in it. Returns what became of the program, and of the move. */
async function dies(server: TestServer, operator: Operator, { phase, who }: Death) {
  const steps = new Steps(startRemoted(program, server.address, { writes: true }));
  const { id } = await operator.session();
  for (const word of words.slice(0, 3)) await steps.say(word);
  const moving = operator.moveSoon(id, {});
  await until(operator, id, phase, moving);
  await kill(operator, id, who);
  const answer = await moving;
  for (const word of words.slice(3)) await steps.say(word);
  const outcome = await steps.end();
  await operator.rested();
  return { outcome, answer };
}

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

t.test('deaths in each phase, and at random', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const here = said(await natively());
  const each = phases.flatMap((phase) =>
    (['source', 'target'] as const).map((who) => ({ phase, who })),
  );
  const random = Array.from({ length: most }, () => each[Math.floor(Math.random() * each.length)]);
  let right = 0;
  for (const death of [...each, ...random]) {
    if (!death) continue;
    const what = `${death.who} while ${death.phase}`;
    const { outcome, answer } = await dies(server, operator, death);
    if (outcome.code === 0) {
      right++;
      t.same(said(outcome), here, what);
    } else {
      t.match(outcome.stderr, /CUDA_ERROR|cudaError|OB_|unavailable/, what);
      t.equal(
        here.stdout.startsWith(outcome.stdout),
        true,
        `${what}: nothing wrong is said before`,
      );
    }
    // A target that dies before it has the session takes nothing with it.
    if (death.who === 'target' && !hasMoved(answer)) t.equal(outcome.code, 0, `${what}: it stays`);
    const { gpus } = await operator.state();
    t.same(
      gpus.map(({ memory }) => memory.reserved),
      [0, 0],
      `${what}: nothing stays reserved`,
    );
  }
  t.ok(right > 0, 'some went on');
  t.notMatch(server.log(), /"level":60/, 'the server goes on');
});

t.test('who has asked for it goes away', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t);
  const here = said(await natively());
  for (const phase of phases) {
    const steps = new Steps(startRemoted(program, server.address, { writes: true }));
    const { id } = await operator.session();
    for (const word of words.slice(0, 3)) await steps.say(word);
    const gone = new AbortController();
    const moving = operator.ask('PUT', `/v1/sessions/${id}/place`, {}, gone.signal).catch(() => {});
    await until(operator, id, phase, moving);
    gone.abort();
    await moving;
    await steps.say('step');
    await untilMoved(operator, id);
    t.same(said(await steps.end()), here, phase);
    await operator.rested();
  }
});

async function untilMoved(operator: Operator, id: number) {
  for (;;) {
    const session = (await operator.state()).sessions.find((one) => one.id === id);
    if (session?.moves === 1) return;
  }
}
