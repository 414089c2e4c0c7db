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

t.test(
  "what another order of the queue would have done with a server's own sessions",
  async (t) => {
    const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
    const comes = (sessionClass: string) =>
      Guest.hello(serving.address, { sessionClass, memory: 64n * MiB });
    const running = comes('latency-strict');
    await running.welcome();
    const rest = comes('best-effort');
    t.equal(await rest.position(), 1);
    const strict = comes('latency-strict');
    t.equal(await strict.position(), 2, 'they are served as they come');
    // The log has milliseconds: it must be able to tell who came before the first one went.
    for (let asked = 0; asked < 10; asked++) await serving.state();
    await running.leave();
    await rest.welcome();
    for (let asked = 0; asked < 10; asked++) await serving.state();
    await rest.leave();
    const { session } = await strict.welcome();
    await strict.leave();
    await serving.logged({ session: Number(session), msg: /^session ends/ });
    const folder = t.testdir();
    const log = path.join(folder, 'server.log');
    writeFileSync(log, serving.lines.map((line) => JSON.stringify(line)).join('\n'));
    const text = 'gpus: { count: 1, memory: 1GiB, slots: 1 }\nlog: server.log\n';
    const policies = 'placement: [worst-fit]\nqueue: [first-come, strict-first]\n';
    const { rows } = runScenario(parseScenario(text + policies, path.join(folder, 'own.yaml')));
    const [asItWas, otherwise] = rows.map(({ waitOf }) => waitOf);
    const waited = (row: typeof asItWas) => [
      row?.['latency-strict'] ?? 0,
      row?.['best-effort'] ?? 0,
    ];
    const [strictWas = 0, restWas = 0] = waited(asItWas);
    const [strictIs = 0, restIs = 0] = waited(otherwise);
    t.ok(restWas > 0 && strictWas > 0, 'in the simulation both wait for the one slot, too');
    t.ok(strictIs < strictWas, `strict: ${strictIs} instead of ${strictWas} s`);
    t.ok(restIs > restWas, `best-effort: ${restIs} instead of ${restWas} s`);
  },
);
