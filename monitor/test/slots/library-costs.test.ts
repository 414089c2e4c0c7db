import t from 'tap';
import { LibraryCosts } from '../../src/slots/library-costs.js';

const program = (name: string, tenant = 'a') => ({ tenant, name });
const cost = (roundTrips: number, bytes = 0) => ({
  roundTrips: BigInt(roundTrips),
  bytes: BigInt(bytes),
});

t.test('the way that was not tried, then the one that costs less', async (t) => {
  const costs = new LibraryCosts();
  t.equal(costs.advise(program('f')), 'guest', 'of which nothing is known');
  costs.learn(program('f'), 'guest', cost(100));
  t.equal(costs.advise(program('f')), 'remote');
  costs.learn(program('f'), 'remote', cost(60));
  t.equal(costs.advise(program('f')), 'remote');
  for (const other of [program('g'), program('f', 'b')]) t.equal(costs.advise(other), 'guest');
  costs.learn(program('f'), 'guest', cost(50));
  t.equal(costs.advise(program('f')), 'guest', 'the last session of each way counts');
  costs.learn(program('r'), 'remote', cost(1));
  t.equal(costs.advise(program('r')), 'guest', 'which was not tried');
});

t.test('the server is not asked again for what it has refused', async (t) => {
  const costs = new LibraryCosts();
  costs.learn(program('f'), 'guest', cost(100));
  costs.learn(program('f'), 'remote', null);
  t.equal(costs.advise(program('f')), 'guest');
  costs.learn(program('f'), 'remote', cost(60));
  t.equal(costs.advise(program('f')), 'remote', 'a later session was not refused');
});

t.test('bytes count where round trips are alike', async (t) => {
  const costs = new LibraryCosts();
  costs.learn(program('f'), 'guest', cost(10, 30 << 20));
  costs.learn(program('f'), 'remote', cost(12, 1 << 10));
  t.equal(costs.advise(program('f')), 'remote', 'two round trips are less than 30 MiB');
  costs.learn(program('f'), 'guest', cost(10, 64 << 10));
  t.equal(costs.advise(program('f')), 'guest', 'and more than 64 KiB');
});

t.test('who calls no cuBLAS goes back to its own', async (t) => {
  const costs = new LibraryCosts();
  const ways: string[] = [];
  for (let i = 0; i < 5; i++) {
    ways.push(costs.advise(program('f')));
    costs.learn(program('f'), 'guest', cost(3));
  }
  t.same(ways, ['guest', 'remote', 'remote', 'guest', 'guest']);
});

t.test('so many of a tenant, those that ended last', async (t) => {
  const costs = new LibraryCosts();
  for (let i = 0; i <= 256; i++) costs.learn(program(`${i}`), 'guest', cost(1));
  t.equal(costs.advise(program('0')), 'guest', 'the oldest is forgotten');
  t.equal(costs.advise(program('1')), 'remote');
});
