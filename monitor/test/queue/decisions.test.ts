// What is remembered of decisions: in order, the same one once, and no more than so much.
import fc from 'fast-check';
import t from 'tap';
import { Decisions, RecentlyGone } from '../../src/queue/decisions.js';

const request = { tenant: 'acme', name: 'resize' };

t.test('the same one again is counted', async (t) => {
  const decisions = new Decisions();
  decisions.add('queue', 'it waits');
  decisions.add('queue', 'it waits');
  decisions.add('quota', 'it waits');
  decisions.add('queue', 'it waits');
  const { decisions: all, leftOut } = decisions.view();
  t.match(all, [
    { kind: 'queue', text: 'it waits', times: 2 },
    { kind: 'quota', times: 1 },
    { kind: 'queue', times: 1 },
  ]);
  t.equal(leftOut, 0);
});

t.test('the first 8 and the last 24 are kept, and the others are counted', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 200 }), (drawn) => {
      const decisions = new Decisions();
      const texts: string[] = [];
      for (const one of drawn) {
        decisions.add('queue', String(one));
        if (texts.at(-1) !== String(one)) texts.push(String(one));
      }
      const { decisions: kept, leftOut } = decisions.view();
      const wanted = texts.length <= 32 ? texts : [...texts.slice(0, 8), ...texts.slice(-24)];
      t.same(
        kept.map(({ text }) => text),
        wanted,
      );
      const times = kept.reduce((sum, one) => sum + one.times, 0);
      return leftOut === texts.length - wanted.length && (leftOut > 0 || times === drawn.length);
    }),
  );
});

t.test('what a guest or a policy has said is cut', async (t) => {
  const decisions = new Decisions();
  decisions.add('policy', 'x'.repeat(100_000));
  t.equal(decisions.view().decisions[0]?.text.length, 1000);
});

t.test('the last 256 that have gone are remembered, and nothing of them but this', async (t) => {
  const gone = new RecentlyGone();
  for (let id = 1; id <= 300; id++) {
    const connection = { id, request, decisions: new Decisions(), client: 'large' };
    gone.add(connection, 'closed');
  }
  t.equal(gone.of(44), undefined);
  t.match(gone.of(45), { id: 45, request });
  t.notOk('client' in (gone.of(45) ?? {}));
  gone.add({ id: 300, request, decisions: new Decisions() }, 'again');
  t.match(gone.of(300)?.decisions.view().decisions, [{ kind: 'end', text: 'again' }]);
  t.ok(gone.of(45), 'one that goes twice takes nobody else out');
});
