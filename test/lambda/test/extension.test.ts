// The extension of the Lambda layer beside a program with a session, with a stand-in of Lambda's APIs: what is
// released before Lambda may freeze the environment, what is kept and why, the end of an environment.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { ended, start } from '../../../guest-lib/test/support/client.js';
import { lineByLine, shortFolder } from '../../../guest-lib/test/support/release.js';
import { build } from '../../support/paths.js';
import { startServer } from '../../support/server.js';
import { Lambda, type LambdaOptions } from '../environment.js';
import { Output } from '../output.js';

const program = path.join(build, 'lambda', 'outboard');
const server = await startServer();
t.teardown(() => server.stop());

interface Extension {
  process: ChildProcess;
  output: Output;
  /** Its exit code. */
  ended: Promise<number | null>;
}

function startExtension(t: Test, api: string | undefined, folder: string | undefined): Extension {
  const child = spawn(program, {
    env: { AWS_LAMBDA_RUNTIME_API: api, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'info' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const output = new Output();
  output.of(child);
  const closed = once(child, 'close').then(([code]) => code as number | null);
  return { process: child, output, ended: closed };
}

/** An environment with an extension, and a program that has a session. */
async function environment(t: Test, what: string, options: LambdaOptions = {}, on = server) {
  const folder = path.join(shortFolder(t), 'release');
  const lambda = new Lambda(options);
  const api = await lambda.start();
  t.teardown(() => lambda.stop());
  const extension = startExtension(t, api, folder);
  await lambda.frozen();
  const env = { OUTBOARD_SERVER: on.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'warn' };
  const child = start(what, env);
  t.teardown(() => child.kill('SIGKILL'));
  const result = ended(child);
  return { lambda, extension, child, result, steps: lineByLine(child), folder };
}

/**
 * Stops all its threads. Where its first one has no processor to take the signal with, others run on for a while, and
 * may answer.
 */
async function stop(child: ChildProcess) {
  child.kill('SIGSTOP');
  const tasks = `/proc/${child.pid}/task`;
  const isStopped = (task: string) =>
    /^State:\tT/m.test(readFileSync(`${tasks}/${task}/status`, 'utf8'));
  while (!readdirSync(tasks).every(isStopped)) await setImmediate();
}

async function invocation(lambda: Lambda, work: () => Promise<void>) {
  const id = lambda.invoke();
  await work();
  await lambda.runtimeDone(id);
  await lambda.frozen();
}

for (const chunked of [false, true])
  t.test(`invocations, answers ${chunked ? 'in chunks' : 'with a length'}`, async (t) => {
    const { lambda, extension, steps, result } = await environment(t, 'releases', { chunked });
    t.same(lambda.registered, { name: 'outboard', events: ['INVOKE', 'SHUTDOWN'] });
    await invocation(lambda, () => steps.until('held'));
    t.ok(
      await extension.output.says(
        /a session is kept while .* frozen: the primary context is in use\./,
      ),
    );
    await invocation(lambda, () => steps.next('let go'));
    const [, first] = await extension.output.says(/: released (\d+)$/m);
    await server.logged(new RegExp(`"session":${first},.*"msg":"session ends`));

    // Nothing is released before the runtime is done, and with this very request.
    const id = lambda.invoke();
    await steps.next('reset');
    t.equal(await lambda.runtimeDone('another'), 200);
    t.equal(await lambda.post('{"no": telemetry'), 200);
    t.equal(await lambda.post('[[[{"type":"platform.runtimeDone"}]]]'), 200);
    t.notOk(lambda.extensionRests);
    t.equal(extension.output.text.match(/: released /g)?.length, 1);
    await lambda.runtimeDone(id);
    await lambda.frozen();
    t.ok(await extension.output.says(/(: released .*){2}/s));

    await invocation(lambda, () => steps.next('created'));
    lambda.shutDown();
    t.equal(await extension.ended, 0);
    t.ok(await extension.output.says(/: ended \d+$/m));
    steps.go();
    const { lines } = await result;
    t.equal(lines[lines.indexOf('created') + 1], 'cuMemAlloc_v2 CUDA_ERROR_DEVICE_UNAVAILABLE');
  });

t.test('an invocation whose runtime is never done', async (t) => {
  const { lambda, extension, steps } = await environment(t, 'releases', { timeout: 500 });
  await invocation(lambda, () => steps.until('held'));
  lambda.invoke();
  await steps.next('let go');
  await lambda.frozen();
  t.ok(await extension.output.says(/: released \d+$/m));
});

t.test('without telemetry nothing is released, and that is said', async (t) => {
  const { lambda, extension, steps } = await environment(t, 'releases', { telemetry: false });
  t.ok(
    await extension.output.says(
      /there is no Telemetry API \(.*NotSupported.*\): sessions are kept/,
    ),
  );
  await steps.until('held');
  await steps.next('let go');
  lambda.invoke();
  await lambda.frozen();
  t.notMatch(extension.output.text, /: released /);
  lambda.shutDown();
  t.equal(await extension.ended, 0);
  t.ok(await extension.output.says(/: ended \d+$/m));
});

t.test('processes that are gone, or do not answer', async (t) => {
  const { lambda, extension, steps, child, folder } = await environment(t, 'releases');
  await invocation(lambda, () => steps.until('held'));
  await stop(child);
  const stale = path.join(folder, '1234567');
  // The name of a socket whose process has ended.
  const left = createServer().listen(`${stale}.x`);
  await once(left, 'listening');
  renameSync(`${stale}.x`, stale);
  await new Promise((resolve) => left.close(resolve));
  writeFileSync(path.join(folder, 'file'), '');
  const foreign = path.join(folder, '1234568');
  writeFileSync(foreign, '');
  await invocation(lambda, async () => {});
  t.ok(
    await extension.output.says(
      new RegExp(`process ${child.pid} did not answer in time: its session`),
    ),
  );
  t.ok(await extension.output.says(/process 1234567 has no session any more: Connection refused/));
  t.notOk(existsSync(stale));
  t.ok(existsSync(foreign), 'no socket, so it is somebody’s');
  child.kill('SIGCONT');
});

t.test('a freeze for longer than the server’s idle time', async (t) => {
  const args = ['--device', 'software', '--gpus', '1', '--idle-timeout', '1'];
  const impatient = await startServer({ args });
  t.teardown(() => impatient.stop());
  const held = await environment(t, 'server-dies', {}, impatient);
  await invocation(held.lambda, () => held.steps.until('ready'));
  const released = await environment(t, 'releases', {}, impatient);
  await invocation(released.lambda, () => released.steps.until('held'));
  await invocation(released.lambda, () => released.steps.next('let go'));
  const tree = [held, released].flatMap(({ child, extension }) => [child, extension.process]);
  for (const process of tree) process.kill('SIGSTOP');
  await impatient.logged(/OB_IDLE|idle for/);
  for (const process of tree) process.kill('SIGCONT');

  await invocation(released.lambda, () => released.steps.next('reset'));
  t.ok(await released.extension.output.says(/(: released .*){2}/s), 'with another session');
  held.lambda.invoke();
  held.steps.go();
  const { lines, stderr } = await held.result;
  t.equal(lines[lines.indexOf('ready') + 1], 'cuMemcpyDtoH_v2 CUDA_ERROR_DEVICE_UNAVAILABLE');
  t.match(stderr, /the server ended the session: /);
});

t.test('what is no Lambda', async (t) => {
  for (const where of [undefined, 'nowhere', '127.0.0.1:0', 'lambda:9001']) {
    const extension = startExtension(t, where, '/tmp/none');
    t.equal(await extension.ended, 1);
    t.ok(
      await extension.output.says(
        /AWS_LAMBDA_RUNTIME_API=".*" is no address: Lambda starts this from/,
      ),
    );
  }
  const refusing = new Lambda({ refuse: { status: 403, body: '{"errorType":"Forbidden"}' } });
  const api = await refusing.start();
  const refused = startExtension(t, api, '/tmp/none');
  t.equal(await refused.ended, 1);
  t.ok(
    await refused.output.says(
      /POST \/2020-01-01\/extension\/register failed: {"errorType":"Forbidden"}/,
    ),
  );
  refusing.stop();
  const alone = startExtension(t, api, '/tmp/none');
  t.equal(await alone.ended, 1);
  t.ok(await alone.output.says(/register failed: Connection refused/));
});

t.test('without the variable', async (t) => {
  const lambda = new Lambda();
  const api = await lambda.start();
  t.teardown(() => lambda.stop());
  const extension = startExtension(t, api, undefined);
  await lambda.frozen();
  t.ok(
    await extension.output.says(
      /OUTBOARD_RELEASE is not set: sessions are kept .* Set it to \/tmp\/outb/,
    ),
  );
  lambda.invoke();
  await lambda.frozen();
  lambda.shutDown();
  t.equal(await extension.ended, 0);
});
