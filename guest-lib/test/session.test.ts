// Sessions with a real server, as a program that uses the driver API directly has them: used, forked,
// left open, cut off.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../test/support/paths.js';
import { startServer } from '../../test/support/server.js';
import { between, run, withStats } from './support/client.js';

const SESSION = [
  'cuInit CUDA_SUCCESS',
  'cuDevicePrimaryCtxRetain CUDA_SUCCESS',
  'cuCtxSetCurrent CUDA_SUCCESS',
  'cuMemAlloc_v2 CUDA_SUCCESS',
  'cuMemcpyHtoD_v2 CUDA_SUCCESS',
  'cuMemcpyDtoH_v2 CUDA_SUCCESS',
  'data same',
];

const server = await startServer();
const env = { OUTBOARD_SERVER: server.address };
t.teardown(() => server.stop());

t.test('a session, and what it cost', async (t) => {
  const { result, stats } = await withStats((file) =>
    run('session', { ...env, OUTBOARD_STATS: file }),
  );
  t.same(result, { lines: SESSION, stderr: '', code: 0, signal: null });
  t.match(stats, { magic: 'BOSTATS1', version: 3, unsupported: 0, commands: 4, roundTrips: 3 });
  t.equal(
    stats.byCall.reduce((sum, count) => sum + count, 0),
    stats.calls,
    'every call is counted under its name',
  );
  const names = JSON.parse(
    readFileSync(path.join(root, 'proto', 'generated', 'calls.json'), 'utf8'),
  ) as string[];
  // And a row for calls of libraries.
  t.equal(stats.callCount, names.length + 1);
  const count = (name: string) => stats.byCall[names.indexOf(name)];
  t.same([count('cuInit'), count('cuMemAlloc_v2'), count('cuMemFree_v2')], [1, 1, 0]);
  t.ok(stats.byCall.slice(stats.callCount).every((count) => count === 0));
});

t.test('a child forked after cuInit', async (t) => {
  const { lines, stderr, code } = await run('forks', env);
  t.same(lines, [
    ...SESSION,
    // CUDA does not survive a fork.
    'cuInit CUDA_ERROR_NOT_INITIALIZED',
    'cuMemAlloc_v2 CUDA_ERROR_NOT_INITIALIZED',
    'cuMemcpyDtoH_v2 CUDA_ERROR_NOT_INITIALIZED',
    'cuCtxSynchronize CUDA_ERROR_NOT_INITIALIZED',
    'cuMemFree_v2 CUDA_ERROR_NOT_INITIALIZED',
    'child 0',
    // The parent goes on as if nothing had been.
    'cuMemcpyDtoH_v2 CUDA_SUCCESS',
    'byte 7',
  ]);
  t.same([stderr, code], ['', 0]);
});

t.test('a child forked before cuInit has a session of its own', async (t) => {
  const { lines } = await run('forks-first', env);
  t.same(lines, [...SESSION, 'child 0', ...SESSION]);
});

t.test('an end with work open', async (t) => {
  const { lines, code, stderr } = await run('ends-with-work-open', env);
  t.same(lines, [...SESSION, 'cuStreamCreate CUDA_SUCCESS']);
  t.same([stderr, code], ['', 0]);
  t.same((await run('session', env)).lines, SESSION, 'the server serves the next');
});

t.test('eight threads call cuInit at once', async (t) => {
  const { lines } = await run('threads', env);
  t.same(lines, [...Array(8).fill('cuInit CUDA_SUCCESS'), ...SESSION]);
});

t.test('calls that are not served', async (t) => {
  const { result, stats } = await withStats((file) =>
    run('unsupported', { ...env, OUTBOARD_STATS: file, OUTBOARD_LOG: 'warn' }),
  );
  t.same(result.lines.slice(SESSION.length), [
    'cuGreenCtxCreate CUDA_ERROR_NOT_SUPPORTED',
    'cuGreenCtxCreate CUDA_ERROR_NOT_SUPPORTED',
    'cuCoredumpGetAttribute CUDA_ERROR_NOT_SUPPORTED',
    'cuGetProcAddress_v2 CUDA_ERROR_NOT_FOUND',
    'not found',
  ]);
  const named = result.stderr.match(/(cu\w+) is not served/g);
  t.same(named, ['cuGreenCtxCreate is not served', 'cuCoredumpGetAttribute is not served']);
  t.equal(stats.unsupported, 3);
});

t.test('a server that came up later', async (t) => {
  const refusing = { OUTBOARD_SERVER: server.address, CUDA_VISIBLE_DEVICES: '9' };
  const first = await run('init', refusing);
  t.equal(first.lines[0], 'cuInit CUDA_ERROR_NO_DEVICE');
  const late = await startServer();
  t.teardown(() => late.stop());
  await late.stop();
  const { lines } = await between('tries-again', { OUTBOARD_SERVER: late.address }, async () => {
    const args = ['--device', 'software', '--gpus', '1', '--listen', late.address];
    const again = await startServer({ args });
    t.teardown(() => again.stop());
  });
  t.same(lines, ['cuInit CUDA_ERROR_SYSTEM_NOT_READY', 'ready', ...SESSION]);
});

t.test('a server that dies', async (t) => {
  const mortal = await startServer();
  const result = await between(
    'server-dies',
    { OUTBOARD_SERVER: mortal.address, OUTBOARD_LOG: 'error' },
    async () => {
      const pids = mortal.slots();
      mortal.process.kill('SIGKILL');
      await once(mortal.process, 'exit');
      for (const pid of pids) process.kill(pid, 'SIGKILL');
    },
  );
  t.same(result.lines.slice(SESSION.length), [
    'ready',
    'cuMemcpyDtoH_v2 CUDA_ERROR_DEVICE_UNAVAILABLE',
    'cuMemAlloc_v2 CUDA_ERROR_DEVICE_UNAVAILABLE',
    'cuCtxSynchronize CUDA_ERROR_DEVICE_UNAVAILABLE',
    'cuInit CUDA_ERROR_DEVICE_UNAVAILABLE',
  ]);
  // A slot that notices its monitor's end before its own still says goodbye.
  t.match(result.stderr, /the connection to the server is lost: |the server ended the session: /);
  t.equal(result.stderr.match(/error: /g)?.length, 1, 'said once');
  t.same([result.code, result.signal], [0, null]);
});
