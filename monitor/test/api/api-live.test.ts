// The WebSocket /v1/live.
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { unpack } from 'msgpackr';
import t from 'tap';
import { type ClientOptions, WebSocket } from 'ws';
import { bearerSubprotocol } from '../../src/api/access.js';
import { type LiveMessage, queueShown } from '../../src/api/live.js';
import { TestApi } from '../support/api.js';
import { waiting } from '../support/operations.js';

interface Test {
  teardown(end: () => unknown): void;
}

/** Messages as they come. */
class Follower {
  readonly socket: WebSocket;
  readonly closed: Promise<number>;
  readonly #messages: LiveMessage[] = [];
  #wake = () => {};

  constructor(t: Test, api: TestApi, protocols: string[], options: ClientOptions = {}) {
    this.socket = new WebSocket(`${api.url.replace('http', 'ws')}/v1/live`, protocols, options);
    this.closed = once(this.socket, 'close').then(([code]) => code);
    this.socket.on('message', (data: Buffer, binary) => {
      this.#messages.push(binary ? unpack(data) : JSON.parse(data.toString()));
      this.#wake();
    });
    this.socket.on('error', () => {});
    t.teardown(() => {
      if (this.socket.readyState === WebSocket.OPEN) this.socket.terminate();
    });
  }

  async next(): Promise<LiveMessage> {
    while (this.#messages.length === 0) {
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
    return this.#messages.shift() as LiveMessage;
  }

  /** The next of a type. */
  async nextOf<T extends LiveMessage['type']>(type: T): Promise<Extract<LiveMessage, { type: T }>> {
    for (;;) {
      const message = await this.next();
      if (message.type === type) return message as Extract<LiveMessage, { type: T }>;
    }
  }
}

t.test('the state at once and again, lines as they come, in both forms', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  for (const form of ['json', 'msgpack']) {
    const follower = new Follower(t, api, [form]);
    const { server, ...parts } = operations.view();
    t.match(await follower.next(), { type: 'view', queued: 1, view: parts }, form);
    t.equal(follower.socket.protocol, form);
    operations.draining = !operations.draining;
    const { draining } = operations;
    t.match((await follower.nextOf('view')).view.server, { draining }, 'a second later');
    for (const time of [1, 2]) operations.log({ time, level: 'warn', msg: `line ${time}`, gpu: 1 });
    const { lines, missed } = await follower.nextOf('logs');
    t.same(lines, operations.lines.slice(-2), 'together');
    t.equal(missed, 0);
  }
  const plain = new Follower(t, api, []);
  t.match(await plain.next(), { type: 'view' }, 'JSON unless asked otherwise');
});

t.test('the log is followed while somebody reads it', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  t.equal(operations.followers, 0);
  const [one, two] = [new Follower(t, api, ['json']), new Follower(t, api, ['json'])];
  await Promise.all([one.next(), two.next()]);
  t.equal(operations.followers, 1);
  one.socket.close();
  two.socket.close();
  await Promise.all([one.closed, two.closed]);
  // The server hears of it a moment later.
  while (operations.followers > 0) await pause(5);
  const three = new Follower(t, api, ['json']);
  await three.next();
  operations.log({ time: 1, level: 'info', msg: 'again' });
  t.match(await three.nextOf('logs'), { lines: [{ msg: 'again' }], missed: 0 });
});

t.test('a long queue is shown in part', async (t) => {
  const api = await TestApi.start(t);
  api.operations.queue = Array.from({ length: 1000 }, (_, index) => waiting(index, index + 1));
  const { view, queued } = await new Follower(t, api, ['json']).nextOf('view');
  t.equal(view.queue.length, queueShown);
  t.equal(queued, 1000);
});

t.test('one that does not read is sent no more than a bounded amount', async (t) => {
  const api = await TestApi.start(t);
  const reader = new Follower(t, api, ['json']);
  const stuck = new Follower(t, api, ['json']);
  await Promise.all([reader.next(), stuck.next()]);
  stuck.socket.pause();
  // Far more than the kernel holds for a connection that is not read.
  const msg = 'x'.repeat(1_000_000);
  const rounds = 40;
  for (let time = 0; time < rounds; time++) {
    api.operations.log({ time, level: 'info', msg });
    const { lines } = await reader.nextOf('logs');
    t.equal(lines[0]?.time, time);
  }
  stuck.socket.resume();
  let got = 0;
  let missed = 0;
  api.operations.log({ time: rounds, level: 'info', msg: 'last' });
  for (let last = false; !last; ) {
    const message = await stuck.nextOf('logs');
    got += message.lines.length;
    missed += message.missed;
    last = message.lines.some((line) => line.msg === 'last');
    // What came when it had not caught up yet was missed, too: once more.
    if (!last && got + missed >= rounds) {
      api.operations.log({ time: rounds, level: 'info', msg: 'last' });
    }
  }
  t.ok(missed > 0, `missed ${missed} of ${rounds}`);
  t.ok(got >= 1, `got ${got}`);
});

t.test('who may follow', async (t) => {
  const authorise = (token: string) =>
    ['tökén/1', 'plain'].includes(token) ? { name: 'vic', rights: 'view' as const } : null;
  const api = await TestApi.start(t, { authorise });
  const status = async (follower: Follower) => {
    const [request, response] = await once(follower.socket, 'unexpected-response');
    request.destroy();
    return response.statusCode;
  };
  t.equal(await status(new Follower(t, api, ['json'])), 401);
  t.equal(await status(new Follower(t, api, ['json', bearerSubprotocol('wrong')])), 401);
  const other = { headers: { origin: 'https://attacker.example' } };
  t.equal(await status(new Follower(t, api, ['json', bearerSubprotocol('tökén/1')], other)), 403);
  const page = new Follower(t, api, ['json', bearerSubprotocol('tökén/1')]);
  t.match(await page.next(), { type: 'view' });
  t.equal(page.socket.protocol, 'json', 'the token does not come back');
  const headers = { authorization: 'Bearer plain' };
  t.match(await new Follower(t, api, ['msgpack'], { headers }).next(), { type: 'view' });

  const open = await TestApi.start(t);
  t.equal(await status(new Follower(t, open, ['json'], other)), 403);
  const rebound = { headers: { host: 'attacker.example', origin: 'http://attacker.example' } };
  t.equal(await status(new Follower(t, open, ['json'], rebound)), 403);
  const elsewhere = new WebSocket(`${open.url.replace('http', 'ws')}/v1/state`);
  const [request, response] = await once(elsewhere, 'unexpected-response');
  request.destroy();
  t.equal(response.statusCode, 404);
});

t.test('a client that sends is closed, a server that stops says so', async (t) => {
  const api = await TestApi.start(t);
  const talker = new Follower(t, api, ['json']);
  await talker.next();
  talker.socket.send('x'.repeat(5000));
  t.equal(await talker.closed, 1009);
  const follower = new Follower(t, api, ['json']);
  await follower.next();
  await api.api.close();
  t.equal(await follower.closed, 1001);
});

t.test('whose token ends does not follow any longer', async (t) => {
  let valid = true;
  const authorise = () => (valid ? { name: 'vic', rights: 'view' as const } : null);
  const api = await TestApi.start(t, { authorise });
  const follower = new Follower(t, api, ['json', bearerSubprotocol('token')]);
  await follower.nextOf('view');
  valid = false;
  t.equal(await follower.closed, 1008);
});
