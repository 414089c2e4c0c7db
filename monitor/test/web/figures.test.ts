// What the page computes, without a browser.
import t from 'tap';
import type { LiveMessage as Sent } from '../../src/api/live.js';
import type { View } from '../../src/base/view.js';
import * as format from '../../web/src/format.js';
import { Buckets, Recent, summary } from '../../web/src/history.js';
import { factsOf, sentenceOf } from '../../web/src/log-text.js';
import type { LiveMessage as Understood } from '../../web/src/messages.js';
import { Model } from '../../web/src/model.js';
import { gpu, MemoryOperations, session } from '../support/operations.js';
import { fill, fiveMinutes } from './support/scene.js';

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
// Does not compile when server and page differ on what goes over the WebSocket.
true satisfies Same<Sent, Understood>;

t.test('bytes have at most three digits and the unit that fits', async (t) => {
  const cases: [number, string][] = [
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1 KiB'],
    [1536, '1.5 KiB'],
    [1023.9 * 2 ** 20, '1 GiB'],
    [24 * 2 ** 30, '24 GiB'],
    [141.2 * 2 ** 30, '141 GiB'],
    [3 * 2 ** 50, '3072 TiB'],
  ];
  for (const [count, text] of cases) t.equal(format.bytes(count), text);
});

t.test('a part is told in the unit of its whole, and never rounded away', async (t) => {
  t.equal(format.bytesOf(1.5 * 2 ** 30, 24 * 2 ** 30), '1.5 of 24 GiB');
  t.equal(format.bytesOf(1, 24 * 2 ** 30), '<0.1 of 24 GiB');
  t.equal(format.bytesOf(0, 24 * 2 ** 30), '0 of 24 GiB');
  t.equal(format.bytesOf(0, 0), '0 of 0 B');
});

t.test('durations, waits, percent, names', async (t) => {
  t.equal(format.duration(59.9), '59 s');
  t.equal(format.duration(60), '1 min');
  t.equal(format.duration(200), '3 min 20 s');
  t.equal(format.duration(86400 * 2 + 3600 * 4 + 59), '2 d 4 h');
  t.equal(format.duration(-1), '0 s', 'clocks may differ');
  t.equal(format.wait(0.0123), '12 ms');
  t.equal(format.wait(2.34), '2.3 s');
  t.equal(format.percent(0.2), '<1 %');
  t.equal(format.percent(0), '0 %');
  t.equal(format.plural(1, 'session'), '1 session');
  t.equal(format.plural(1000, 'session'), '1,000 sessions');
  t.equal(format.words('memoryMappedPeak'), 'memory mapped peak');
});

t.test('buckets: averages, gaps, and the oldest go', async (t) => {
  const buckets = new Buckets(1, 5, 3);
  buckets.add(100, [10]);
  buckets.add(104, [20]);
  buckets.add(111, [30]);
  t.same(buckets.columns(), [
    [102.5, 107.5, 112.5],
    [15, null, 30],
  ]);
  buckets.add(116, [1]);
  t.same(buckets.columns()[1], [null, 30, 1]);
  buckets.add(101, [7]);
  t.same(buckets.columns()[1], [null, null, 7], 'a clock set back');
});

t.test('a line: what is too old goes, a gap stays one, nothing twice', async (t) => {
  const line = new Recent(1, 10);
  line.add(100, [1]);
  line.add(101, [2]);
  line.add(101, [2]);
  line.add(107, [3]);
  t.same(line.columns(), [
    [100, 101, 101.001, 107],
    [1, 2, null, 3],
  ]);
  line.add(112, [4]);
  t.same(line.columns()[0], [107, 107.001, 112]);
  line.add(50, [5]);
  t.same(line.columns(), [[50], [5]], 'a clock set back');
});

t.test('a picture in words', async (t) => {
  const words = summary([null, 10, 30], format.percent);
  t.equal(words, 'now 30 %, on average 20 %, at most 30 %');
  t.equal(summary([null], format.percent), 'nothing known yet');
});

t.test('the model begins with what the server remembers and goes on from there', async (t) => {
  const operations = new MemoryOperations();
  fill(operations, {});
  const model = new Model();
  const view = operations.view();
  model.remember(fiveMinutes(operations, Date.parse(view.server.now)));
  model.take(view, view.queue.length);
  const [times, ...rows] = model.gpuHistory(view.gpus[0] as View['gpus'][0]).columns();
  t.equal(times.length, 60);
  t.equal(rows.length, 4);
  t.ok(rows.every((row) => row.filter((value) => value !== null).length >= 59));
  const [first] = view.sessions;
  t.equal(
    model
      .sessionHistory({ id: first?.id ?? 0 })
      .columns()[1]
      ?.at(-1),
    first?.share.received,
  );
});

t.test('another process: sessions begin anew, and who is gone is forgotten', async (t) => {
  const operations = new MemoryOperations();
  const model = new Model();
  t.equal(model.take(operations.view(), 1), false);
  t.equal(model.queued, 1);
  const view = operations.view();
  view.server.started = '2026-02-02T00:00:00.000Z';
  view.server.now = new Date(Date.parse(view.server.now) + 5000).toISOString();
  t.equal(model.take(view, 0), true, 'says so');
  t.equal(model.sessionHistory({ id: 1 }).columns()[0].length, 1);
  t.equal(model.take({ ...view, sessions: [] }, 0), false);
  t.equal(model.sessionHistory({ id: 1 }).columns()[0].length, 0);
});

t.test('what others of the same GPU are promised', async (t) => {
  const operations = new MemoryOperations();
  operations.gpus = [gpu(0), gpu(1)];
  operations.sessions = [session(1), session(2), session(3, { gpu: 1 })];
  const model = new Model();
  model.take(operations.view(), 0);
  t.equal(model.promisedToOthers(session(1)), 30);
});

t.test('lines of the log are sentences, and facts in words', async (t) => {
  const line = (msg: string, fields = {}) => ({ time: 0, level: 'info', msg, ...fields });
  t.equal(sentenceOf(line('listening')), 'Listening.');
  t.equal(sentenceOf(line('session ends: closed.')), 'Session ends: closed.');
  const refused = { code: 'OB_SHARE', remedy: 'Ask for less.', why: 'nothing is left' };
  t.equal(
    sentenceOf(line('refused', refused)),
    'Refused: nothing is left (OB_SHARE). Ask for less.',
  );
  t.equal(factsOf(line('x', refused)), '');
  t.equal(factsOf(line('x')), '');
  const fields = {
    session: 1234567,
    slotPid: 1000,
    memory: 3 * 2 ** 30,
    roundTrips: 12345,
    waitedSeconds: 1.23456,
    share: { request: 20, limit: 60 },
    http: ['127.0.0.1:4461', 'unix:/run/api.sock'],
    operators: false,
    measured: true,
    traits: null,
    gpus: [],
  };
  const text = factsOf(line('x', fields));
  t.equal(
    text,
    'session 1234567, slot pid 1000, memory 3 GiB, round trips 12,345, waited seconds 1.235 s, ' +
      'share (request 20, limit 60), http 127.0.0.1:4461 and unix:/run/api.sock, not operators, ' +
      'measured, traits –, gpus none',
  );
  t.notMatch(text, /[{}"=[\]]/, 'no JSON');
});
