// What a program under `outboard run` says on stderr by itself, and signals that come while it waits.
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { encodeAnswer } from '../../api-server/src/control.js';
import { ended, run, start } from './support/client.js';
import { scriptedServer, welcome } from './support/scripted-server.js';

function notices(t: Test): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-notices-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}

const refusal = { code: 'OB_TEST', sentence: 'no', remedy: 'do this.', result: 46 };

t.test('a refusal is said once in a run, and not at all without one', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    await hello;
    socket.end(encodeAnswer({ refusal }));
  });
  t.teardown(() => server.stop());
  const folder = notices(t);
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_NOTICES: folder };
  const said = 'outboard: the server refused (OB_TEST): no. do this.\n';
  t.match(await run('init', env), {
    stderr: said,
    lines: ['cuInit CUDA_ERROR_DEVICE_UNAVAILABLE'],
  });
  t.equal((await run('init', env)).stderr, '', 'another process of the run');
  t.ok(readdirSync(folder).includes('called'), 'the run is known to make CUDA calls');
  const another = { ...env, OUTBOARD_NOTICES: notices(t) };
  t.equal((await run('init', another)).stderr, said, 'another run');
  t.equal((await run('init', { OUTBOARD_SERVER: server.address })).stderr, '');
  const gone = { ...env, OUTBOARD_NOTICES: '/no/such/folder' };
  t.equal((await run('init', gone)).stderr, said, 'rather again than never');
});

t.test('a log that somebody asked for stands in its place', async (t) => {
  const env = { OUTBOARD_SERVER: '127.0.0.1:1' };
  const with_ = (log: string) =>
    run('init', { ...env, OUTBOARD_NOTICES: notices(t), OUTBOARD_LOG: log });
  t.equal((await with_('off')).stderr, '');
  t.match((await with_('error')).stderr, /^outboard \S+ \d+ error: no connection to .*\n$/);
  const file = path.join(notices(t), 'log');
  t.match((await with_(`info:${file}`)).stderr, /^outboard: no connection to .* Is `outboard/);
});

t.test('no device is visible', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    socket.write(encodeAnswer({ welcome: welcome(await hello) }));
  });
  t.teardown(() => server.stop());
  const visible = async (list: string) => {
    const env = { OUTBOARD_SERVER: server.address, CUDA_VISIBLE_DEVICES: list };
    const { lines, stderr } = await run('init', { ...env, OUTBOARD_NOTICES: notices(t) });
    t.equal(lines[0], 'cuInit CUDA_ERROR_NO_DEVICE');
    return stderr;
  };
  t.equal(
    await visible('3'),
    'outboard: CUDA_VISIBLE_DEVICES="3" leaves none of the 1 GPUs of this session visible\n',
  );
  t.match(await visible(''), /^outboard: CUDA_VISIBLE_DEVICES is empty: no device is visible.*\n$/);
});

t.test('off a terminal a wait is said when it has become one, and when it is over', async (t) => {
  let admit = () => {};
  let queued = () => {};
  const server = await scriptedServer(async (socket, hello) => {
    const said = await hello;
    socket.write(encodeAnswer({ queued: { position: 2 } }));
    queued();
    admit = () => socket.write(encodeAnswer({ welcome: welcome(said) }));
  });
  t.teardown(() => server.stop());
  const env = { OUTBOARD_SERVER: server.address };
  const waits = async (more: Record<string, string>, until: (said: Promise<void>) => unknown) => {
    const there = new Promise<void>((resolve) => {
      queued = resolve;
    });
    const child = start('init', { ...env, ...more });
    const told = new Promise<void>((resolve) => {
      child.stderr?.on('data', (text) => /place 2/.test(text) && resolve());
    });
    const result = ended(child);
    await there;
    await until(told);
    admit();
    return (await result).stderr;
  };
  const run = () => ({ OUTBOARD_NOTICES: notices(t) });
  t.match(
    await waits(run(), (told) => told),
    /^outboard: waiting for a GPU: place 2 in the queue\noutboard: the wait is over: a GPU is there after \d+ seconds\n$/,
  );
  t.equal(await waits(run(), () => {}), '', 'a moment is not worth a line');
});

/** Some more signals have come to it, each of which it tells by a dot. */
function ticked(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    let dots = 0;
    child.stderr?.on('data', (text: string) => {
      dots += text.length;
      if (dots >= 10) resolve();
    });
    child.once('close', () => resolve());
  });
}

t.test('signals of the program while it waits in the queue', async (t) => {
  let queued = () => {};
  let goOn: () => Promise<unknown> = async () => {};
  const server = await scriptedServer(async (socket, hello) => {
    const said = await hello;
    socket.write(encodeAnswer({ queued: { position: 2 } }));
    queued();
    await goOn();
    socket.write(encodeAnswer({ queued: { position: 1 } }));
    if (waits) return;
    await goOn();
    socket.write(encodeAnswer({ welcome: welcome(said) }));
  });
  t.teardown(() => server.stop());
  let waits = false;
  const env = { OUTBOARD_SERVER: server.address };
  const waiter = start('init-with-signals', env);
  const welcomed = ended(waiter);
  goOn = () => ticked(waiter);
  t.same(
    (await welcomed).lines,
    ['cuInit CUDA_SUCCESS', 'ticks some, told to end by 0'],
    'timers and children',
  );
  waits = true;
  for (const [signal, number] of [['SIGINT', 2] as const, ['SIGTERM', 15] as const]) {
    const there = new Promise<void>((resolve) => {
      queued = resolve;
    });
    // A second server is not tried.
    const servers = `${server.address},${server.address}`;
    const child = start('init-with-signals', { ...env, OUTBOARD_SERVER: servers });
    const result = ended(child);
    goOn = () => ticked(child);
    await there;
    // Some ticks later the answer has been read, and it waits for the next.
    await ticked(child);
    child.kill(signal);
    t.same((await result).lines, [
      'cuInit CUDA_ERROR_SYSTEM_NOT_READY',
      `ticks some, told to end by ${number}`,
    ]);
  }
  t.equal(server.connections(), 3);
  const there = new Promise<void>((resolve) => {
    queued = resolve;
  });
  const child = start('init', env);
  const result = ended(child);
  await there;
  child.kill('SIGTERM');
  t.equal((await result).signal, 'SIGTERM', 'without a handler it ends as any program');
});
