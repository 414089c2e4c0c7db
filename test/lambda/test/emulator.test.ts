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
import t from 'tap';
import { which } from '../../../scripts/setup/command.mjs';
import { noCleanRoot } from '../../package/clean-root.js';
import { mustRun, noTools } from '../../package/machine.js';
import { build, root } from '../../support/paths.js';
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

t.test('the emulator', { skip, timeout: 300_000 }, async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-emulator-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const script = path.join(root, 'scripts', 'package-lambda.mjs');
  const env = { ...process.env, OUTBOARD_BUILD: build };
  await mustRun([process.execPath, script, '--no-build', '--out', folder], { env });
  const [zip = ''] = readdirSync(folder).filter((one) => one.endsWith('.zip'));
  const opt = path.join(folder, 'opt');
  mkdirSync(opt);
  await mustRun(['unzip', '-q', path.join(folder, zip), '-d', opt]);

  const rapid = 'samcli/local/rapid/aws-lambda-rie-x86_64';
  const purelib = 'import sysconfig; print(sysconfig.get_path("purelib"))';
  const packages = (await mustRun([python, '-c', purelib])).trim();
  const emulator = path.join(packages, rapid);
  chmodSync(emulator, 0o755);

  const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'];
  const server = await startServer({ args });
  t.teardown(() => server.stop());
  const [port, api] = [await freePort(), await freePort()];
  const proxy = new TelemetryProxy({ host: '127.0.0.1', port: api });
  const through = await proxy.start();
  t.teardown(() => proxy.stop());
  // All that it starts has the proxy for Lambda's API.
  const wrapped = path.join(opt, 'extensions', 'outboard');
  const inner = path.join(opt, 'outboard', 'outboard');
  await mustRun(['mv', wrapped, inner]);
  const wrapper = `#!/bin/sh\nAWS_LAMBDA_RUNTIME_API=${through} exec /opt/outboard/outboard\n`;
  writeFileSync(wrapped, wrapper, { mode: 0o755 });
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
        OUTBOARD_SERVER: server.address,
        OUTBOARD_RELEASE: path.join(folder, 'sessions'),
        OUTBOARD_LOG: 'info',
        PYTHONDONTWRITEBYTECODE: '1',
      },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  t.teardown(() => signal(child, 'SIGKILL'));
  output.of(child);
  const ended = once(child, 'exit');
  const event = { values: [1, 2.5, -3], factor: 2 };
  const right = { values: [2, 5, -6], device: /./ };
  t.match(await invoke(port, event), { ...right, calls: 1 }, 'cold');
  await output.says(/: released 1$/m);
  await server.rested();
  t.match(await invoke(port, event), { ...right, calls: 2 }, 'warm');
  await output.says(/: released 2$/m);
  await server.rested();
  signal(child, 'SIGSTOP');
  signal(child, 'SIGCONT');
  t.match(await invoke(port, { ...event, keep: true }), { ...right, calls: 3 }, 'thawed');
  await output.says(
    /a session is kept while the function is frozen: the primary context is in use/,
  );
  t.equal(proxy.done.length, 3);
  child.kill('SIGTERM');
  await ended;
  await server.rested();
  // The emulator ends the runtime first, where Lambda may leave it some time.
  const over = /process \d+: ended 3$|process \d+ has no session any more/m;
  t.ok(await output.says(over), 'SHUTDOWN came to the extension');
});
