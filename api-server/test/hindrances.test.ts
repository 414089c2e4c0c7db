// What keeps a session from being moved, as the executor counts it and as people are told.
import t from 'tap';
import { hindrances } from '../generated/hindrances.js';
import { hindrancesOf } from '../src/native.js';

t.test('each bit has its name', async (t) => {
  t.same(hindrancesOf(0n), []);
  t.same(hindrancesOf(0b1001n), ['arrays', 'graphs']);
  t.same(hindrancesOf((1n << BigInt(hindrances.length)) - 1n).length, hindrances.length);
  t.same(hindrancesOf(1n << 63n), [], 'one of a later release is passed over');
});
