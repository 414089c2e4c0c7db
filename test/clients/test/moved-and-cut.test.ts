// Real clients compute the same to the bit while their sessions move, and while their connections are cut.
// Run nightly: each runs four times, and moves twenty times.
import t from 'tap';
import { seeded, startCuttingProxy } from '../../support/cutting-proxy.js';
import { movedAfterEvery } from '../../support/moved-programs.js';
import { startTwoGpus } from '../../support/moving.js';
import type { Outcome } from '../../support/program.js';
import { startServer } from '../../support/server.js';
import {
  cupyAndNumba,
  deviceSettings,
  frameworks,
  runNatively,
  runRemoted,
  type Script,
} from '../scripts.js';

/** By script, after how many commands it is held; and what hinders its being moved, by the names of docs/moving.md. */
const scripts: [name: string, every: number, hinders: string[]][] = [
  ['cupy_arrays', 60, []],
  ['cupy_libraries', 60, []],
  ['torch_libraries', 100, []],
  ['onnx_models', 100, []],
];

/** Their code is large: the other process loads it before anything goes over. */
const loadsMs = 5000;

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });

function scriptNamed(name: string): Script {
  const found = [...cupyAndNumba, ...frameworks].find((one) => one.name === name);
  if (!found) throw new Error(`there is no ${name}`);
  return found;
}

const only = process.env['OUTBOARD_TEST_PROGRAMS'];
for (const [name, every, hinders] of scripts) {
  if (only && only !== name) continue;
  const script = scriptNamed(name);
  t.test(name, { skip: script.installed.skip }, async (t) => {
    const here = said(await runNatively(script));
    t.equal(here.code, 0);
    for (const line of here.stdout.trim().split('\n')) t.match(line, /^ok /);
    const env = deviceSettings(script);

    await t.test('moves between GPUs, and to other processes', async (t) => {
      const two = await startTwoGpus(t, [], null, env);
      for (const wish of [{}, { within: true }]) {
        const run = (address: string) => runRemoted(script, { address });
        const { outcome, moved, refusals } = await movedAfterEvery(
          every,
          two,
          run,
          wish,
          () => 0,
          loadsMs,
        );
        t.same(said(outcome), here, outcome.stderr);
        t.same(
          [...refusals].filter((why) => !hinders.includes(why)),
          [],
          'why it stayed',
        );
        t.ok(moved > 0 || hinders.length > 0, `it moved ${moved} times`);
        await two.operator.rested();
      }
      t.notMatch(two.server.log(), /"level":(50|60)/, 'the server has met no error');
    });

    await t.test('is cut', async (t) => {
      const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'];
      const server = await startServer({ args: [...args, '--grace-disconnected', '20'], env });
      t.teardown(() => server.stop());
      const random = seeded(every);
      const after = (connection: number) =>
        1_000 + Math.floor(random() * 40_000 * 2 ** (connection / 2));
      const proxy = await startCuttingProxy(server.address, { after, reset: () => random() < 0.5 });
      const there = await runRemoted(script, proxy);
      t.same(said(there), here, `${proxy.cuts()} cuts: ${there.stderr}`);
      t.ok(proxy.cuts() > 2, `${proxy.cuts()} cuts`);
      await proxy.close();
    });
  });
}
