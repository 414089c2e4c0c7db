// Migration policies: what each does, and what holds for all of them on any state.
import fc from 'fast-check';
import t from 'tap';
import { migrationPolicies } from '../../policies/index.js';
import { drain } from '../../policies/migration/drain.js';
import { imbalance } from '../../policies/migration/imbalance.js';
import {
  bestTarget,
  type MigrationGpu,
  type MigrationSession,
  type MigrationState,
  type Move,
  whyNot,
} from '../../policies/migration.js';

const GiB = 1n << 30n;

function session(id: number, given: Partial<MigrationSession> = {}): MigrationSession {
  const share = { shareRequest: 0, allowed: null };
  return {
    id,
    memory: GiB,
    used: GiB,
    ...share,
    hindrances: [],
    moves: 0,
    launched: true,
    ...given,
  };
}

function gpu(index: number, sessions: MigrationSession[], given: Partial<MigrationGpu> = {}) {
  const reserved = sessions.reduce((sum, { memory }) => sum + memory, 0n);
  const there = { index, name: 'test', healthy: true, leaving: false, busy: 50 };
  return { ...there, memory: 8n * GiB, reserved, free: [true], sessions, ...given };
}

/** What it proposes in each of so many periods of the same state. */
function run(gpus: MigrationGpu[], periods: number, policy = imbalance): (Move | null)[] {
  let memory = policy.begin();
  return Array.from({ length: periods }, (_, period) => {
    const step = policy.step({ now: period * policy.periodMs, gpus }, memory);
    memory = step.memory;
    return step.moves[0] ?? null;
  });
}

t.test('why a session cannot go', async (t) => {
  const one = session(1, { shareRequest: 60 });
  const from = gpu(0, [one]);
  t.equal(whyNot(one, from, gpu(1, [])), null);
  const no = (to: MigrationGpu, what: RegExp, who = one) => t.match(whyNot(who, from, to), what);
  no(gpu(0, []), /there already/);
  no(gpu(1, [], { healthy: false }), /takes no sessions/);
  no(gpu(1, [], { leaving: true }), /being emptied/);
  no(gpu(1, [], { name: 'other' }), /is other, and the session has seen test/);
  no(gpu(1, [], { free: [false, false] }), /no slot/);
  no(gpu(1, [], { memory: GiB - 1n }), /not so much memory/);
  no(gpu(1, [session(2, { shareRequest: 41 })]), /promised to others/);
  no(gpu(1, []), /tenant may not/, session(1, { allowed: [0, 2] }));
  no(gpu(1, []), /hindered: arrays, graphs/, session(1, { hindrances: ['arrays', 'graphs'] }));
});

t.test('nobody says where: to the fewest sessions, then the most memory', async (t) => {
  const one = session(1);
  const from = gpu(0, [one]);
  const target = (...others: MigrationGpu[]) => bestTarget(one, from, [from, ...others])?.index;
  t.equal(target(gpu(1, [session(2)]), gpu(2, [])), 2);
  t.equal(target(gpu(1, [], { memory: 4n * GiB }), gpu(2, [])), 2);
  t.equal(target(gpu(2, []), gpu(1, [])), 1);
  t.equal(target(gpu(1, [], { free: [] })), undefined);
});

t.test('a GPU that is emptied loses one session at a time, the smallest first', async (t) => {
  const large = session(1, { used: 2n * GiB });
  const small = session(2);
  const stuck = session(3, { used: 0n, hindrances: ['graphs'] });
  const leaving = gpu(0, [large, small, stuck], { leaving: true });
  const move = (...gpus: MigrationGpu[]) => drain.step({ now: 0, gpus }, null).moves;
  t.same(move(leaving, gpu(1, [])), [{ session: 2, to: 1 }]);
  t.same(move(gpu(0, [large, stuck], { leaving: true }), gpu(1, [small])), [{ session: 1, to: 1 }]);
  t.same(move(gpu(0, [stuck], { leaving: true }), gpu(1, [])), []);
  t.same(move(gpu(0, [large, small]), gpu(1, [])), [], 'nothing leaves one that is not emptied');
});

t.test('imbalance: the fifth sample decides, and 5 seconds of rest follow', async (t) => {
  const moves = run([gpu(0, [session(1), session(2)]), gpu(1, [])], 26);
  t.same(
    moves.flatMap((move, period) => (move ? [period] : [])),
    [4, 24],
  );
  t.same(moves[4], { session: 1, to: 1 });
});

t.test('imbalance: several on one GPU, and none on another', async (t) => {
  const two = () => gpu(0, [session(1), session(2)]);
  t.ok(run([two(), gpu(1, [])], 5)[4]);
  t.notOk(run([two(), gpu(1, [session(3)])], 5)[4], 'the other one is not idle');
  t.notOk(run([gpu(0, [session(1)]), gpu(1, [])], 5)[4], 'one alone stays');
});

t.test('imbalance: by the average of five samples, not by the last one', async (t) => {
  const state = (busy: number[]): MigrationGpu[] => [
    gpu(0, [session(1), session(2)], { busy: busy[0] ?? 0 }),
    gpu(1, [session(3), session(4)], { busy: busy[1] ?? 0 }),
    gpu(2, []),
  ];
  let memory = imbalance.begin();
  let moves: readonly Move[] = [];
  for (const busy of [
    [20, 90],
    [20, 90],
    [20, 90],
    [20, 90],
    [100, 10],
  ])
    ({ moves, memory } = imbalance.step({ now: 0, gpus: state(busy) }, memory));
  t.same(moves, [{ session: 3, to: 2 }]);
});

t.test('imbalance: who has launched, was not moved yet and takes the least memory', async (t) => {
  const who = (...sessions: MigrationSession[]) =>
    run([gpu(0, sessions), gpu(1, [])], 5)[4]?.session;
  t.equal(who(session(1), session(2, { used: 0n })), 2);
  t.equal(who(session(1), session(2, { used: 0n, launched: false })), 1);
  t.equal(who(session(1), session(2, { used: 0n, moves: 1 })), 1);
  t.equal(who(session(1), session(2, { used: 0n, hindrances: ['graphs'] })), 1);
  t.equal(who(session(1, { moves: 1 }), session(2, { launched: false })), undefined);
});

const states: fc.Arbitrary<MigrationState> = fc
  .array(
    fc.record({
      sessions: fc.array(
        fc.record({
          memory: fc.bigInt(0n, 9n).map((of) => of * GiB),
          used: fc.bigInt(0n, 9n).map((of) => of * GiB),
          shareRequest: fc.constantFrom(0, 40, 100),
          allowed: fc.option(fc.uniqueArray(fc.nat(4))),
          hindrances: fc.constantFrom([], [], [], [], ['graphs']),
          moves: fc.constantFrom(0, 0, 0, 1),
          launched: fc.constantFrom(true, true, true, false),
        }),
        { maxLength: 3 },
      ),
      name: fc.constantFrom('test', 'test', 'test', 'other'),
      healthy: fc.constantFrom(true, true, true, false),
      leaving: fc.boolean(),
      busy: fc.nat(100),
      free: fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }),
    }),
    { maxLength: 5 },
  )
  .map((gpus) => ({
    now: 0,
    gpus: gpus.map(({ sessions, ...given }, index) =>
      gpu(
        index,
        sessions.map((one, at) => session(10 * index + at, one)),
        given,
      ),
    ),
  }));

t.test('no policy proposes what cannot be, changes what it is given, or draws', async (t) => {
  t.same([...migrationPolicies.keys()], ['drain', 'imbalance']);
  for (const policy of migrationPolicies.values()) {
    let proposed = 0;
    fc.assert(
      fc.property(states, (state) => {
        const before = structuredClone(state);
        let memory = policy.begin();
        for (let period = 0; period < 6; period++) {
          const at = { ...state, now: period * policy.periodMs };
          const step = policy.step(at, memory);
          if (JSON.stringify(step.moves) !== JSON.stringify(policy.step(at, memory).moves))
            return false;
          memory = step.memory;
          for (const move of step.moves) {
            proposed++;
            const from = state.gpus.find(({ sessions }) =>
              sessions.some(({ id }) => id === move.session),
            );
            const who = from?.sessions.find(({ id }) => id === move.session);
            const to = state.gpus.find(({ index }) => index === move.to);
            if (!from || !who || !to || whyNot(who, from, to) !== null) return false;
          }
        }
        t.same(state, before);
        return true;
      }),
      { numRuns: 500 },
    );
    t.ok(proposed > 0, `${policy.name} proposes something`);
  }
});
