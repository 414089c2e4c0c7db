// Names from outside in logs and pages.
import fc from 'fast-check';
import { pino } from 'pino';
import t from 'tap';
import { printable } from '../../src/base/printable.js';
import { relay } from '../../src/slots/slot-log.js';

t.test('what can be seen stays', async (t) => {
  for (const text of ['', 'python3', 'naïve café', '日本語', 'a "b" \\c', '👍']) {
    t.equal(printable(text), text);
  }
});

t.test('what cannot be seen shows its number', async (t) => {
  t.equal(printable('a\nb\r\t\0'), 'a\\u{a}b\\u{d}\\u{9}\\u{0}');
  t.equal(printable('\u001b[31m'), '\\u{1b}[31m');
  t.equal(printable('\u0085\u2028\u2029'), '\\u{85}\\u{2028}\\u{2029}');
  t.equal(printable('\u202eabc\u2066\u200b\ufeff'), '\\u{202e}abc\\u{2066}\\u{200b}\\u{feff}');
  t.equal(printable('\ud800x'), '\\u{d800}x');
  t.equal(printable('\u{e0041}'), '\\u{e0041}');
});

t.test('it ends', async (t) => {
  t.equal(printable('abcdef', 4), 'abc…');
  t.equal(printable('abcd', 4), 'abcd');
  t.equal([...printable('👍'.repeat(100), 10)].length, 10);
});

t.test('whatever comes in: one line, and no longer than allowed', async (t) => {
  const text = fc.string({ unit: 'binary', maxLength: 400 });
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 300 }), (text, most) => {
      const shown = printable(text, most);
      t.notOk(/[\p{C}\p{Zl}\p{Zp}]/u.test(shown));
      t.ok([...shown].length <= most);
    }),
    { numRuns: 500 },
  );
});

t.test('a line of a slot says nothing in the name of the monitor', async (t) => {
  const lines: string[] = [];
  const log = pino({ base: null, level: 'debug' }, { write: (line) => void lines.push(line) });
  const slot = log.child({ slot: '0.1', slotPid: 5 });
  const said = (line: string) => {
    lines.length = 0;
    relay(line, slot);
    return JSON.parse(lines.join(''));
  };
  const forged = { level: 40, time: 1, msg: 'x', slot: '7.8', slotPid: 9, tenant: 'b', code: 'OB' };
  const line = said(JSON.stringify(forged));
  t.same(Object.keys(line).sort(), ['level', 'msg', 'said', 'slot', 'slotPid', 'time']);
  t.match(line, { level: 40, msg: 'x', slot: '0.1', slotPid: 5, said: /"tenant":"b"/ });
  t.not(line.time, 1);
  t.match(said('{"level":30,"msg":"x","\u202e":["\u009b2J"]}').said, '{"\\u{202e}":["\\u{9b}2J"]}');
  t.match(said('{"level":"toString","msg":"x","__proto__":{"level":7}}'), { level: 40, msg: 'x' });
  const control = { level: 30, msg: 'a\u001b[2J\nb' };
  t.match(said(JSON.stringify(control)), { level: 20, msg: 'a\\u{1b}[2J\\u{a}b' });
  t.match(said('{"level":30,"msg":{"gpu":7}}'), { level: 40, msg: /^\{"level":30/, slot: '0.1' });
  t.match(said('driver: \u001b]0;title\u0007'), {
    level: 40,
    msg: 'driver: \\u{1b}]0;title\\u{7}',
  });
  t.match(said('null'), { level: 40, msg: 'null' });
  t.ok(said('x'.repeat(10_000)).msg.length <= 4000);
});
