// Sessions that are kept over cuts move to other GPUs of their server, whose connections are cut meanwhile: programs say
// what they say natively: all programs, moved and cut again and again.
// Run nightly: it takes minutes.
import t from 'tap';
import { allPrograms, wantedPrograms } from '../../support/all-programs.js';
import { seeded, startCuttingProxy } from '../../support/cutting-proxy.js';
import { hinderedPrograms, refusalNames, tooEarlyOrLate } from '../../support/moved-programs.js';
import { hasMoved, type Operator, Steps, startTwoGpus } from '../../support/moving.js';
import { phases, until } from '../../support/moving-deaths.js';
import { noPrograms } from '../../support/paths.js';
import {
  example,
  native,
  type Outcome,
  outcome,
  startNative,
  startRemoted,
  testProgram,
} from '../../support/program.js';

const program = testProgram('moved-steps');
const words = ['step', 'load', 'late', 'step', 'load', 'step', 'late', 'step'];
const kept = ['--grace-disconnected', '20'];

async function natively(all: readonly string[] = words): Promise<Outcome> {
  const steps = new Steps(startNative(program, { writes: true }));
  for (const word of all) await steps.say(word);
  return await steps.end();
}

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

t.test('cut before, during and behind moves', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t, kept);
  const proxy = await startCuttingProxy(server.address);
  t.teardown(() => proxy.close());
  const here = await natively(['step', ...words]);
  // A guest that calls nothing does not see that it was cut, and is waited for a few seconds only.
  const ways = [
    [true, ['before', ...phases, 'behind']],
    [false, ['transferring', 'behind']],
  ] as const;
  for (const [calls, moments] of ways) {
    const steps = new Steps(startRemoted(program, proxy.address, { writes: true }));
    const { id } = await operator.session();
    // A guest that is cut before it has its Welcome has no session to come back to.
    await steps.say('step');
    let moves = 0;
    for (const [number, word] of words.entries()) {
      const moment = moments[number % moments.length];
      if (moment === 'before') proxy.cut();
      const saying = moment === 'before' || calls ? steps.say(word) : null;
      const moving = operator.moveSoon(id, {});
      if (moment !== 'before' && moment !== 'behind' && moment) {
        await until(operator, id, moment, moving);
        proxy.cut();
      }
      const answer = await moving;
      if (hasMoved(answer)) moves++;
      else t.fail(`${word}, ${moment}: ${answer.message}`);
      if (moment === 'behind') proxy.cut();
      await (saying ?? steps.say(word));
    }
    const now = await operator.session();
    t.same([now.id, now.moves, now.hindrances], [id, moves, []]);
    const there = await steps.end();
    t.same(said(there), said(here), there.stderr);
    await operator.rested();
  }
  t.ok(proxy.cuts() >= words.length, `${proxy.cuts()} cuts`);
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
  const freed = (await operator.state()).gpus.map(({ memory }) => memory.reserved);
  t.same(freed, [0, 0], 'nothing stays reserved');
});

t.test(
  'a guest that is away finds its session where it is then',
  { skip: noPrograms },
  async (t) => {
    const { server, operator } = await startTwoGpus(t, kept);
    const proxy = await startCuttingProxy(server.address);
    t.teardown(() => proxy.close());
    const here = await natively();
    const steps = new Steps(startRemoted(program, proxy.address, { writes: true }));
    const { id } = await operator.session();
    for (const word of words.slice(0, 4)) await steps.say(word);
    const moving = operator.moveSoon(id, {});
    await until(operator, id, 'transferring', moving);
    proxy.refuse(true);
    proxy.cut();
    const saying = steps.say(words[4] ?? '');
    const answer = await moving;
    t.ok(hasMoved(answer), JSON.stringify(answer));
    const away = await operator.sessionThat(({ away }) => away !== null);
    t.same([away.id, away.moves], [id, 1], 'it is away where its session is now');
    proxy.refuse(false);
    await saying;
    await operator.sessionThat(({ away }) => away === null);
    for (const word of words.slice(5)) await steps.say(word);
    const there = await steps.end();
    t.same(said(there), said(here), there.stderr);
    await operator.rested();
  },
);

/** Moves all sessions that there are until told to stop. Returns how often, and why not. */
async function keepMoving(operator: Operator, over: () => boolean) {
  const refusals = new Set<string>();
  let moved = 0;
  while (!over()) {
    const [session] = (await operator.state()).sessions;
    if (!session) continue;
    const answer = await operator.move(session.id, {});
    if (hasMoved(answer)) moved++;
    else if (!tooEarlyOrLate.test(answer.message) && !/has no free slot/.test(answer.message))
      for (const name of refusalNames(answer.message)) refusals.add(name);
  }
  return { moved, refusals };
}

/** By day: with enough to do for a move, which takes a new process. */
const long = [
  ['kmeans', '--generate', '150000', '--k', '24', '--no-check'],
  ['stencil', '--steps', '600'],
].map(([name = '', ...args]) => ({ name, path: example(name), args }));
const all = process.env['NIGHTLY'] || process.env['OUTBOARD_TEST_PROGRAMS'];
/** Of two processes that share memory, which the two GPUs here do not have in common. */
const together = ['frees-while-running-shared', 'ipc', 'pool-sharing', 'shared-pieces'];

t.test('moved and cut again and again', { skip: noPrograms }, async (t) => {
  const { server, operator } = await startTwoGpus(t, kept);
  let cuts = 0;
  let moves = 0;
  for (const { name, path, args } of all ? wantedPrograms(allPrograms, []) : long) {
    if (together.includes(name)) continue;
    const here = said(await native(path, { args }));
    const random = seeded(name.length);
    // The first may be cut within Hello and Welcome, which ends in an error: behind them.
    const after = (connection: number) => 4_000 + Math.floor(random() * 4_000 * 2 ** connection);
    const proxy = await startCuttingProxy(server.address, { after, reset: () => random() < 0.5 });
    let over = false;
    const running = outcome(startRemoted(path, proxy.address, { args })).finally(() => {
      over = true;
    });
    const { moved, refusals } = await keepMoving(operator, () => over);
    const there = await running;
    t.same(said(there), here, `${name}, ${moved} moves, ${proxy.cuts()} cuts: ${there.stderr}`);
    const hindered = hinderedPrograms.get(name) ?? [];
    const unknown = [...refusals].filter((why) => why !== 'busy' && !hindered.includes(why));
    t.same(unknown, [], `${name}: why it stayed`);
    moves += moved;
    cuts += proxy.cuts();
    await proxy.close();
    await operator.rested();
  }
  t.ok(cuts > 0 && (moves > 0 || process.env['OUTBOARD_TEST_PROGRAMS']), `${cuts}, ${moves}`);
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
});
