// The log of a live server: its sessions come out of it, and run with other policies.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { Guest } from '../../monitor/test/support/guest.js';
import { Serving } from '../../monitor/test/support/serving.js';
import { runScenario } from '../scenario/run.js';
import { parseScenario } from '../scenario/scenario.js';

const MiB = 1n << 20n;

t.test("a server's own sessions with each policy", async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const share = { shareRequest: 20, shareLimit: 60 };
  const first = Guest.hello(serving.address, { memory: 128n * MiB, name: 'train', ...share });
  await first.welcome();
  const second = Guest.hello(serving.address, {
    ...{ memory: 64n * MiB, name: 'infer', shareLimit: 50 },
  });
  t.equal(await second.position(), 1);
  await first.leave();
  const { session } = await second.welcome();
  await second.leave();
  await serving.logged({ session: Number(session), msg: /^session ends/ });
  const folder = t.testdir();
  const log = path.join(folder, 'server.log');
  writeFileSync(log, serving.lines.map((line) => JSON.stringify(line)).join('\n'));
  const scenario = parseScenario(
    'gpus: { count: 1, memory: 1GiB, slots: 2 }\nlog: server.log\n',
    path.join(folder, 'own.yaml'),
  );
  const { sessions, rows, notes } = runScenario(scenario);
  t.equal(sessions, 2);
  t.match(notes, [/^2 sessions of the log/]);
  t.equal(rows.length, 5);
  for (const row of rows)
    t.match(row, { done: 2, wait: { max: 0 } }, 'with two slots nobody waits');
});
