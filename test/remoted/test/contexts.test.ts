// What each driver call answers without a current context, and with one that another thread has destroyed, natively
// and remoted: as test/arguments/contexts.tsv says.
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
const states = ['none', 'destroyed'] as const;

/** By call and state, as in "cuCtxSynchronize none": the result, or `same` as with the primary context. */
const table = new Map(
  readFileSync(path.join(root, 'test', 'arguments', 'contexts.tsv'), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [call, state, expected] = line.split('\t') as [string, string, string];
      return [`${call} ${state}`, expected];
    }),
);

/** Without what says which default stream is meant. */
const plain = (call: string) => call.replace(/_pt[sd][sz]$/, '');

/** What a run says that the table does not. */
function differences(stdout: string) {
  const came = new Map<string, string>();
  for (const line of stdout.split('\n')) {
    const [, call, result] = line.match(/^(\w+ \w+) (.*)$/) ?? [];
    if (call && result) came.set(call, result);
  }
  const calls = [...new Set([...came.keys()].map((row) => row.replace(/ \w+$/, '')))];
  const missing = served.filter((call) => !calls.includes(call));
  const wrong = calls.flatMap((call) =>
    states.flatMap((state) => {
      const expected = table.get(`${plain(call)} ${state}`);
      const wanted = expected === 'same' ? came.get(`${call} primary`) : `= CUDA_ERROR_${expected}`;
      const got = came.get(`${call} ${state}`);
      return expected && got === wanted ? [] : [{ call, state, expected, got }];
    }),
  );
  return { missing, wrong };
}

const none = { missing: [], wrong: [] };

t.test('the table has every served call once, and no other', async (t) => {
  const rows = served.flatMap((call) => states.map((state) => `${call} ${state}`));
  t.same([...table.keys()].sort(), rows.sort());
});

t.test('natively', { timeout: 600_000 }, async (t) => {
  const run = await native(program, { args: ['--contexts', ...served] });
  t.equal(run.code, 0, run.stderr);
  t.same(differences(run.stdout), none);
});

t.test('remoted', { timeout: 600_000 }, async (t) => {
  const server = await startServer({ args: ['--device', 'software', '--gpus', '1'] });
  try {
    const run = await remoted(program, server.address, { args: ['--contexts', ...served] });
    t.equal(run.code, 0, run.stderr);
    t.same(differences(run.stdout), none);
  } finally {
    await server.stop();
  }
});
