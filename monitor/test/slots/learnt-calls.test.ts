import t from 'tap';
import { LearntCalls } from '../../src/slots/learnt-calls.js';

const program = (name: string, tenant = 'a', ordinal = 0) => ({ tenant, name, ordinal });
const bytes = (...all: number[]) => Uint8Array.from(all);

t.test('what a session has learnt is the next one’s of its function, tenant and GPU', async (t) => {
  const learnt = new LearntCalls();
  t.equal(learnt.of(program('f')).length, 0);
  const message = bytes(1, 2, 3);
  learnt.learn(program('f'), message.subarray(1));
  message.fill(9);
  t.same(learnt.of(program('f')), bytes(2, 3), 'and is its own copy');
  for (const other of [program('g'), program('f', 'b'), program('f', 'a', 1)])
    t.equal(learnt.of(other).length, 0);
  learnt.learn(program('f'), bytes());
  t.same(learnt.of(program('f')), bytes(2, 3), 'one that called no library says nothing of it');
  learnt.learn(program('f'), bytes(4));
  t.same(learnt.of(program('f')), bytes(4));
});

t.test('so many of a tenant, those that ended last', async (t) => {
  const learnt = new LearntCalls();
  learnt.learn(program('f', 'b'), bytes(1));
  for (let i = 0; i < 256; i++) learnt.learn(program(`${i}`), bytes(1));
  learnt.learn(program('0'), bytes(2));
  learnt.learn(program('one more'), bytes(3));
  t.same(learnt.of(program('0')), bytes(2));
  t.equal(learnt.of(program('1')).length, 0, 'the oldest is forgotten');
  t.same(learnt.of(program('2')), bytes(1));
  t.same(learnt.of(program('f', 'b')), bytes(1), 'and none of another tenant');
});
