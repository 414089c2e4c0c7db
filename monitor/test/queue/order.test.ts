// In which order those who wait have their turns: what holds for all policies on any queue, what strict-first promises,
// what becomes of a policy that fails, and real sessions that wait on a real server.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { queuePolicies } from '../../policies/index.js';
import { firstCome } from '../../policies/queue/first-come.js';
import { strictFirst } from '../../policies/queue/strict-first.js';
import { overtakenMost, type QueuePolicy, type WaitingState } from '../../policies/queue.js';
import type { SessionClass } from '../../policies/state.js';
import { orderedBy } from '../../src/queue/guarded-order.js';
import { countOvertaken } from '../../src/queue/overtaking.js';
import { Queue } from '../../src/queue/queue.js';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';
import { tenantsFile } from '../support/tenants.js';

const classes = fc.constantFrom<SessionClass>('latency-strict', 'best-effort');

function waiting(id: number, its: SessionClass, overtaken = 0): WaitingState {
  const request = {
    ...{ tenant: 'a', name: 'f', class: its, gpus: 1, memory: null, allowed: null },
    ...{ shareRequest: 0, shareLimit: 100 },
  };
  return { id, request, arrived: id, overtaken };
}

const queues = fc
  .array(fc.tuple(classes, fc.integer({ min: 0, max: 2 * overtakenMost })), { maxLength: 30 })
  .map((all) => all.map(([its, overtaken], index) => waiting(index + 1, its, overtaken)));

/** One in a queue of the test's own. */
class One {
  overtaken = 0;
  constructor(
    readonly id: number,
    readonly request: WaitingState['request'],
  ) {}
  get state(): WaitingState {
    return { id: this.id, request: this.request, arrived: this.id, overtaken: this.overtaken };
  }
}

const never = () => t.fail('no policy fails');
const ids = (all: readonly { id: number }[]) => all.map(({ id }) => id);

for (const policy of queuePolicies.values()) {
  t.test(`${policy.name}: everybody once, the same each time, each class in order`, async (t) => {
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(queues, (queue) => {
          const frozen = Object.freeze([...queue]);
          const turns = policy.order(frozen);
          if (String(ids(policy.order(frozen))) !== String(ids(turns))) return false;
          if (String(ids(turns).sort((a, b) => a - b)) !== String(ids(queue))) return false;
          // Of two alike, who came first is first.
          return turns.every((one, at) =>
            turns
              .slice(at + 1)
              .every(
                (later) =>
                  later.id > one.id ||
                  later.request.class !== one.request.class ||
                  one.overtaken >= overtakenMost,
              ),
          );
        }),
        { numRuns: 500 },
      ),
    );
  });

  t.test(`${policy.name}: whoever comes and goes, nobody is overtaken for ever`, async (t) => {
    const steps = fc.array(fc.oneof(classes, fc.constantFrom('serve' as const)), {
      ...{ minLength: 300, maxLength: 1500 },
    });
    t.doesNotThrow(() =>
      fc.assert(
        fc.property(steps, (steps) => {
          const queue = new Queue<One, { state: WaitingState }>(() => {}, orderedBy(policy, never));
          let came = 0;
          for (const step of steps) {
            if (step !== 'serve') {
              came++;
              queue.append(new One(came, waiting(came, step).request));
              continue;
            }
            queue.arrange();
            const { head } = queue;
            if (!head) continue;
            queue.remove(head);
            countOvertaken(queue.arrived, head, [0]);
            for (const one of queue) if (one.overtaken > overtakenMost) return false;
          }
          return true;
        }),
        { numRuns: 100 },
      ),
    );
  });
}

t.test(
  'strict-first: strict ones pass, and one that was passed so often is passed by nobody',
  async (t) => {
    const order = (...all: WaitingState[]) => ids(strictFirst.order(all));
    const [a, b] = ['best-effort', 'latency-strict'] as const;
    t.same(order(waiting(1, a), waiting(2, b), waiting(3, a), waiting(4, b)), [2, 4, 1, 3]);
    t.same(order(waiting(1, a, overtakenMost - 1), waiting(2, b)), [2, 1]);
    t.same(order(waiting(1, a, overtakenMost), waiting(2, b)), [1, 2]);
    t.same(order(waiting(1, a), waiting(2, b), waiting(3, a, overtakenMost)), [2, 3, 1]);
  },
);

t.test('who is served later on other GPUs overtakes nobody', async (t) => {
  const request = { tenant: 'a', gpus: 1 };
  const one = { id: 1, overtaken: 0, request: { ...request, allowed: [0] } };
  const other = { id: 2, overtaken: 0, request: { ...request, allowed: null } };
  const by = (id: number, tenant = 'b') => ({ id, request: { tenant } });
  countOvertaken([one, other], by(3), [1]);
  countOvertaken([one, other], by(2), [0]);
  t.same([one.overtaken, other.overtaken], [1, 1]);
  countOvertaken([one, other], by(4, 'a'), [0, 1]);
  t.same([one.overtaken, other.overtaken], [1, 1], 'nor does one of the same tenant');
});

t.test('a policy that fails at an order: they have their turns as they came', async (t) => {
  const all = [1, 2, 3].map((id) => new One(id, waiting(id, 'best-effort').request));
  const wrong: Record<string, [QueuePolicy['order'], RegExp]> = {
    throws: [
      () => {
        throw new Error('no such class');
      },
      /no such class/,
    ],
    'leaves one out': [(queue) => queue.slice(1), /leaves out 1 who wait/],
    'has one twice': [(queue) => [...queue, ...queue.slice(0, 1)], /twice, or who does not wait/],
    'makes one up': [(queue) => queue.map((one) => ({ ...one })), /twice, or who does not wait/],
    'takes too long': [
      (queue) => {
        const begun = process.cpuUsage();
        for (let used = 0; used < 60_000; ) {
          const { user, system } = process.cpuUsage(begun);
          used = user + system;
        }
        return queue.toReversed();
      },
      /a decision took \d+ ms/,
    ],
  };
  for (const [name, [order, words]] of Object.entries(wrong)) {
    const told: string[][] = [];
    const ordered = orderedBy({ name: 'own', summary: '', order }, (...what) => told.push(what));
    t.same(ids(ordered(all)), [1, 2, 3], name);
    t.match(told, [['own', name === 'takes too long' ? 'slow' : 'threw', words]], name);
  }
  const reversed = orderedBy({ name: 'own', summary: '', order: (all) => all.toReversed() }, never);
  t.same(ids(reversed(all)), [3, 2, 1], 'one that works decides');
});

t.test('a queue with an order: positions, who comes, who goes, who is put back', async (t) => {
  const told: [number, number][] = [];
  const tell = ({ id }: One, position: number) => told.push([id, position]);
  const queue = new Queue<One, { state: WaitingState }>(tell, orderedBy(strictFirst, never));
  const one = (id: number, its: SessionClass) => new One(id, waiting(id, its).request);
  const [first, second, third] = [
    ...[one(1, 'best-effort'), one(2, 'best-effort'), one(3, 'latency-strict')],
  ] as [One, One, One];
  t.equal(queue.append(first), 0);
  t.equal(queue.append(second), 0);
  t.same(ids(queue.before({ state: waiting(9, 'latency-strict') })), []);
  t.same(ids(queue.before({ state: waiting(9, 'best-effort') })), [1, 2]);
  t.equal(queue.append(third), 2, 'two have their turns after it');
  t.same(told.splice(0), [
    [1, 1],
    [2, 2],
    [3, 1],
  ]);
  t.same(ids([...queue]), [3, 1, 2]);
  t.equal(queue.arrange(), false, 'nothing has changed');
  first.overtaken = second.overtaken = overtakenMost;
  t.equal(queue.arrange(), true);
  t.same(ids([...queue]), [1, 2, 3]);
  t.ok(queue.remove(first));
  queue.putBack(first, ({ id }) => id > 1);
  t.same(ids([...queue]), [1, 2, 3]);
  t.same(ids(queue.takeAll()), [1, 2, 3]);
  t.same([...queue], []);
  const asTheyCome = new Queue<One, { state: WaitingState }>(tell, orderedBy(firstCome, never));
  asTheyCome.append(first);
  t.same(ids(asTheyCome.before({ state: waiting(9, 'latency-strict') })), [1]);
});

/** One slot, a session that has it, and two tenants: `strict`, and `rest`, whose sessions are best-effort. */
async function busy(t: Test, args: string[]) {
  const { file, one, other } = tenantsFile(t, '{}', '{}\n    class: best-effort');
  const usual = ['--servers-per-gpu', '1', '--new-process', 'never', '--tenants', file];
  const serving = await Serving.start(t, [...usual, ...args]);
  const strict = () => Guest.hello(serving.address, { token: one });
  const rest = () => Guest.hello(serving.address, { token: other });
  const running = strict();
  await running.welcome();
  return { serving, strict, rest, running };
}

t.test(
  'strict-first, on a real server: strict sessions are served first, each class in order',
  async (t) => {
    const { serving, strict, rest, running } = await busy(t, ['--queue-policy', 'strict-first']);
    const second = rest();
    t.equal(await second.position(), 1);
    const third = rest();
    t.equal(await third.position(), 2);
    const fourth = strict();
    t.equal(await fourth.position(), 1);
    t.equal(await second.position(), 2, 'those behind are told');
    t.equal(await third.position(), 3);
    const fifth = strict();
    t.equal(await fifth.position(), 2);
    const { queue, server } = await serving.state();
    t.same(ids(queue), [4, 5, 2, 3]);
    t.equal(server.queuePolicy, 'strict-first');
    for (const [ends, begins] of [
      [running, fourth],
      [fourth, fifth],
      [fifth, second],
      [second, third],
    ] as const) {
      await ends.leave();
      await begins.welcome();
    }
    await serving.logged({ msg: 'session begins', session: 3 });
    const begun = serving.lines.filter(({ msg }) => msg === 'session begins');
    t.same(
      begun.map(({ session }) => session),
      [1, 4, 5, 2, 3],
    );
    await third.leave();
  },
);

t.test('strict-first, on a real server: 100 pass, and no more', async (t) => {
  const { strict, rest, running } = await busy(t, ['--queue-policy', 'strict-first']);
  const waits = rest();
  t.equal(await waits.position(), 1);
  let ends = running;
  for (let passed = 0; passed < overtakenMost; passed++) {
    const passes = strict();
    t.equal(await passes.position(), 1);
    await ends.leave();
    await passes.welcome();
    ends = passes;
  }
  const late = strict();
  t.equal(await late.position(), 2);
  await ends.leave();
  await waits.welcome();
  await waits.leave();
  await late.welcome();
  await late.leave();
});

t.test('without it, they are served as they come', async (t) => {
  const { strict, rest, running } = await busy(t, []);
  const second = rest();
  t.equal(await second.position(), 1);
  const third = strict();
  t.equal(await third.position(), 2);
  await running.leave();
  await second.welcome();
  await second.leave();
  await third.welcome();
  await third.leave();
});
