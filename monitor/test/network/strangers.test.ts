// Crowds: connections that say nothing, and tenants that fill the queue. Each bound is reached, and
// passed by one.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { WebSocket } from 'ws';
import { encodeHello } from '../../../api-server/src/control.js';
import { connectionsMost, connectionsMostOfAddress } from '../../src/api/api.js';
import { readSocketToken } from '../../src/api/socket-token.js';
import { addressOf, machineOf, type Stranger, Strangers } from '../../src/network/strangers.js';
import type { GuestSocket } from '../../src/tls/front.js';
import { ask, TestApi } from '../support/api.js';
import { authority, serverFiles } from '../support/certificates.js';
import { startFront, tlsGuest } from '../support/front.js';
import { Guest, usualHello } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

t.test('counted by address and in all, and not for longer than they are there', async (t) => {
  const counts = new Strangers({ all: 3, ofAddress: 2 });
  const enter = (address: string) => counts.enter(address) as Stranger;
  const [one, two] = [enter('a'), enter('a')];
  t.match([one.refusal, two.refusal], [null, null]);
  t.match(enter('a').refusal, { code: 'OB_CONNECTIONS_ADDRESS', message: /address a has 2 conn/ });
  t.equal(enter('b').refusal, null);
  t.match(enter('c').refusal, { code: 'OB_CONNECTIONS', message: /^3 connections/ });
  t.ok(enter('c').refusal, 'told, too');
  t.equal(counts.enter('c'), 'full', 'not even told');
  one.leave();
  one.leave();
  t.equal(enter('c').refusal, null, 'one has left, and counts once');
  t.ok(counts.enter('c') === 'full');
  t.same(['192.0.2.1:80', '[::1]:80', 'unix'].map(addressOf), ['192.0.2.1', '[::1]', 'unix']);

  // Nobody is kept out for ever: whatever comes and goes, an empty house takes as many again.
  fc.assert(
    fc.property(fc.array(fc.nat(3)), (addresses) => {
      const counts = new Strangers({ all: 5, ofAddress: 2 });
      const all = addresses.map((address) => counts.enter(String(address)));
      for (const one of all) if (one !== 'full') one.leave();
      const again = ['x', 'x', 'y', 'y', 'z'].map((one) => counts.enter(one));
      return again.every((one) => one !== 'full' && one.refusal === null);
    }),
  );
});

t.test('a machine has one address, however many it takes', async (t) => {
  const cases: Record<string, string> = {
    '192.0.2.1': '192.0.2.1',
    '::ffff:192.0.2.1': '192.0.2.1',
    '[::ffff:c000:201]': '192.0.2.1',
    '::192.0.2.1': '192.0.2.1',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:2::/64',
    '[2001:db8:1:2::7]': '2001:db8:1:2::/64',
    '2001:db8::': '2001:db8:0:0::/64',
    'fe80::1%eth0': 'fe80:0:0:0::/64',
    '64:ff9b::192.0.2.1': '64:ff9b:0:0::/64',
    '[::1]': '[::1]',
    '::1': '::1',
    '::': '::',
    unix: 'unix',
    '?': '?',
  };
  for (const [address, machine] of Object.entries(cases)) t.equal(machineOf(address), machine);
  const counts = new Strangers({ all: 9, ofAddress: 2 });
  const enter = (address: string) => (counts.enter(address) as Stranger).refusal;
  t.same(['2001:db8::1', '2001:db8::2'].map(enter), [null, null]);
  t.match(enter('2001:db8::3'), {
    code: 'OB_CONNECTIONS_ADDRESS',
    message: /2001:db8:0:0::\/64 has 2/,
  });
  t.equal(enter('2001:db8:0:1::1'), null);
  t.same(['::ffff:192.0.2.1', '192.0.2.1'].map(enter), [null, null]);
  t.match(enter('[::ffff:192.0.2.1]'), { message: /address 192\.0\.2\.1 has 2/ });
});

/** From an address of this machine's own. */
async function silent(from: string, port: number): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: from });
  socket.on('error', () => {});
  await once(socket, 'connect');
  t.teardown(() => socket.destroy());
  return socket;
}

function guestFrom(from: string, port: number): Guest {
  const guest = new Guest({ host: '127.0.0.1', port, localAddress: from } as never);
  guest.send(encodeHello(usualHello));
  return guest;
}

t.test(
  'silent ones keep others out for the time of a Hello, and of one address, none',
  async (t) => {
    const limits = ['--hello-limit', '4', '--hello-limit-per-address', '2', '--hello-timeout', '8'];
    const serving = await Serving.start(t, [...limits, '--servers-per-gpu', '2']);
    const { port } = serving.address;
    const crowd = [await silent('127.0.0.2', port), await silent('127.0.0.2', port)];
    t.match(await guestFrom('127.0.0.2', port).refusal(), {
      code: 'OB_CONNECTIONS_ADDRESS',
      sentence: /^the address 127\.0\.0\.2 has 2 connections/,
      remedy: /--hello-limit-per-address/,
    });
    const other = guestFrom('127.0.0.3', port);
    await other.welcome();

    // Whoever has said Hello does not count any more.
    for (const from of ['127.0.0.4', '127.0.0.5']) crowd.push(await silent(from, port));
    const out = await guestFrom('127.0.0.6', port).refusal();
    t.match(out, { code: 'OB_CONNECTIONS', sentence: /^4 connections/, remedy: /--hello-limit/ });
    await Promise.all(crowd.map((socket) => once(socket.resume(), 'close')));
    const late = guestFrom('127.0.0.2', port);
    await late.welcome();
    for (const guest of [other, late]) await guest.leave();
  },
);

t.test('before a TLS handshake', async (t) => {
  const ours = authority(t.testdir(), 'ours');
  const files = serverFiles(ours, null);
  const strangers = { all: 4, ofAddress: 2 };
  const accept = (socket: GuestSocket) => socket.on('error', () => {}).pipe(socket);
  const { address, log } = await startFront(t, { files, strangers, helloSeconds: 5 }, accept);
  const crowd = [await silent('127.0.0.2', address.port), await silent('127.0.0.2', address.port)];
  const closed = crowd.map((socket) => once(socket.resume(), 'close'));
  const third = await silent('127.0.0.2', address.port);
  await once(third.resume(), 'close');
  t.match(await log.line(/address 127\.0\.0\.2 has 2/), { code: 'OB_CONNECTIONS_ADDRESS' });
  const ca = execFileSync('cat', [ours.ca]);
  for (let i = 0; i < 6; i++) {
    const guest = await tlsGuest(t, address, { ca });
    guest.write('x');
    await once(guest, 'data');
  }
  await Promise.all(closed);
  t.pass('who says nothing is let go');
});

t.test('the HTTP API', async (t) => {
  const api = await TestApi.start(t);
  const crowd: Socket[] = [];
  for (let i = 0; i < connectionsMostOfAddress; i++) {
    crowd.push(await silent('127.0.0.2', api.port));
  }
  const [first, second] = crowd as [Socket, Socket];
  const gone = once(first.resume(), 'close');
  crowd.push(await silent('127.0.0.2', api.port));
  await gone;
  t.equal((await api.ask('GET', '/livez')).status, 200, 'another address');
  t.notOk(second.destroyed, 'of which none makes way for it');
  for (const socket of crowd) socket.destroy();
});

t.test("the HTTP API's Unix socket, held by one who has no token", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-api-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const unix = { kind: 'unix', path: path.join(folder, 'api.sock') } as const;
  await TestApi.start(t, { authorise: () => null, listen: [unix] });
  const live = new WebSocket(`ws+unix:${unix.path}:/v1/live`, ['json'], {
    headers: { authorization: `Bearer ${readSocketToken(unix.path)}` },
  });
  await once(live, 'open');
  const crowd: Socket[] = [];
  t.teardown(() => {
    for (const socket of crowd) socket.destroy();
  });
  // Some say nothing, some begin a request, some have had an answer.
  const words = ['', 'GET /livez HTTP/1.1\r\n', 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'];
  const comes = async (i: number) => {
    const socket = connect(unix.path).on('error', () => {});
    socket.resume();
    crowd.push(socket);
    await once(socket, 'connect');
    socket.write(words[i % words.length] ?? '');
  };
  for (let i = 0; i < connectionsMost; i++) await comes(i);
  t.match(await ask(unix, 'GET', '/v1/state'), { status: 200 });
  for (let i = 0; i < connectionsMost; i++) await comes(i);
  t.match(await ask(unix, 'DELETE', '/v1/sessions/1'), { status: 204 });
  t.equal(live.readyState, live.OPEN, 'who may be there stays');
  live.terminate();
});

t.test('one tenant does not fill the queue', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = (name: string) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', name, '--tenants', file], {
      encoding: 'utf8',
    }).trim();
  const [many, few] = [add('many'), add('few')];
  const limits = ['--queue-limit', '3', '--queue-limit-per-tenant', '2', '--servers-per-gpu', '1'];
  const serving = await Serving.start(t, [...limits, '--tenants', file]);
  const comes = (token: string) => Guest.hello(serving.address, { token });
  const running = comes(many);
  await running.welcome();
  const waiting = [comes(many), comes(many)];
  t.same(await Promise.all(waiting.map((guest) => guest.position())), [1, 2]);
  t.match(await comes(many).refusal(), {
    code: 'OB_TENANT_QUEUE',
    sentence: /^2 programs of tenant many are waiting/,
    remedy: /--queue-limit-per-tenant/,
  });
  const other = comes(few);
  t.equal(await other.position(), 3);
  t.match(await comes(few).refusal(), { code: 'OB_QUEUE_FULL', sentence: /^3 programs/ });
  for (const guest of [running, ...waiting, other]) await guest.leave();
});
