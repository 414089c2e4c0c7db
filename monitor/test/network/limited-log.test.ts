// Lines that strangers cause: some are written, the others counted.
import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { LimitedLog } from '../../src/network/limited-log.js';
import { authority, serverFiles } from '../support/certificates.js';
import { startFront } from '../support/front.js';
import { Serving } from '../support/serving.js';

/** Its time passes when `pass` is called. */
function limitedLog(most = { all: 5, ofAddress: 2 }) {
  const lines: { level: string; fields: object; text: string }[] = [];
  const to = (level: string) => (fields: object, text: string) => {
    lines.push({ level, fields, text });
  };
  const waiting: (() => void)[] = [];
  const later = (_: number, act: () => void) => void waiting.push(act);
  const log = new LimitedLog({ info: to('info'), warn: to('warn') }, most, later);
  const pass = () => {
    for (const act of waiting.splice(0)) act();
  };
  return { log, lines, waiting, pass };
}

t.test('so many of an address and of all, and one line about the others', async (t) => {
  const { log, lines, waiting, pass } = limitedLog();
  const refuse = (address: string) => log.write('warn', address, { code: 'OB_X' }, 'refused');
  for (let i = 0; i < 1000; i++) refuse('192.0.2.1');
  t.equal(lines.length, 2);
  for (const address of ['2001:db8::1', '2001:db8::2', '2001:db8::3']) refuse(address);
  t.equal(lines.length, 4, 'addresses of one machine');
  for (let i = 0; i < 1000; i++) refuse(`198.51.100.${i % 250}`);
  t.equal(lines.length, 5, 'of all');
  log.write('info', '192.0.2.1', {}, 'left the queue');
  t.equal(waiting.length, 1);
  pass();
  t.same(lines.slice(5), [
    {
      level: 'warn',
      fields: { which: { OB_X: 998 + 1 + 999, 'left the queue': 1 } },
      text: '1999 more connections were refused or left meanwhile',
    },
  ]);
  t.equal(waiting.length, 0, 'nothing is awaited when nobody comes');

  log.write('info', '192.0.2.1', {}, 'left the queue');
  t.match(lines[6], { level: 'info', fields: {}, text: 'left the queue' }, 'all is forgiven');
  pass();
  t.equal(lines.length, 7, 'none was left out');
});

t.test('none goes uncounted', async (t) => {
  const one = fc.record({ address: fc.nat(9), passes: fc.boolean() });
  fc.assert(
    fc.property(fc.array(one), (all) => {
      const { log, lines, pass } = limitedLog();
      for (const { address, passes } of all) {
        log.write('warn', String(address), { code: 'OB_X' }, 'refused');
        if (passes) pass();
      }
      log.tell();
      const told = lines.map(({ text }) => Number.parseInt(text, 10) || 1);
      t.equal(
        told.reduce((sum, count) => sum + count, 0),
        all.length,
      );
    }),
  );
});

const connections = 300;

/** One after another: each is refused. */
async function strangers(t: Test, port: number) {
  for (let i = 0; i < connections; i++) {
    const socket = connect(port, '127.0.0.1', () => socket.end('no Hello\n\u001b[2J'));
    t.teardown(() => socket.destroy());
    socket.on('error', () => {}).resume();
    await once(socket, 'close');
  }
}

t.test('who is no guest of the server', async (t) => {
  const serving = await Serving.start(t);
  await strangers(t, serving.address.port);
  const closed = once(serving.child, 'close');
  await serving.stop();
  await closed;
  const refused = serving.lines.filter(({ code }) => code === 'OB_NOT_OUTBOARD').length;
  const left = serving.lines.map(({ which }) => Object(which).OB_NOT_OUTBOARD ?? 0);
  const counted = left.reduce((sum, one) => sum + one, 0);
  t.ok(refused < connections / 2, `${refused} lines`);
  t.equal(refused + counted, connections, 'what was left out is told of before the end');
});

t.test('who speaks no TLS', async (t) => {
  const files = serverFiles(authority(t.testdir(), 'ours'), null);
  const { front, log, address } = await startFront(t, { files }, (socket) => socket.destroy());
  await strangers(t, address.port);
  await front.close();
  const told = log.lines.filter(({ msg }) => /no TLS connection/.test(msg)).length;
  t.ok(told < connections / 2, `${told} lines`);
  await log.line(/more connections were refused/);
});
