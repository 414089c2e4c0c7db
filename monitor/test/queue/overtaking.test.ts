// Who may pass whom in the queue: nobody is kept waiting for what a tenant's own sessions have, and
// nobody waits for ever because others fit before it.
import t, { type Test } from 'tap';
import {
  countPassed,
  inTheWay,
  passedMost,
  takeTurns,
  type WaitsFor,
} from '../../src/queue/overtaking.js';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';
import { tenantsFile } from '../support/tenants.js';

const MiB = 1n << 20n;

/** One GPU with four slots, and two tenants that come to it. */
async function shared(t: Test, args: string[] = []) {
  const { file, one, other } = tenantsFile(t);
  const usual = ['--servers-per-gpu', '4', '--new-process', 'never', '--tenants', file];
  const serving = await Serving.start(t, [...usual, ...args], { SOFTWARE_DEVICE_MEMORY: '1G' });
  const { memory } = await serving.logged({ msg: 'GPU' });
  const comes = (token: string) => (memory: bigint) =>
    Guest.hello(serving.address, { token, memory });
  return { serving, all: BigInt(Number(memory)), one: comes(one), other: comes(other) };
}

t.test('who waits for sessions of its own tenant holds nobody else back', async (t) => {
  const { all, one, other } = await shared(t);
  const most = all / 2n + 8n * MiB;
  const running = one(most);
  await running.welcome();
  const waiting = one(most);
  t.equal(await waiting.position(), 1);
  const behind = one(2n * MiB);
  t.equal(await behind.position(), 2, 'its own tenant is served in order');
  const passing = other(2n * MiB);
  await passing.welcome();
  await running.leave();
  await waiting.welcome();
  await behind.welcome();
  for (const guest of [waiting, behind, passing]) await guest.leave();
});

t.test('who could have it if others were gone is passed by nobody', async (t) => {
  const { all, one, other } = await shared(t);
  const running = other(all / 2n + 8n * MiB);
  await running.welcome();
  const own = one(2n * MiB);
  await own.welcome();
  const waiting = one(all / 2n);
  t.equal(await waiting.position(), 1);
  const behind = other(2n * MiB);
  t.equal(await behind.position(), 2);
  await running.leave();
  await waiting.welcome();
  await behind.welcome();
  for (const guest of [own, waiting, behind]) await guest.leave();
});

t.test('where one that fits may pass, so many do', async (t) => {
  const { all, one, other } = await shared(t, ['--queue-skip']);
  const running = other(all / 2n + 8n * MiB);
  await running.welcome();
  const waiting = one(all / 2n);
  t.equal(await waiting.position(), 1);
  for (let passed = 0; passed < passedMost; passed++) {
    const passing = other(2n * MiB);
    await passing.welcome();
    await passing.leave();
  }
  const behind = other(2n * MiB);
  t.equal(await behind.position(), 2);
  await running.leave();
  await waiting.welcome();
  await behind.welcome();
  for (const guest of [waiting, behind]) await guest.leave();
});

t.test('each gets its turn, as long as nobody is before it who waits for the same', async (t) => {
  const waiter = (tenant: string, waitsFor: WaitsFor = 'others') => ({
    request: { tenant },
    waitsFor,
    passed: 0,
  });
  const served = (all: ReturnType<typeof waiter>[], skip: boolean, one?: (typeof all)[0]) => {
    const turns: number[] = [];
    takeTurns(all, skip, (waiter) => {
      turns.push(all.indexOf(waiter));
      return waiter === one;
    });
    return turns;
  };
  const own = () => [waiter('a', 'own sessions'), waiter('a'), waiter('b'), waiter('c')];
  t.same(served(own(), false), [0, 2], 'b waits for others, and c with it');
  const all = own();
  served(all, false, all[2]);
  t.equal(all[1]?.waitsFor, 'own sessions', 'what its own tenant before it waits for');
  t.equal(inTheWay(all.slice(0, 2), 'b', false), undefined);
  t.equal(inTheWay(all.slice(0, 2), 'a', false), all[0]);
  t.same(
    served([waiter('a', 'own limit'), waiter('a', 'usable gpu'), waiter('a')], false),
    [0, 1, 2],
  );
  t.same(served([waiter('a'), waiter('b')], false), [0]);
  t.same(served([waiter('a', 'closing session'), waiter('b')], false), [0], 'for a moment');

  const skipped = [waiter('a'), waiter('a'), waiter('b')];
  t.same(served(skipped, true, skipped[2]), [0, 1, 2]);
  t.same(
    skipped.map(({ passed }) => passed),
    [1, 1, 0],
  );
  countPassed(skipped, 'b');
  t.same(
    skipped.map(({ passed }) => passed),
    [2, 2, 0],
    'who passes its own makes others wait no sooner',
  );
  const nobodys = [waiter('')];
  countPassed(nobodys, '');
  t.equal(nobodys[0]?.passed, 1, 'but where there are no tenants');
  const [first] = skipped;
  if (first) first.passed = passedMost;
  t.same(served(skipped, true), [0]);
});
