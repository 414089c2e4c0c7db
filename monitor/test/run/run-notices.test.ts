// What `outboard run` says by itself, with a real server: why there is no GPU, or no longer.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { formatAddress } from '../../src/options/values.js';
import { whyNotPreloaded } from '../../src/run/program-file.js';
import { outboard, Serving } from '../support/serving.js';

const client = path.join(build, 'guest-lib', 'test', 'guest-client');

interface Said {
  code: number | null;
  stdout: string;
  stderr: string;
}

function start(args: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [outboard, 'run', ...args], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const said: Said = { code: null, stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.stderr += text;
  });
  const ended = once(child, 'close').then(([code]): Said => ({ ...said, code }));
  const printed = async (wanted: RegExp) => {
    while (!wanted.test(said.stdout + said.stderr)) {
      await Promise.race([
        once(child.stdout, 'data'),
        once(child.stderr, 'data'),
        ended.then(() => {
          if (!wanted.test(said.stdout + said.stderr)) throw new Error(JSON.stringify(said));
        }),
      ]);
    }
  };
  return { child, ended, printed };
}

t.test('no server', async (t) => {
  const server = ['--server', '127.0.0.1:1'];
  const twice = [...server, '--', 'sh', '-c', `${client} init; ${client} init`];
  const { stdout, stderr } = await start(twice).ended;
  t.equal(
    stderr,
    'outboard: no connection to 127.0.0.1:1: Connection refused. Is `outboard serve` running there?\n',
    'once for all processes',
  );
  t.equal(stdout.match(/cuInit CUDA_ERROR_SYSTEM_NOT_READY/g)?.length, 2);
  t.equal((await start(['--log', 'off', ...server, '--', client, 'init']).ended).stderr, '');
});

t.test('a token that nobody has, an operator, a restart', async (t) => {
  const folder = t.testdir({});
  const tenants = path.join(folder, 'tenants.yaml');
  const add = ['tenant', 'add', 'acme', '--tenants', tenants];
  const token = execFileSync(process.execPath, [outboard, ...add], { encoding: 'utf8' }).trim();
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--tenants', tenants]);
  const address = formatAddress(serving.address);
  const env = { OUTBOARD_TOKEN: token.split('\n')[0], OUTBOARD_SERVER: address };
  const wrong = await start(['--', client, 'init'], { ...env, OUTBOARD_TOKEN: 'wrong' }).ended;
  t.match(wrong.stderr, /^outboard: the server refused \(OB_TOKEN_UNKNOWN\): no tenant .*\n$/);

  const running = start(['--', client, 'server-dies'], env);
  await running.printed(/^ready$/m);
  const api = ['--api', serving.http];
  execFileSync(process.execPath, [outboard, 'kill', '1', '--reason', 'too loud', ...api]);
  running.child.stdin.end('go on\n');
  const killed = await running.ended;
  t.match(killed.stderr, /^outboard: the server ended the session: an operator .*: too loud\n$/);

  const left = start(['--', client, 'server-dies'], env);
  await left.printed(/^ready$/m);
  await serving.stop();
  left.child.stdin.end('go on\n');
  t.match((await left.ended).stderr, /^outboard: the server ended the session: .*shut down\n$/);
});

t.test('more memory than the session has is told once, at the end', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const env = { OUTBOARD_SERVER: formatAddress(serving.address), OUTBOARD_MEMORY: '16M' };
  const twice = ['--', 'sh', '-c', `${client} takes-much; ${client} takes-much; echo end >&2`];
  const { stdout, stderr } = await start(twice, env).ended;
  t.equal(stdout.match(/cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY/g)?.length, 2);
  t.match(
    stderr,
    /^end\noutboard: out of memory: .* wanted, .* of the session's limit of 16 MiB .*--memory.*\n$/,
  );
  t.equal((await start(['--log', 'off', ...twice], env).ended).stderr, 'end\n');
  t.equal((await start(['--', client, 'init'], env).ended).stderr, '');
  const graph = await start(['--', client, 'graph-takes-much'], env).ended;
  t.match(graph.stdout, /^cuGraph\w+ CUDA_ERROR_OUT_OF_MEMORY$/m);
  t.match(
    graph.stderr,
    /^outboard: out of memory: 64 MiB .* of the session's limit of 16 MiB .*\n$/,
  );
});

t.test('a model of GPUs is asked for', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const asks = (model: string) =>
    start(['--server', formatAddress(serving.address), '--gpu-model', model, '--', client, 'init'])
      .ended;
  t.match(await asks('software'), { stdout: /^cuInit CUDA_SUCCESS$/m, stderr: '' });
  t.match(await asks('H100'), {
    stdout: /^cuInit CUDA_ERROR_INVALID_DEVICE$/m,
    stderr: /^outboard: .*OB_GPU_MODEL.*"H100"; what it can have here is Software Device\. Ask/,
  });
});

/** On a terminal of its own; what it shows, once it has ended. */
function onTerminal(args: string[], env: NodeJS.ProcessEnv = {}) {
  const words = [process.execPath, outboard, 'run', ...args].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qec', words, '/dev/null'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let seen = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen += text;
  });
  const ended = once(child, 'close').then(() => seen.replaceAll('\r', ''));
  const printed = async (wanted: RegExp) => {
    while (!wanted.test(seen)) await once(child.stdout, 'data');
  };
  return { ended, printed };
}

const noScript = spawnSync('script', ['--version']).error ? 'script is not installed' : false;

t.test('on a terminal', { skip: noScript }, async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const env = { OUTBOARD_SERVER: formatAddress(serving.address) };
  const holding = start(['--', client, 'server-dies'], env);
  await holding.printed(/^ready$/m);
  const waiting = onTerminal(['--', client, 'init'], env);
  await waiting.printed(/place 1/);
  holding.child.stdin.end('go on\n');
  t.match(
    await waiting.ended,
    /^outboard: waiting for a GPU: place 1 in the queue\ncuInit CUDA_SUCCESS\n/,
  );
  t.equal((await holding.ended).stderr, '');

  const none = 'outboard: nothing that ran here called CUDA, so that no GPU was asked for\n';
  t.equal(await onTerminal(['true'], env).ended, none);
  t.equal((await start(['true'], env).ended).stderr, '', 'not in a pipe');
});

t.test('programs that the library cannot get into', async (t) => {
  const folder = t.testdir({ 'main.c': 'int main(void) { return 0; }\n' });
  const dynamic = path.join(folder, 'dynamic');
  const fixed = path.join(folder, 'static');
  execFileSync('cc', ['-o', dynamic, path.join(folder, 'main.c')]);
  execFileSync('cc', ['-static', '-o', fixed, path.join(folder, 'main.c')]);
  t.equal(whyNotPreloaded(dynamic, {}), null);
  t.equal(whyNotPreloaded('true', process.env), null);
  t.equal(whyNotPreloaded('no-such-program-at-all', process.env), null);
  t.match(whyNotPreloaded(fixed, {}), /static is linked statically/);
  const { code, stderr } = await start(['--', fixed]).ended;
  t.match(stderr, /^outboard: .*static is linked statically, .*link it dynamically.*\n$/);
  t.equal(code, 0);

  const script = path.join(folder, 'script');
  writeFileSync(script, `#! ${fixed}\n`, { mode: 0o755 });
  t.match(whyNotPreloaded('script', { PATH: `/nowhere:${folder}` }), /static is linked statically/);

  const patched = (name: string, patch: (bytes: Buffer) => unknown) => {
    const bytes = readFileSync(dynamic);
    patch(bytes);
    const file = path.join(folder, name);
    writeFileSync(file, bytes, { mode: 0o755 });
    return whyNotPreloaded(file, {});
  };
  t.match(
    patched('small', (bytes) => bytes.writeUInt8(1, 4)),
    /small is a 32-bit program/,
  );
  t.match(
    patched('other', (bytes) => bytes.writeUInt16LE(8, 18)),
    /other is for another kind of processor/,
  );
  t.match(
    patched('musl', (bytes) => bytes.write('/lib/ld-musl.so.1\0', bytes.indexOf('/lib'))),
    /musl is linked with musl/,
  );
});

const notRoot = process.getuid?.() === 0 ? false : 'only root can give a file away';

t.test('a program with the rights of its file', { skip: notRoot }, async (t) => {
  const file = path.join(t.testdir({}), 'setuid');
  copyFileSync('/bin/true', file);
  chownSync(file, 1, 1);
  chmodSync(file, 0o4755);
  t.match(whyNotPreloaded(file, {}), /runs with the rights of its owner \(setuid\)/);
  chmodSync(file, 0o2755);
  t.match(whyNotPreloaded(file, {}), /runs with the rights of its group \(setgid\)/);
  chownSync(file, 0, 0);
  t.equal(whyNotPreloaded(file, {}), null, 'its own rights');
});
