// The layer as it is packed, unpacked where Lambda would have it, with the function of the example: real
// invocations, cold, warm, frozen and thawed, in surroundings as narrow as Lambda's. The APIs are a stand-in's.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { authority, serverFiles } from '../../../monitor/test/support/certificates.js';
import { which } from '../../../scripts/setup/command.mjs';
import { noCleanRoot } from '../../package/clean-root.js';
import { mustRun, noTools } from '../../package/machine.js';
import { build, noTls, root } from '../../support/paths.js';
import { startServer, type TestServer } from '../../support/server.js';
import { Lambda } from '../environment.js';
import { Output } from '../output.js';

const missing = ['zip', 'unzip', 'python3', 'prlimit'].filter((tool) => !which(tool));
const skip = noTools || (missing.length > 0 && `no ${missing.join(', ')}`) || false;

const folder = mkdtempSync(path.join(tmpdir(), 'outboard-lambda-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const opt = path.join(folder, 'opt');

/** 1,024 descriptors; where that may be had, nothing that can be written but /tmp, and no shared memory. */
const narrow = noCleanRoot()
  ? ['prlimit', '--nofile=1024', '--']
  : [
      ...['prlimit', '--nofile=1024', '--', 'unshare', '--mount', 'sh', '-c'],
      'mount --bind /tmp /tmp && mount -o remount,bind,ro / &&' +
        ' mount -t tmpfs -o ro none /dev/shm && exec "$@"',
      'sh',
    ];

function certificates(): { ca: string; cert: string; key: string } {
  const ours = authority(folder, 'authority');
  const { cert, key } = serverFiles(ours, null);
  return { ca: ours.ca, cert: cert ?? '', key: key ?? '' };
}

async function packed(out: string): Promise<string> {
  const script = path.join(root, 'scripts', 'package-lambda.mjs');
  const env = { ...process.env, OUTBOARD_BUILD: build };
  await mustRun([process.execPath, script, '--no-build', '--out', out], { env });
  const [name = ''] = readdirSync(out).filter((one) => one.endsWith('.zip'));
  return path.join(out, name);
}

t.test('the layer holds what it should, and is the same each time', { skip }, async (t) => {
  const first = await packed(path.join(folder, 'first'));
  const second = await packed(path.join(folder, 'second'));
  t.ok(readFileSync(first).equals(readFileSync(second)), 'the same bytes');
  t.ok(statSync(first).size < 10_000_000);
  mkdirSync(opt);
  await mustRun(['unzip', '-q', first, '-d', opt]);
  t.same(readdirSync(opt).sort(), ['extensions', 'lib', 'outboard']);
  t.same(readdirSync(path.join(opt, 'extensions')), ['outboard'], 'all there are programs');
  t.equal(statSync(path.join(opt, 'extensions', 'outboard')).mode & 0o111, 0o111);
  t.ok(readdirSync(path.join(opt, 'lib')).includes('libcuda.so.1'));
  const told = await mustRun(['readelf', '-l', path.join(opt, 'extensions', 'outboard')]);
  t.notMatch(told, /INTERP|DYNAMIC/, 'the extension needs no library');
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const template = readFileSync(path.join(root, 'deploy', 'lambda', 'template.yaml'), 'utf8');
  t.match(template, `outboard-lambda_${version}_amd64.zip`, 'the example takes this version');
});

interface Environment {
  lambda: Lambda;
  /** All of it gets a signal. */
  signal(signal: NodeJS.Signals): void;
  output: Output;
  invoke(payload: object): Promise<unknown>;
  shutDown(): Promise<number | null>;
}

/** As Lambda starts one: extensions, then the runtime; each with the function's variables. */
async function environment(
  t: Test,
  address: string,
  variables: Record<string, string> = {},
): Promise<Environment> {
  const lambda = new Lambda();
  const env = {
    PATH: process.env['PATH'],
    AWS_LAMBDA_RUNTIME_API: await lambda.start(),
    LD_LIBRARY_PATH: path.join(opt, 'lib'),
    OUTBOARD_SERVER: address,
    OUTBOARD_RELEASE: path.join(mkdtempSync(path.join(folder, 'tmp-')), 'outboard'),
    OUTBOARD_CONNECT_TIMEOUT: '5',
    OUTBOARD_LOG: 'info',
    PYTHONDONTWRITEBYTECODE: '1',
    ...variables,
  };
  const output = new Output();
  const begin = (argv: string[]): ChildProcess => {
    const [program = '', ...args] = [...narrow, ...argv];
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    t.teardown(() => child.kill('SIGKILL'));
    output.of(child);
    return child;
  };
  t.teardown(() => lambda.stop());
  const extension = begin([path.join(opt, 'extensions', 'outboard')]);
  const extensionEnded = once(extension, 'exit').then(([code]) => code as number | null);
  const runtime = begin([
    ...['python3', path.join(root, 'test', 'lambda', 'bootstrap.py')],
    ...[path.join(root, 'deploy', 'lambda', 'function'), 'app'],
  ]);
  const over = once(runtime, 'exit').then(() => {
    throw new Error(`the runtime ended:\n${output.text}`);
  });
  over.catch(() => {});
  await Promise.race([lambda.frozen(true), over]);
  return {
    lambda,
    output,
    signal(signal) {
      for (const child of [runtime, extension]) process.kill(-(child.pid ?? 0), signal);
    },
    async invoke(payload) {
      const id = lambda.invoke(payload);
      await Promise.race([lambda.frozen(true), over]);
      return lambda.responses.get(id);
    },
    async shutDown() {
      runtime.kill('SIGTERM');
      lambda.shutDown();
      return extensionEnded;
    },
  };
}

/** Invocations of a function whose environments reach the server so. */
async function functionIsRight(
  t: Test,
  server: TestServer,
  address: string,
  variables: Record<string, string> = {},
) {
  const one = await environment(t, address, variables);
  const double = { values: [1, 2.5, -3], factor: 2 };
  const doubled = { values: [2, 5, -6], device: /./ };
  t.match(await one.invoke(double), { ...doubled, calls: 1 }, 'cold');
  await server.rested();
  t.match(await one.invoke(double), { ...doubled, calls: 2 }, 'warm');
  await server.rested();

  one.signal('SIGSTOP');
  const other = await environment(t, address, variables);
  t.match(await other.invoke(double), { ...doubled, calls: 1 }, 'the one slot is free meanwhile');
  one.signal('SIGCONT');
  t.match(await one.invoke(double), { ...doubled, calls: 3 }, 'frozen and thawed');
  t.ok(await one.output.says(/(: released .*){3}/s));
  await server.rested();

  t.match(await one.invoke({ ...double, keep: true }), { ...doubled, calls: 4 });
  t.ok(
    await one.output.says(
      /a session is kept while the function is frozen: the primary context is in/,
    ),
  );
  one.signal('SIGSTOP');
  await server.rested();
  one.signal('SIGCONT');
  await t.rejects(one.invoke(double), /cuModuleLoadData: CUDA_ERROR_DEVICE_UNAVAILABLE: the proc/);
  t.ok(
    await one.output.says(
      /the server ended the session: the program has used its GPU for nothing in 1 seconds/,
    ),
  );
  // As Lambda tells of a runtime that has ended.
  await one.lambda.runtimeDone('request-5');
  await one.lambda.frozen();
  t.equal(await one.shutDown(), 0);
  t.match(await other.invoke(double), { ...doubled, calls: 2 }, 'others are as they were');
  t.match(await other.invoke({ values: [] }), { values: [], calls: 3 }, 'nothing to multiply');
  t.equal(await other.shutDown(), 0);
}

const args = [
  ...['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'],
  ...['--idle-timeout', '1'],
];

t.test('a function', { skip }, async (t) => {
  const server = await startServer({ args });
  t.teardown(() => server.stop());
  await functionIsRight(t, server, server.address);
});

t.test('a function by TLS', { skip: skip || noTls }, async (t) => {
  const { ca, cert, key } = certificates();
  const tls = ['--tls-listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key];
  const server = await startServer({ args: [...args, ...tls] });
  t.teardown(() => server.stop());
  await functionIsRight(t, server, server.tlsAddress ?? '', { OUTBOARD_CA: ca });
});

t.test('a server that is not there', { skip }, async (t) => {
  const gone = await startServer();
  await gone.stop();
  const one = await environment(t, gone.address);
  t.match(await one.invoke({}), {
    errorType: 'CudaError',
    errorMessage: 'cuInit: CUDA_ERROR_SYSTEM_NOT_READY',
  });
  t.ok(
    await one.output.says(
      /no connection to .*: Connection refused\. Is `outboard serve` running there/,
    ),
  );
  t.equal(await one.shutDown(), 0);
});
