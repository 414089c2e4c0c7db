// What a server says of the GPU's time where it does not measure: nothing, and never that it is 0.
import { execFile } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { noPrograms } from '../../../test/support/paths.js';
import { startRemoted, testProgram } from '../../../test/support/program.js';
import type { SessionView } from '../../src/base/view.js';
import { formatAddress } from '../../src/options/values.js';
import { outboard, Serving } from '../support/serving.js';

const run = promisify(execFile);
const alone = ['--measure', 'needed', '--servers-per-gpu', '1'];

/** A session that launches kernels, once it has launched some. */
async function working(t: Test, args: string[], env: Record<string, string> = {}) {
  const serving = await Serving.start(t, args);
  const running = startRemoted(testProgram('endless-launch'), formatAddress(serving.address), {
    env,
  });
  t.teardown(() => running.kill('SIGKILL'));
  for (;;) {
    const [session] = (await serving.state()).sessions;
    if ((session?.counters['launches'] ?? 0) > 0) return { serving, running };
    await pause(20);
  }
}

async function sessionOf(serving: Serving): Promise<SessionView> {
  const [session] = (await serving.state()).sessions;
  if (!session) throw new Error('no session');
  return session;
}

t.test('nobody needs it: nothing is known', { skip: noPrograms }, async (t) => {
  const { serving, running } = await working(t, alone);
  const command = async (...words: string[]) =>
    (await run(process.execPath, [outboard, ...words, '--api', serving.http])).stdout;
  const session = await sessionOf(serving);
  const { received, owed, deviceNs } = session.share;
  t.same([received, owed, deviceNs], [null, null, null]);
  t.equal((await serving.state()).gpus[0]?.share.busy, null);
  t.match(await command('sessions'), /\s-\/-\s/);
  const [kernel] = JSON.parse(await command('kernels', String(session.id), '--json'));
  t.match(kernel, { name: /add/, seconds: null });
  t.ok(kernel.launches > 0);
  t.match(await command('kernels', String(session.id)), /^ +- /m);
  const metrics = await (await fetch(`${serving.http}metrics`)).text();
  for (const absent of [
    'outboard_gpu_busy_ratio',
    'outboard_session_share_received_ratio',
    'outboard_session_share_owed_ratio',
    'outboard_session_device_seconds_total',
  ]) {
    t.notMatch(metrics, new RegExp(`^${absent}\\{`, 'm'));
  }
  t.match(metrics, /^outboard_launches_total\{.*\} [1-9]/m);
  running.kill('SIGKILL');
  const end = await serving.logged({ msg: /^session ends|^session lost/ });
  t.notOk('deviceSeconds' in end);
  while ((await serving.state()).sessions.length > 0) await pause(20);
  t.equal((await serving.state()).gpus[0]?.share.busy, 0, 'with nobody there it is known again');
});

for (const [why, args, env] of [
  ['it is asked for', ['--servers-per-gpu', '1']],
  ['others can come', ['--measure', 'needed']],
  ['kernels have a limit', [...alone, '--max-kernel-seconds', '60']],
  ['idle sessions are ended', [...alone, '--idle-timeout', '60']],
  ['the policy counts blocks', [...alone, '--quota', 'dilu-corrected']],
  ['the share is limited', alone, { OUTBOARD_SHARE: '1:50' }],
] as [string, string[], Record<string, string>?][]) {
  t.test(`measured: ${why}`, { skip: noPrograms }, async (t) => {
    const { serving } = await working(t, args, env);
    while (!((await sessionOf(serving)).share.deviceNs ?? 0)) await pause(20);
    t.type((await serving.state()).gpus[0]?.share.busy, 'number');
    t.match(await (await fetch(`${serving.http}metrics`)).text(), /^outboard_gpu_busy_ratio\{/m);
  });
}

t.test('why all is measured although only what is needed was asked for', async (t) => {
  const serving = await Serving.start(t, ['--measure', 'needed']);
  const line = await serving.logged({ msg: /^--measure needed/ });
  t.match(line.msg, /--servers-per-gpu 1/);
});

t.test('another word', async (t) => {
  const serving = Serving.launch(t, ['--measure', 'sometimes']);
  t.equal(await serving.exit, 2);
  t.match(serving.lines.map(({ msg }) => msg).join(), /always.*needed/);
});
