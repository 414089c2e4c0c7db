// Programs that hold a GPU for ever: a kernel without an end, a function of the program that does not
// return, a guest that does not read, one that does nothing. What runs is seen and charged while it
// runs; operators and limits end it, the program is told why, and the slot serves again.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import type { KernelView, View } from '../../../monitor/src/base/view.js';
import { hashAccessToken, newAccessToken } from '../../../monitor/src/tenants/access-token.js';
import { noPrograms } from '../../support/paths.js';
import { example, outcome, remoted, startRemoted, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

const oneSlot = ['--device', 'software', '--servers-per-gpu', '1', '--http', '127.0.0.1:0'];

interface Endless {
  run: ChildProcess;
  end: ReturnType<typeof outcome>;
}

async function begin(
  server: TestServer,
  way: string,
  env: Record<string, string> = {},
): Promise<Endless> {
  const run = startRemoted(testProgram('endless-kernel'), server.address, {
    args: [way],
    env: { OUTBOARD_LOG: 'error', ...env },
  });
  const end = outcome(run);
  await once(run.stdout as NodeJS.ReadableStream, 'data');
  return { run, end };
}

function api(server: TestServer) {
  const [, http = ''] = /"http":\["([\d.:]+)"\]/.exec(server.log()) ?? [];
  return async <T>(method: string, where: string): Promise<T> => {
    const answer = await fetch(`http://${http}/v1/${where}`, { method });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${where}: ${text}`);
    return (text === '' ? null : JSON.parse(text)) as T;
  };
}

async function until(what: () => Promise<boolean>) {
  while (!(await what())) await new Promise((resolve) => setTimeout(resolve, 50));
}

async function stillServes(t: Pick<typeof import('tap').default, 'equal'>, server: TestServer) {
  const { code, stderr } = await remoted(example('vector-add'), server.address, {
    args: ['--size', '1000'],
  });
  t.equal(code, 0, `the slot serves the next program: ${stderr}`);
}

for (const [way, shows] of [
  ['waits', 'a kernel that the program waits for'],
  ['asks', 'a kernel that the program asks about'],
  ['sleeps', 'a kernel that the program has forgotten'],
  ['stopped', 'a program that does not read'],
  ['function', 'a function of the program that does not return'],
] as const) {
  t.test(`killed: ${shows}`, { skip: noPrograms }, async (t) => {
    const server = await startServer({ args: oneSlot });
    t.teardown(() => server.stop());
    const ask = api(server);
    const { run, end } = await begin(server, way === 'stopped' ? 'asks' : way);
    if (way !== 'function') {
      await until(async () => {
        const { sessions, gpus } = await ask<View>('GET', 'state');
        const [session] = sessions;
        return (session?.share.received ?? 0) > 0 && (gpus[0]?.share.busy ?? 0) > 0;
      });
      const { sessions } = await ask<View>('GET', 'state');
      t.ok((sessions[0]?.share.deviceNs ?? 0) > 1e7, 'its time is counted while it runs');
      const kernels = await ask<KernelView[]>('GET', `sessions/${sessions[0]?.id}/kernels`);
      const spin = kernels.find(({ name }) => /spin/.test(name));
      t.equal(spin?.launches, 1);
      t.ok((spin?.seconds ?? 0) > 0.01, 'and which kernel it is');
    }
    if (way === 'stopped') run.kill('SIGSTOP');
    await ask('DELETE', 'sessions/1?reason=enough');
    // By itself it would never be over.
    await server.rested();
    run.kill('SIGCONT');
    run.kill('SIGUSR1');
    const { stdout, stderr } = await end;
    t.match(stdout, /then: cudaErrorDevicesUnavailable/);
    if (way !== 'stopped') t.match(stderr, /has ended this: enough/);
    await stillServes(t, server);
  });
}

t.test('a kernel that runs for too long', { skip: noPrograms }, async (t) => {
  const server = await startServer({ args: [...oneSlot, '--max-kernel-seconds', '1'] });
  t.teardown(() => server.stop());
  await stillServes(t, server);
  await server.rested();
  const { end } = await begin(server, 'waits');
  const { stdout, stderr } = await end;
  t.match(stdout, /then: cudaErrorDevicesUnavailable/);
  t.match(stderr, /a kernel has run for more than 1 seconds.*spin/);
  await server.logged(
    /"level":40[^\n]*"reason":"limit"[^\n]*a kernel has run for more than 1 .*spin/,
  );
  await stillServes(t, server);
});

t.test('a program that has gone while its kernel runs', { skip: noPrograms }, async (t) => {
  const server = await startServer({ args: ['--device', 'software', '--http', '127.0.0.1:0'] });
  t.teardown(() => server.stop());
  const ask = api(server);
  const { run, end } = await begin(server, 'waits');
  const sessions = async () => (await ask<View>('GET', 'state')).sessions;
  // What it says may be here before its kernel is there.
  await until(async () => ((await sessions())[0]?.counters['launches'] ?? 0) > 0);
  run.kill('SIGKILL');
  await end;
  await until(async () => (await sessions())[0]?.state === 'ending');
  // Who comes waits a moment for its memory, and does with less then.
  await stillServes(t, server);
  t.match(await sessions(), [{ state: 'ending' }], 'it is still there');
});

t.test('a program that does nothing', { skip: noPrograms }, async (t) => {
  const server = await startServer({ args: [...oneSlot, '--idle-timeout', '1'] });
  t.teardown(() => server.stop());
  const { run, end } = await begin(server, 'idle');
  await server.rested();
  run.kill('SIGUSR1');
  const { stdout, stderr } = await end;
  t.match(stdout, /then: cudaErrorDevicesUnavailable/);
  t.match(stderr, /has used its GPU for nothing in 1 seconds/);
  await server.logged(/"level":40[^\n]*OB_IDLE_TIMEOUT/);
  await stillServes(t, server);
  // What runs is no idleness, for longer than that.
  const busy = await begin(server, 'sleeps');
  const ask = api(server);
  await until(async () => {
    const [session] = (await ask<View>('GET', 'state')).sessions;
    return (session?.share.deviceNs ?? 0) > 1.5e9;
  });
  t.equal((server.log().match(/OB_IDLE_TIMEOUT/g) ?? []).length, 1);
  busy.run.kill('SIGKILL');
  await busy.end;
});

t.test('a tenant has limits of its own', { skip: noPrograms }, async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-tenants-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'tenants.yaml');
  const [short, long] = [newAccessToken(), newAccessToken()];
  writeFileSync(
    file,
    `version: v1
tenants:
  - name: short
    tokens: [{ hash: ${hashAccessToken(short)} }]
    limits: { kernelSeconds: 1 }
  - name: long
    tokens: [{ hash: ${hashAccessToken(long)} }]
`,
  );
  const args = ['--device', 'software', '--servers-per-gpu', '2', '--tenants', file];
  const server = await startServer({ args });
  t.teardown(() => server.stop());
  const lasting = await begin(server, 'waits', { OUTBOARD_TOKEN: long });
  const ended = await begin(server, 'waits', { OUTBOARD_TOKEN: short });
  t.match((await ended.end).stderr, /a kernel has run for more than 1 seconds/);
  t.equal(lasting.run.exitCode, null, "the other tenant's goes on");
  lasting.run.kill('SIGKILL');
  await lasting.end;
});
