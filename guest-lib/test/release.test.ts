// A session that is given back while its program lives (OUTBOARD_RELEASE): what is held keeps it, the
// next call attaches anew, and the program notices nothing.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { noPrograms } from '../../test/support/paths.js';
import { testProgram } from '../../test/support/program.js';
import { startServer } from '../../test/support/server.js';
import { between, client, ended, start } from './support/client.js';
import { ask, lineByLine, shortFolder, socketOf } from './support/release.js';

const server = await startServer();
t.teardown(() => server.stop());

const SESSION = [
  'cuInit CUDA_SUCCESS',
  'cuDevicePrimaryCtxRetain CUDA_SUCCESS',
  'cuCtxSetCurrent CUDA_SUCCESS',
  'cuMemAlloc_v2 CUDA_SUCCESS',
  'cuMemcpyHtoD_v2 CUDA_SUCCESS',
  'cuMemcpyDtoH_v2 CUDA_SUCCESS',
  'data same',
];

t.test('what is held keeps the session, what is not is had anew', async (t) => {
  const folder = path.join(shortFolder(t), 'made');
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'warn' };
  const child = start('releases', env);
  const result = ended(child);
  const steps = lineByLine(child);
  const release = () => ask(socketOf(folder, child), 'release');
  const number = async (reply: Promise<string>) => /^released (\d+)$/.exec(await reply)?.[1] ?? '';

  await steps.until('held');
  t.equal(statSync(folder).mode & 0o777, 0o700, 'nobody else reaches the folder');
  t.match(await release(), /^kept \d+ the primary context is in use$/);
  t.match(await ask(socketOf(folder, child), 'nonsense'), /^unknown: say release or end$/);
  await steps.next('let go');
  const first = await number(release());
  t.ok(first, 'its only context was released');
  await server.logged(new RegExp(`"session":${first},.*"msg":"session ends`));
  t.equal(await number(release()), first, 'it stays so');
  await steps.next('reset');
  const second = await number(release());
  t.ok(second && second !== first, 'another session, of a number of its own');
  await steps.next('created');
  t.match(await release(), /^kept \d+ a context that the program has created is not destroyed$/);
  await steps.next('physical');
  t.match(await release(), /^kept \d+ memory of cuMemCreate is not released$/);
  await steps.next('nothing');
  t.ok(await number(release()));
  steps.go();
  const { lines, stderr, code } = await result;
  t.same(lines, [
    ...SESSION,
    'held',
    'cuDevicePrimaryCtxRelease_v2 CUDA_SUCCESS',
    'let go',
    ...SESSION,
    'cuDevicePrimaryCtxReset_v2 CUDA_SUCCESS',
    'reset',
    'cuMemAlloc_v2 CUDA_ERROR_CONTEXT_IS_DESTROYED',
    'cuDevicePrimaryCtxRelease_v2 CUDA_SUCCESS',
    'cuCtxCreate_v2 CUDA_SUCCESS',
    'created',
    'cuMemAlloc_v2 CUDA_SUCCESS',
    'cuMemsetD8_v2 CUDA_SUCCESS',
    'cuCtxDestroy_v2 CUDA_SUCCESS',
    'cuMemCreate CUDA_SUCCESS',
    'physical',
    'cuMemRelease CUDA_SUCCESS',
    'nothing',
    ...SESSION,
  ]);
  t.same([stderr, code], ['', 0]);
});

t.test('a program of the runtime, with kernels', { skip: noPrograms }, async (t) => {
  const folder = shortFolder(t);
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'warn' };
  const child = start('3', env, testProgram('releases'));
  const result = ended(child);
  const steps = lineByLine(child);
  const sessions = new Set<string>();
  for (let invocation = 0; invocation < 3; invocation++) {
    await (invocation ? steps.next('reset') : steps.until('reset'));
    const reply = await ask(socketOf(folder, child), 'release');
    t.match(reply, /^released \d+$/);
    sessions.add(reply);
  }
  steps.go();
  const { lines, stderr, code } = await result;
  t.same(lines, Array(3).fill(['sum 523776, launches 1', 'reset']).flat());
  t.same([stderr, code, sessions.size], ['', 0, 3]);
});

t.test('a server that is gone is said by the call, and tried again', async (t) => {
  const folder = shortFolder(t);
  const mortal = await startServer();
  t.teardown(() => mortal.stop());
  const env = { OUTBOARD_SERVER: mortal.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'error' };
  const child = start('releases', env);
  const result = ended(child);
  const steps = lineByLine(child);
  await steps.until('held');
  await steps.next('let go');
  t.match(await ask(socketOf(folder, child), 'release'), /^released /);
  await mortal.stop();
  steps.go();
  const { lines, stderr } = await result;
  t.equal(lines[lines.indexOf('let go') + 1], 'cuInit CUDA_ERROR_SYSTEM_NOT_READY');
  t.match(stderr, /no connection to .*: Connection refused\. Is `outboard serve` running there\?/);
});

t.test('a GPU of another kind is not taken for the one that was', async (t) => {
  const folder = shortFolder(t);
  const before = await startServer();
  t.teardown(() => before.stop());
  const env = { OUTBOARD_SERVER: before.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'error' };
  const child = start('releases', env);
  const result = ended(child);
  const steps = lineByLine(child);
  await steps.until('held');
  await steps.next('let go');
  t.match(await ask(socketOf(folder, child), 'release'), /^released /);
  await before.stop();
  const args = ['--device', 'software', '--gpus', '1', '--listen', before.address];
  const after = await startServer({ args, env: { SOFTWARE_DEVICE_TRAITS: 'device=t4' } });
  t.teardown(() => after.stop());
  steps.go();
  const { lines, stderr } = await result;
  t.equal(lines[lines.indexOf('let go') + 1], 'cuInit CUDA_ERROR_DEVICE_UNAVAILABLE');
  t.match(stderr, /one like it cannot be had: its GPU was .*Name servers with GPUs of one kind/);
});

t.test('a session that is ended by its supervisor', async (t) => {
  const folder = shortFolder(t);
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'info' };
  const child = start('server-dies', env);
  const result = ended(child);
  const steps = lineByLine(child);
  await steps.until('ready');
  const [, number] = /^ended (\d+)$/.exec(await ask(socketOf(folder, child), 'end')) ?? [];
  await server.logged(new RegExp(`"session":${number},.*"msg":"session ends`));
  t.match(await ask(socketOf(folder, child), 'release'), /^lost \d+$/);
  steps.go();
  const { lines, stderr } = await result;
  t.equal(lines[lines.indexOf('ready') + 1], 'cuMemcpyDtoH_v2 CUDA_ERROR_DEVICE_UNAVAILABLE');
  t.match(stderr, /info: session \d+ is ended by its supervisor/);
});

t.test('a folder that cannot be had keeps no program from its GPU', async (t) => {
  const folder = shortFolder(t);
  const file = path.join(folder, 'file');
  writeFileSync(file, '');
  for (const [where, why] of [
    ['/proc/none', /No such file or directory/],
    [file, /Not a directory/],
    [`/tmp/${'long'.repeat(40)}`, /File name too long/],
  ] as const) {
    const env = { OUTBOARD_SERVER: server.address, OUTBOARD_RELEASE: where, OUTBOARD_LOG: 'warn' };
    const { lines, stderr } = await between('server-dies', env, async () => {});
    t.same(lines.slice(0, SESSION.length), SESSION);
    t.match(stderr, why);
    t.match(stderr, /no socket can be made there: .*\. The session is kept until the program ends/);
  }
  t.same(readdirSync(folder), ['file']);
});

t.test('what has the name and is no socket stays', async (t) => {
  const folder = shortFolder(t);
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_RELEASE: folder, OUTBOARD_LOG: 'warn' };
  const asShell = ['-c', 'echo mine > "$OUTBOARD_RELEASE/$$"; exec "$0" "$1"', client];
  const child = start([...asShell, 'server-dies'], env, '/bin/sh');
  const result = ended(child);
  child.stdin?.end('go on\n');
  const { lines, stderr } = await result;
  t.same(lines.slice(0, SESSION.length), SESSION);
  t.match(stderr, /no socket can be made there: Address already in use\. The session is kept/);
  t.equal(readFileSync(socketOf(folder, child), 'utf8'), 'mine\n');
});

t.test('a child has no part in it', async (t) => {
  const folder = shortFolder(t);
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_RELEASE: folder };
  const child = start('forks', env);
  const { lines } = await ended(child);
  t.match(lines.at(-1), 'byte 7', 'the session is the parent’s, as without');
  t.same(readdirSync(folder), [`${child.pid}`]);
});
