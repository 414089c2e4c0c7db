// The simulated server: that its clock, its queue and its GPUs do what they say, that a few hours of
// the mixed day keep all invariants with every policy, and that invariants notice when one does not.
import t from 'tap';
import { placementPolicies } from '../../monitor/policies/index.js';
import type { PlacementPolicy } from '../../monitor/policies/placement.js';
import type { SessionRequest } from '../../monitor/policies/state.js';
import { Agenda } from '../../simulator/server/agenda.js';
import { shared } from '../../simulator/server/co-run.js';
import { checkEmpty, Invariants } from '../../simulator/server/invariants.js';
import { Random } from '../../simulator/server/random.js';
import {
  type Fault,
  type Job,
  Simulation,
  type SimulationOptions,
} from '../../simulator/server/simulation.js';
import { summary } from '../../simulator/server/statistics.js';
import { makeDay } from '../day/mix.js';

const GiB = 1n << 30n;
const worstFit = placementPolicies.get('worst-fit') as PlacementPolicy;

function job(
  arrives: number,
  given: Partial<Job> = {},
  request: Partial<SessionRequest> = {},
): Job {
  const usual = { tenant: '', name: 'f', class: 'latency-strict', gpus: 1, allowed: null } as const;
  return {
    arrives,
    request: { ...usual, memory: GiB, shareRequest: 0, shareLimit: 100, ...request },
    ...{ prepare: 0, work: 10, patience: null },
    ...given,
  };
}

function run(options: Partial<SimulationOptions>, jobs: Job[], faults: Fault[] = []) {
  const gpus = [{ memory: 4n * GiB, slots: 2 }];
  const after = new Invariants().check;
  const simulation = new Simulation({ gpus, policy: worstFit, after, ...options });
  for (const one of jobs) simulation.add(one);
  for (const fault of faults) simulation.break(fault);
  simulation.run();
  checkEmpty(simulation);
  const outcomes = simulation.outcomes.toSorted((one, other) => one.id - other.id);
  return { simulation, outcomes, ends: outcomes.map(({ at }) => at) };
}

t.test('what happens first comes first, and at one moment in the order of entry', async (t) => {
  const agenda = new Agenda<number>();
  const random = new Random(7);
  const times = Array.from({ length: 500 }, () => random.below(50));
  for (const [index, at] of times.entries()) agenda.enter(at, index);
  const sorted = [...times.keys()].sort((a, b) => (times[a] ?? 0) - (times[b] ?? 0) || a - b);
  t.same(
    sorted.map(() => agenda.next()?.what),
    sorted,
  );
  t.equal(agenda.next(), undefined);
});

t.test('a seed is a sequence; it has the means it should', async (t) => {
  const [one, other] = [new Random(3), new Random(3)];
  t.same(
    Array.from({ length: 20 }, () => one.uniform()),
    Array.from({ length: 20 }, () => other.uniform()),
  );
  const many = (draw: () => number) => Array.from({ length: 20_000 }, draw);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  t.ok(Math.abs(mean(many(() => one.uniform())) - 0.5) < 0.01);
  t.ok(Math.abs(mean(many(() => one.exponential(2))) - 2) < 0.06);
  const below = many(() => one.logNormal(5, 1)).filter((value) => value < 5).length;
  t.ok(Math.abs(below / 20_000 - 0.5) < 0.02, 'the median');
  t.same(one.shuffle([1, 2, 3, 4, 5]).sort(), [1, 2, 3, 4, 5]);
});

t.test('first come, first served, unless skipping is on', async (t) => {
  const large = { memory: 4n * GiB };
  const jobs = [job(0), job(1, {}, large), job(2)];
  t.same(run({}, jobs).ends, [10, 20, 30], 'the large one blocks the small one');
  t.same(run({ queueSkip: true }, jobs).ends, [10, 22, 12], 'the small one passes it');
});

t.test('waiting ends: by leaving, by a full queue, by being impossible', async (t) => {
  const gpus = [{ memory: 4n * GiB, slots: 1 }];
  const jobs = [job(0), job(1, { patience: 5 }), job(2), job(3), job(4, {}, { memory: 5n * GiB })];
  const { outcomes } = run({ gpus, queueMax: 2 }, jobs);
  t.same(
    outcomes.map(({ how }) => how),
    ['done', 'left', 'done', 'queue-full', 'memory'],
  );
  t.same(
    outcomes.map(({ at }) => at),
    [10, 6, 20, 3, 4],
  );
});

t.test('preparation goes on while one waits', async (t) => {
  const gpus = [{ memory: 4n * GiB, slots: 1 }];
  const jobs = [job(0, { prepare: 5 }), job(0, { prepare: 12 }), job(0, { prepare: 60 })];
  t.same(run({ gpus }, jobs).ends, [15, 25, 70]);
});

t.test('sessions share a GPU', async (t) => {
  const jobs = [job(0, {}, { name: 'a' }), job(4, {}, { name: 'b' })];
  t.same(run({ coRun: shared(1) }, jobs).ends, [16, 20]);
  // Both do 0.75 of what each does alone, from 4 to 12 seconds; then the second is alone.
  t.same(run({ coRun: shared(1.5) }, jobs).ends, [12, 16]);
  const alike = [job(0), job(4)];
  t.same(run({ coRun: shared(1.5) }, alike).ends, [16, 20], 'like ones gain nothing');
});

t.test('a slot that is lost: its session is, or waits again when it had not begun', async (t) => {
  const gpus = [{ memory: 4n * GiB, slots: 1 }];
  const options = { gpus, replace: 3, handOver: 1 };
  const jobs = [job(0), job(1)];
  const slot = { kind: 'slot', gpu: 0, slot: 0 } as const;
  const begun = run(options, jobs, [{ at: 5, ...slot }]);
  t.match(begun.outcomes, [
    { how: 'lost', at: 5 },
    { how: 'done', at: 19, waited: 7 },
  ]);
  const again = run(options, jobs, [{ at: 0.5, ...slot }]);
  t.match(again.outcomes, [
    { how: 'done', at: 14.5 },
    { how: 'done', at: 25.5 },
  ]);
  t.same(again.simulation.order, [1, 1, 2], 'it is before those who came after it');
  const handOvers = Array.from({ length: 3 }, () => ({ at: 0, kind: 'hand-over' }) as const);
  t.match(run(options, [job(1)], handOvers).outcomes, [{ how: 'slot-lost', at: 10 }]);
  const gpu = [{ at: 5, kind: 'gpu', gpu: 0, seconds: 100 } as const];
  t.match(run(options, jobs, gpu).outcomes, [{ how: 'lost' }, { how: 'done', at: 119 }]);
});

const day = makeDay({ hours: 4, gpus: 5, slots: 3, seed: 11 });

for (const policy of placementPolicies.values()) {
  for (const queueSkip of [false, true]) {
    const name = `${policy.name}${queueSkip ? ', skipping' : ''}: four hours of the day`;
    t.test(name, { timeout: 120_000 }, async (t) => {
      const options = { ...day.options, policy, queueSkip, handOver: 0.02, replace: 2 };
      const { simulation } = run(options, day.jobs, day.faults);
      const { arrived, done, lost, left, refused, wait, memory, slots } = summary(simulation);
      t.equal(arrived, day.jobs.length);
      const counts = [done, lost, left, ...Object.values(refused)];
      t.equal(
        counts.reduce((sum, count) => sum + count, 0),
        arrived,
        'everybody is accounted for',
      );
      t.ok(done > arrived / 3 && lost > 0 && left > 0, `${done} done, ${lost} lost, ${left} left`);
      t.ok((refused['memory'] ?? 0) > 0, 'one that no GPU has was refused');
      t.ok(
        Object.keys(refused).some((why) => why.startsWith('OB_TENANT_')),
        'a tenant had enough',
      );
      t.ok(wait.p50 <= wait.p90 && wait.p90 <= wait.p99 && wait.p99 <= wait.max && wait.max > 0);
      t.ok(memory > 0 && memory <= 1 && slots > 0 && slots <= 1);
      const again = run(options, day.jobs, day.faults);
      t.same(
        again.ends,
        simulation.outcomes.toSorted((a, b) => a.id - b.id).map(({ at }) => at),
      );
    });
  }
}

t.test('invariants notice policies that are wrong', async (t) => {
  const wrong = (place: PlacementPolicy['place']) => ({ policy: { ...worstFit, place } });
  const crowd = Array.from({ length: 6 }, (_, index) => job(index, {}, { memory: 3n * GiB }));
  const greedy = wrong(({ gpus }, { memory }) => {
    const slot = gpus[0]?.free.indexOf(true) ?? -1;
    return slot < 0 ? null : { gpu: 0, slot, memory: memory ?? 0n };
  });
  t.throws(() => run(greedy, crowd), /memory oversubscribed/);
  const lazy = wrong((state, request, parameters) =>
    state.now < 25 ? null : worstFit.place(state, request, parameters),
  );
  t.throws(() => run(lazy, crowd), /1 waits, and fits on GPU 0/);
  const shares = [job(0, {}, { shareRequest: 60 }), job(1, {}, { shareRequest: 60 })];
  t.throws(() => run(greedy, shares), /time oversubscribed/);
  const twice = wrong((_, { memory }) => ({ gpu: 0, slot: 0, memory: memory ?? 0n }));
  t.throws(() => run(twice, [job(0), job(1)]), /two sessions in one slot/);
});

t.test('the paper of DGSF, 7.5: two NLP and two ResNet on two GPUs', async (t) => {
  const function_ = (name: string, gib: bigint, prepare: number, work: number) =>
    job(0, { prepare, work }, { name, memory: gib * GiB });
  const nlp = function_('nlp', 5n, 14.2, 18.2);
  const resnet = function_('resnet', 7n, 13.6, 11.2);
  const last = (slots: number, policy: string, gain: number) => {
    const gpus = Array.from({ length: 2 }, () => ({ memory: 15n * GiB, slots }));
    const options = { gpus, coRun: shared(gain), policy: placementPolicies.get(policy) };
    const { ends } = run(options as SimulationOptions, [nlp, nlp, resnet, resnet]);
    return Math.max(...ends);
  };
  const close = (value: number, to: number) => t.ok(Math.abs(value - to) < 1e-9, `${value}, ${to}`);
  close(last(1, 'worst-fit', 1.2), 14.2 + 18.2 + 11.2);
  close(last(2, 'best-fit', 1.2), 14.2 + 2 * 18.2);
  close(last(2, 'worst-fit', 1), 14.2 + 2 * 10.6 + 7.6);
  close(last(2, 'worst-fit', 1.2), 14.2 + 10.6 / 0.6 + 7.6);
});
