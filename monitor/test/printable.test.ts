// Names from outside in logs and pages.
import fc from 'fast-check';
import t from 'tap';
import { printable } from '../src/printable.js';

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
