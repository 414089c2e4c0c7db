// All programs say what they say natively while they move between GPUs, or between processes on one, after every so
// many of their commands. What hinders some of them stands in test/programs/hindered.tsv. At night all of them; else a
// few. OUTBOARD_TEST_MOVES says how often each moves.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { allPrograms, wantedPrograms } from '../../support/all-programs.js';
import { seeded } from '../../support/cutting-proxy.js';
import { countCommands, hinderedPrograms, movedAfterEvery } from '../../support/moved-programs.js';
import { startTwoGpus } from '../../support/moving.js';
import { noPrograms, root } from '../../support/paths.js';
import { native, type Outcome, remoted } from '../../support/program.js';

/** How often each of them is held, of those with enough commands. */
const most = Number(process.env['OUTBOARD_TEST_MOVES'] ?? 2);
const few = [
  ...['stencil', 'separate-compilation', 'several-architectures', 'printf-buffer'],
  ...['mapped-memory', 'virtual-memory', 'zero-copy'],
];

/** Of two processes that share memory, which the two GPUs here do not have in common. */
const together = ['frees-while-running-shared', 'ipc', 'pool-sharing', 'shared-pieces'];
const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

t.test('what hinders is of programs that there are', async (t) => {
  const names = allPrograms.map(({ name }) => name);
  t.same(
    [...hinderedPrograms.keys()].filter((name) => !names.includes(name)),
    [],
  );
});

/** Of what hinders for as long as it is there, the calls that make it (test/costs/calls.tsv says who makes which). */
const makers: [hindrance: string, calls: RegExp][] = [
  ['graphs', /^cuGraphInstantiate/],
  ['arrays', /^cu(Mipmapped)?Array(3D)?Create/],
  ['textures', /^cu(Tex|Surf)ObjectCreate/],
  ['texture-references', /^cuModuleGet(Tex|Surf)Ref/],
  ['links', /^cuLinkCreate/],
];

t.test('what a program has at times is known to hinder it', async (t) => {
  const lines = readFileSync(`${root}/test/costs/calls.tsv`, 'utf8').split('\n');
  const unknown = lines.flatMap((line) => {
    const [call = '', programs = ''] = line.split('\t');
    const [hindrance] = makers.find(([, calls]) => calls.test(call)) ?? [];
    if (!hindrance) return [];
    const names = programs.split(' ').filter((name) => !together.includes(name));
    return names.filter((name) => !hinderedPrograms.get(name)?.includes(hindrance));
  });
  t.same(unknown, []);
});

t.test('after every so many commands', { skip: noPrograms }, async (t) => {
  const two = await startTwoGpus(t);
  const { server, operator } = two;
  let number = 0;
  let all = 0;
  for (const { name, path, args } of wantedPrograms(allPrograms, few)) {
    if (together.includes(name)) continue;
    const hindered = hinderedPrograms.get(name) ?? [];
    const here = await native(path, { args });
    const run = (address: string) => remoted(path, address, { args });
    const { commands } = await countCommands(server, run);
    await operator.rested();
    const every = Math.max(1, Math.floor(commands / most));
    const random = seeded(commands);
    // A file has 15 minutes: at night each of them in one of the two ways, and the next night in the other.
    const ways = [{}, { within: true }];
    const tonight = Math.floor(Date.now() / 86_400_000) + number++;
    for (const wish of process.env['NIGHTLY'] ? [ways[tonight % 2] ?? {}] : ways) {
      // Between two frames, and in the middle of one.
      const beyond = () => (random() < 0.5 ? 0 : Math.floor(random() * 200));
      const moves = await movedAfterEvery(every, two, run, wish, beyond);
      const { outcome, moved, refusals, messages } = moves;
      const what = `${name} ${JSON.stringify(wish)}, after every ${every} of ${commands}`;
      t.same(said(outcome), said(here), `${what}: ${outcome.stderr}`);
      const unknown = [...refusals].filter((why) => why !== 'busy' && !hindered.includes(why));
      t.same(unknown, [], `${what}: why it stayed: ${messages.join('; ')}`);
      // One that ends at once may be over before.
      all += moved;
      await operator.rested();
    }
  }
  t.ok(all > 0 || process.env['OUTBOARD_TEST_PROGRAMS'], `${all} moves`);
  t.notMatch(server.log(), /"level":(50|60)/, 'the server has met no error');
  const freed = (await operator.state()).gpus.map(({ memory }) => memory.reserved);
  t.same(freed, [0, 0], 'nothing stays reserved');
});
