// Who may pass whom in the queue: nobody is kept waiting for what a tenant's own sessions have, and
// nobody waits for ever because others fit before it.
import t, { type Test } from 'tap';
import {
  countPassed,
  type Gpus,
  keptBy,
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

t.test('who waits for a GPU keeps others from that one only', async (t) => {
  const { file, one, other } = tenantsFile(t, '{ gpus: [0] }', '{}');
  const args = ['--gpus', '2', '--servers-per-gpu', '2', '--new-process', 'never'];
  const serving = await Serving.start(t, [...args, '--tenants', file], {
    SOFTWARE_DEVICE_MEMORY: '1G',
  });
  const { memory } = await serving.logged({ msg: 'GPU' });
  const comes = (token: string, memory: bigint) => Guest.hello(serving.address, { token, memory });
  const all = BigInt(Number(memory));
  // One of two, and where there is more room: on the other one, whichever that is.
  const first = comes(other, all - 4n * MiB);
  await first.welcome();
  const second = comes(other, all - 8n * MiB);
  await second.welcome();
  const waiting = comes(one, 16n * MiB);
  t.equal(await waiting.position(), 1);
  // GPU 0 is kept for it, GPU 1 is not.
  const asks = [2n, 2n].map((some) => comes(other, some * MiB));
  const [passing, behind] = asks;
  await passing?.welcome();
  t.equal(await behind?.position(), 2, 'on GPU 0 there would be room, too');
  for (const guest of [first, second]) await guest.leave();
  await waiting.welcome();
  await behind?.welcome();
  for (const guest of [waiting, ...asks]) await guest.leave();
});

t.test('each gets its turn, as long as nobody is before it who waits for the same', async (t) => {
  const waiter = (tenant: string, waitsFor: WaitsFor = 'others', allowed: Gpus = null) => ({
    request: { tenant, gpus: 1, allowed },
    waitsFor,
    passed: 0,
  });
  type One = ReturnType<typeof waiter>;
  /** Whose turn it was; where there are two GPUs, of which `one` gets the first that it may have. */
  const served = (all: One[], skip: boolean, one?: One, where?: Gpus[]) => {
    const turns: number[] = [];
    takeTurns(all, 2, skip, (waiter, gpus) => {
      turns.push(all.indexOf(waiter));
      where?.push(gpus);
      return waiter === one ? [gpus?.[0] ?? 0] : null;
    });
    return turns;
  };
  const left = (all: One[], tenant: string, gpus = 1, allowed: Gpus = null) =>
    keptBy(all, 2, false).leaves({ tenant, gpus, allowed });
  const passed = (all: One[]) => all.map(({ passed }) => passed);
  const own = () => [waiter('a', 'own sessions'), waiter('a'), waiter('b'), waiter('c')];
  t.same(served(own(), false), [0, 2], 'b waits for others, and c with it');
  const all = own();
  served(all, false, all[2]);
  t.equal(all[1]?.waitsFor, 'own sessions', 'what its own tenant before it waits for');
  t.same(left(all.slice(0, 2), 'b'), { gpus: null });
  t.equal(left(all.slice(0, 2), 'a'), 'own sessions');
  t.same(
    served([waiter('a', 'own limit'), waiter('a', 'usable gpu'), waiter('a')], false),
    [0, 1, 2],
  );
  t.same(served([waiter('a'), waiter('b')], false), [0]);
  t.same(served([waiter('a', 'closing session'), waiter('b')], false), [0], 'for a moment');

  const skipped = [waiter('a'), waiter('a'), waiter('b')];
  t.same(served(skipped, true, skipped[2]), [0, 1, 2]);
  t.same(passed(skipped), [1, 1, 0]);
  countPassed(skipped, 'b', [0]);
  t.same(passed(skipped), [2, 2, 0], 'who passes its own makes others wait no sooner');
  const nobodys = [waiter('')];
  countPassed(nobodys, '', [0]);
  t.equal(nobodys[0]?.passed, 1, 'but where there are no tenants');
  const [first] = skipped;
  if (first) first.passed = passedMost;
  t.same(served(skipped, true), [0]);

  const kinds = [waiter('a', 'others', [0]), waiter('b'), waiter('a', 'others', [1]), waiter('c')];
  const where: Gpus[] = [];
  t.same(served(kinds, false, kinds[1], where), [0, 1, 2], 'of two, none is left for the last');
  t.same(where, [[0], [1], [1]]);
  t.same(passed(kinds), [0, 0, 0, 0], 'nobody is passed on a GPU that it may not use');
  t.same(left(kinds.slice(0, 1), 'b'), { gpus: [1] });
  t.equal(left(kinds.slice(0, 1), 'b', 2), 'others', 'who wants both needs the one that is kept');
  t.equal(left(kinds.slice(0, 1), 'b', 1, [0]), 'others');
  const limited = { ...waiter('a', 'others', [0]) };
  limited.request = { ...limited.request, tenantSessions: 2 } as One['request'];
  t.equal(left([limited], 'a'), 'others', 'its own tenant would take of its limit');
  t.same(left([limited], 'b'), { gpus: [1] });
});
