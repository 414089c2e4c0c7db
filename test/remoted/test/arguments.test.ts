// Driver calls with one wrong argument do the same natively and remoted (test/arguments).
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, root } from '../../support/paths.js';
import { native, remoted } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const program = path.join(build, 'test', 'arguments', 'driver-arguments');
const served: string[] = JSON.parse(
  readFileSync(path.join(root, 'proto', 'generated', 'calls.json'), 'utf8'),
);

/** The calls of a table, each with its reason. */
function table(name: string): Map<string, string> {
  const text = readFileSync(path.join(root, 'test', 'arguments', name), 'utf8');
  return new Map(
    text.split('\n').flatMap((line) => (line ? [line.split('\t')] : [])) as [string, string][],
  );
}

/** Without what says which default stream is meant. */
const plain = (call: string) => call.replace(/_pt[sd][sz] /, ' ');

/** What came of each call. */
function outcomes(stdout: string): Map<string, string> {
  const all = new Map<string, string>();
  for (const line of stdout.split('\n')) {
    const [, call, came] = line.match(/^(.*?) ((?:= |died of |ended with ).*)$/) ?? [];
    if (call && came) all.set(call, came);
  }
  return all;
}

t.test('every call, with every argument wrong', { timeout: 600_000 }, async (t) => {
  const crashes = table('crashes.tsv');
  const differences = table('differences.tsv');
  const server = await startServer({ args: ['--device', 'software', '--gpus', '1'] });
  try {
    const here = await native(program, { args: served });
    const there = await remoted(program, server.address, { args: served });
    t.equal(here.code, 0, 'natively');
    t.equal(there.code, 0, 'remoted');
    const expected = outcomes(here.stdout);
    const got = outcomes(there.stdout);
    t.same(
      served.filter((call) => !expected.has(`${call} legally`)),
      [],
      'no call is left out',
    );
    t.same([...got.keys()], [...expected.keys()], 'the same calls');
    const differ = [...expected].filter(
      ([call, came]) =>
        got.get(call) !== came && !crashes.has(plain(call)) && !differences.has(call),
    );
    t.same(
      differ.map(([call, native]) => ({ call, native, remoted: got.get(call) })),
      [],
    );
    const died = [...expected].filter(([, came]) => !came.startsWith('='));
    t.same(
      new Set(died.map(([call]) => plain(call))),
      new Set(crashes.keys()),
      'what crashes is known',
    );
    const same = [...differences.keys()].filter((call) => got.get(call) === expected.get(call));
    t.same(same, [], 'what is meant to differ does');
    const refused = served.filter((call) => !expected.get(`${call} legally`)?.startsWith('= 0'));
    t.ok(refused.length < served.length / 8, `legal arguments are: ${refused.length} refused`);
  } finally {
    await server.stop();
  }
});
