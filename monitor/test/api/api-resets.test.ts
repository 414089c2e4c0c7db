// Requests on connections that are reset before they are answered: a socket that was reset has no
// address, and must not be taken for one that never has any.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import type { Authorise } from '../../src/api/access.js';
import type { View } from '../../src/base/view.js';
import { ask, TestApi } from '../support/api.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const requests = [
  'DELETE /v1/sessions/1 HTTP/1.1\r\nHost: localhost\r\n\r\n',
  'PUT /v1/drain HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n',
  'GET /v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
];

/** Sends it and resets the connection (SO_LINGER of 0), so that both arrive together. */
async function sendAndReset(port: number, text: string) {
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => {});
  await once(socket, 'connect');
  const closed = once(socket, 'close');
  socket.write(text);
  socket.resetAndDestroy();
  await closed;
}

async function sendAll(port: number, times: number) {
  for (let i = 0; i < times; i++) {
    for (const text of requests) await sendAndReset(port, text);
  }
}

const nobody: Authorise = () => null;

t.test('nothing is done for who has no token', async (t) => {
  const api = await TestApi.start(t, { authorise: nobody });
  await sendAll(api.port, 100);
  // What came before it has been dealt with.
  t.equal((await api.ask('GET', '/livez')).status, 200);
  t.same(api.operations.killed, []);
  t.equal(api.operations.draining, false);
  t.equal(api.operations.followers, 0);
});

t.test('a Unix socket is known by its listener', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-api-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const unix = { kind: 'unix', path: path.join(folder, 'api.sock') } as const;
  const tcp = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;
  const api = await TestApi.start(t, { authorise: nobody, listen: [unix, tcp] });
  t.match(await ask(unix, 'DELETE', '/v1/sessions/1'), { status: 204 });
  t.match(await ask(api.api.addresses[1], 'PUT', '/v1/drain'), { status: 401 });
});

t.test('a server with tenants, operators and a session', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = (...args: string[]) => {
    const words = [outboard, 'tenant', 'add', ...args, '--tenants', file];
    return execFileSync(process.execPath, words, { encoding: 'utf8' }).trim();
  };
  const operator = add('ann', '--operator', 'act');
  const token = add('acme');
  const serving = await Serving.start(t, [
    ...['--servers-per-gpu', '1', '--tenants', file, '--http', '127.0.0.1:0'],
  ]);
  const guest = Guest.hello(serving.address, { token });
  await guest.welcome();
  const { port } = new URL(serving.http);
  await sendAll(Number(port), 10);
  const headers = { authorization: `Bearer ${operator}` };
  const state = (await (await fetch(`${serving.http}v1/state`, { headers })).json()) as View;
  t.equal(state.server.draining, false);
  t.match(state.sessions, [{ id: 1 }]);
  t.notMatch(serving.log, 'operator acts');
  await guest.leave();
});
