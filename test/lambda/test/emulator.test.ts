// The packaged layer in AWS's runtime interface emulator, with awslambdaric, as Lambda's Python runtimes have it:
// /opt is the layer's, the emulator starts the extension, and ends the environment.
// Run nightly: the emulator and the runtime's client come from PyPI.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { authority, serverFiles } from '../../../monitor/test/support/certificates.js';
import { which } from '../../../scripts/setup/command.mjs';
import { noCleanRoot } from '../../package/clean-root.js';
import { mustRun, noTools } from '../../package/machine.js';
import { build, noTls, root } from '../../support/paths.js';
import { startServer } from '../../support/server.js';
import { Output } from '../output.js';
import { TelemetryProxy } from '../telemetry.js';

const client = path.join(build, 'lambda-client');
const python = path.join(client, 'bin', 'python');
const skip =
  noTools ||
  noCleanRoot() ||
  (!existsSync('/opt') && 'no /opt, on which the layer could be mounted') ||
  (!which('unzip') && 'no unzip') ||
  (!existsSync(path.join(client, 'outboard-packages.txt')) && 'awslambdaric is not installed') ||
  false;

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}

/** What the emulator answers; it takes requests from when it listens. */
async function invoke(port: number, event: object): Promise<Record<string, unknown>> {
  for (;;) {
    const asking = request({
      ...{ host: '127.0.0.1', port, method: 'POST' },
      path: '/2015-03-31/functions/function/invocations',
    });
    asking.end(JSON.stringify(event));
    const [answer] = await once(asking, 'response').catch((error) => {
      if (error.code !== 'ECONNREFUSED') throw error;
      return [undefined];
    });
    if (answer) {
      let body = '';
      for await (const text of answer.setEncoding('utf8')) body += text;
      return JSON.parse(body);
    }
    // Its start is no event for us: it says nothing that can be relied on.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** To all that it has started. */
function signal(child: ChildProcess, name: NodeJS.Signals) {
  try {
    process.kill(-(child.pid ?? 0), name);
  } catch {
    // They have ended.
  }
}

const folder = mkdtempSync(path.join(tmpdir(), 'outboard-emulator-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const opt = path.join(folder, 'opt');
const event = { values: [1, 2.5, -3], factor: 2 };
const right = { values: [2, 5, -6], device: /./ };
let emulator = '';

t.before(async () => {
  if (skip) return;
  const script = path.join(root, 'scripts', 'package-lambda.mjs');
  const env = { ...process.env, OUTBOARD_BUILD: build };
  await mustRun([process.execPath, script, '--no-build', '--out', folder], { env });
  const [zip = ''] = readdirSync(folder).filter((one) => one.endsWith('.zip'));
  mkdirSync(opt);
  await mustRun(['unzip', '-q', path.join(folder, zip), '-d', opt]);
  // All that it starts has another address for Lambda's API, which comes from outside.
  await mustRun(['mv', path.join(opt, 'extensions', 'outboard'), path.join(opt, 'outboard')]);
  const wrapper = '#!/bin/sh\nAWS_LAMBDA_RUNTIME_API=$THROUGH exec /opt/outboard/outboard\n';
  writeFileSync(path.join(opt, 'extensions', 'outboard'), wrapper, { mode: 0o755 });
  const purelib = 'import sysconfig; print(sysconfig.get_path("purelib"))';
  const packages = (await mustRun([python, '-c', purelib])).trim();
  emulator = path.join(packages, 'samcli/local/rapid/aws-lambda-rie-x86_64');
  chmodSync(emulator, 0o755);
});

/** One environment of the function; nothing of it is left when this test is over. */
async function environment(t: Test, variables: Record<string, string>) {
  const [port, api] = [await freePort(), await freePort()];
  const proxy = new TelemetryProxy({ host: '127.0.0.1', port: api });
  const through = await proxy.start();
  t.teardown(() => proxy.stop());
  const output = new Output();
  const child = spawn(
    'unshare',
    [
      ...['--mount', 'sh', '-c', 'mount --bind "$0" /opt && exec "$@"', opt, emulator],
      ...['--runtime-interface-emulator-address', `127.0.0.1:${port}`],
      ...['--runtime-api-address', `127.0.0.1:${api}`],
      ...['env', `AWS_LAMBDA_RUNTIME_API=${through}`, python, '-m', 'awslambdaric', 'app.handler'],
    ],
    {
      cwd: path.join(root, 'deploy', 'lambda', 'function'),
      env: {
        PATH: process.env['PATH'],
        AWS_LAMBDA_FUNCTION_TIMEOUT: '60',
        LD_LIBRARY_PATH: '/opt/lib',
        OUTBOARD_RELEASE: mkdtempSync(path.join(folder, 'sessions-')),
        OUTBOARD_LOG: 'info',
        PYTHONDONTWRITEBYTECODE: '1',
        THROUGH: through,
        ...variables,
      },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  t.teardown(() => signal(child, 'SIGKILL'));
  output.of(child);
  const ended = once(child, 'exit');
  return {
    proxy,
    output,
    invoke: (event: object) => invoke(port, event),
    signal: (name: NodeJS.Signals) => signal(child, name),
    async shutDown() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** A server, and by which variables a function finds it. */
async function served(t: Test, tls: boolean) {
  const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'];
  if (!tls) {
    const server = await startServer({ args });
    t.teardown(() => server.stop());
    return { server, variables: { OUTBOARD_SERVER: server.address } };
  }
  const ours = authority(mkdtempSync(path.join(folder, 'tls-')), 'authority');
  const { cert, key } = serverFiles(ours, null);
  const secure = ['--tls-listen', '127.0.0.1:0', '--tls-cert', `${cert}`, '--tls-key', `${key}`];
  const server = await startServer({ args: [...args, ...secure] });
  t.teardown(() => server.stop());
  return { server, variables: { OUTBOARD_SERVER: server.tlsAddress ?? '', OUTBOARD_CA: ours.ca } };
}

for (const tls of [false, true]) {
  const how = `the emulator, ${tls ? 'by TLS' : 'in clear'}`;
  t.test(how, { skip: skip || (tls && noTls), timeout: 300_000 }, async (t) => {
    const { server, variables } = await served(t, tls);
    const { invoke, output, proxy, signal, shutDown } = await environment(t, variables);
    t.match(await invoke(event), { ...right, calls: 1 }, 'cold');
    await output.says(/: released 1$/m);
    await server.rested();
    t.match(await invoke(event), { ...right, calls: 2 }, 'warm');
    await output.says(/: released 2$/m);
    await server.rested();
    signal('SIGSTOP');
    signal('SIGCONT');
    t.match(await invoke({ ...event, keep: true }), { ...right, calls: 3 }, 'thawed');
    await output.says(
      /a session is kept while the function is frozen: the primary context is in use/,
    );
    t.equal(proxy.done.length, 3);
    await shutDown();
    await server.rested();
    // The emulator ends the runtime first, where Lambda may leave it some time.
    const over = /process \d+: ended 3$|process \d+ has no session any more/m;
    t.ok(await output.says(over), 'SHUTDOWN came to the extension');
  });
}

t.test('a hundred cold starts', { skip, timeout: 600_000 }, async (t) => {
  const { server, variables } = await served(t, !noTls);
  for (let start = 1; start <= 100; start++) {
    await t.test(`cold start ${start}`, async (t) => {
      const { invoke, output, shutDown } = await environment(t, variables);
      t.match(await invoke(event), { ...right, calls: 1 });
      await output.says(/: released \d+$/m);
      await shutDown();
      await server.rested();
    });
  }
});
