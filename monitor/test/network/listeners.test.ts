// Where guests can connect.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { cli } from '../../../test/support/paths.js';
import { type Listen, Listeners, requireFree } from '../../src/network/listeners.js';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

const few = ['--http', 'none', '--device', 'software', '--servers-per-gpu', '1', '--grace', '0'];

t.test('IPv4, IPv6 and a Unix socket at a time', async (t) => {
  const socket = path.join(shortFolder(t), 'guests.sock');
  const listen = `127.0.0.1:0,[::1]:0,unix:${socket}`;
  const serving = await Serving.start(t, ['serve', '--listen', listen, ...few]);
  const [four, six, unix] = serving.listening;
  t.match(four, /^127\.0\.0\.1:\d+$/);
  t.match(six, /^\[::1\]:\d+$/);
  t.equal(unix, `unix:${socket}`);
  const port = (text = '') => Number(text.slice(text.lastIndexOf(':') + 1));
  for (const address of [
    { host: '127.0.0.1', port: port(four) },
    { host: '::1', port: port(six) },
    { path: socket },
  ]) {
    const guest = Guest.hello(address);
    await guest.welcome();
    await guest.leave();
  }
  await serving.logged({ msg: 'session begins', peer: /^\[::1\]:\d+$/ });
  await serving.logged({ msg: 'session begins', peer: 'unix' });
});

t.test('a Unix socket that a killed server left is taken over, one in use is not', async (t) => {
  const socket = path.join(shortFolder(t), 'guests.sock');
  const args = ['serve', '--listen', `unix:${socket}`, ...few];
  const first = await Serving.start(t, args);
  await t.rejects(Serving.start(t, args), { message: /OB_LISTEN.*guests\.sock/s });
  first.child.kill('SIGKILL');
  await first.exit;
  await Serving.start(t, args);
  const guest = Guest.hello({ path: socket });
  await guest.welcome();
  await guest.leave();
});

t.test('sockets that systemd has opened', async (t) => {
  const passed = createServer();
  passed.listen(0, '127.0.0.1');
  await once(passed, 'listening');
  const { port } = passed.address() as { port: number };
  const { _handle: handle } = passed as unknown as { _handle: 'pipe' };
  // The process id that the variable names is known only to the process itself.
  const script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"';
  const child = spawn('sh', ['-c', script, process.execPath, cli, 'serve', ...few], {
    stdio: ['ignore', 'pipe', 'ignore', handle],
  });
  t.teardown(() => child.kill('SIGKILL'));
  if (!child.stdout) throw new Error('no stdout');
  const [text] = await once(child.stdout, 'data');
  t.equal(String(text), `listening on 127.0.0.1:${port}\n`);
  passed.close();
  const guest = Guest.hello({ host: '127.0.0.1', port });
  await guest.welcome();
  await guest.leave();
  child.kill('SIGTERM');
  t.same(await once(child, 'exit'), [0, null]);
});

t.test('a path that is too long for a socket', async (t) => {
  const args = ['serve', '--listen', `unix:/${'x'.repeat(120)}`, ...few];
  await t.rejects(Serving.start(t, args), { message: /ended with 2:.*1 to 107 bytes/s });
});

t.test('a connection that was reset comes from no Unix socket', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  for (let i = 0; i < 10; i++) {
    const guest = new Guest(serving.address);
    await once(guest.socket, 'connect');
    const closed = once(guest.socket, 'close');
    guest.send('nothing that is known');
    guest.socket.resetAndDestroy();
    await closed;
  }
  const last = Guest.hello(serving.address);
  await last.welcome();
  await last.leave();
  await serving.logged({ msg: 'session begins', peer: /^127\.0\.0\.1:\d+$/ });
  t.notOk(serving.lines.some(({ peer }) => peer === 'unix'));
});

/** The path of a Unix socket must be short. */
function shortFolder(t: { teardown(end: () => void): void }): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}

t.test('all addresses of IPv4 and of IPv6, on one port', async (t) => {
  const probe = new Listeners(() => {});
  const [found] = await probe.open([{ kind: 'tcp', host: '0.0.0.0', port: 0 }]);
  await probe.close();
  if (found?.kind !== 'tcp') throw new Error('no port');
  const both: Listen[] = ['0.0.0.0', '::'].map((host) => ({ kind: 'tcp', host, port: found.port }));
  await requireFree(both, []);
  const listeners = new Listeners(() => {});
  t.same(await listeners.open(both), both);
  await t.rejects(requireFree(both, []), { code: 'OB_LISTEN', message: /EADDRINUSE/ });
  await listeners.close();
});
