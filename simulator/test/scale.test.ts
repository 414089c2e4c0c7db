// Many who come: nothing is kept of them but sums, and what happens is the same as if all were.
import v8 from 'node:v8';
import vm from 'node:vm';
import fc from 'fast-check';
import t from 'tap';
import { placementPolicies } from '../../monitor/policies/index.js';
import { worstFit } from '../../monitor/policies/placement/worst-fit.js';
import type { PlacementPolicy } from '../../monitor/policies/placement.js';
import { arrivalsOf } from '../scenario/arrivals.js';
import { runScenario } from '../scenario/run.js';
import { parseScenario } from '../scenario/scenario.js';
import { Invariants } from '../server/invariants.js';
import { Simulation } from '../server/simulation.js';
import { summary } from '../server/statistics.js';
import { Waits } from '../server/tally.js';

/** Of so many functions; GPUs are busy for most of the time. */
function scenario(gpus: number, sessions: number, more = '') {
  return parseScenario(
    `gpus: { count: ${gpus}, memory: 80GiB, slots: 4 }
${more}
sessions:
  - { name: f, functions: 10000, memory: 8GiB, share: "10:30", perHour: ${sessions}, seconds: ${(10_000 * gpus) / sessions} }`,
    's.yaml',
  );
}

t.test('fed one after the other, or all entered before: the same', async (t) => {
  const given = scenario(5, 3000, 'hours: 0.2');
  const { jobs } = arrivalsOf(given);
  const gpus = Array.from({ length: 5 }, () => ({ memory: 80n << 30n, slots: 4 }));
  for (const policy of placementPolicies.values()) {
    const runs = [true, false].map((fed) => {
      const simulation = new Simulation({ gpus, policy, after: new Invariants().check });
      if (fed) simulation.feed(jobs());
      else for (const job of jobs()) simulation.add(job);
      return simulation.run();
    });
    t.same(runs[0]?.outcomes, runs[1]?.outcomes, policy.name);
    t.ok((runs[0]?.outcomes.length ?? 0) > 400);
  }
});

t.test('who comes before it is his time is refused', async (t) => {
  const simulation = new Simulation({ gpus: [{ memory: 1n, slots: 1 }], policy: worstFit });
  const [job] = [...arrivalsOf(scenario(1, 60)).jobs()];
  if (!job) throw new Error('nobody comes');
  simulation.feed([
    { ...job, arrives: 5 },
    { ...job, arrives: 4 },
  ]);
  t.throws(() => simulation.run(), /one comes at 4 s, and it is 5 s already/);
});

t.test('a policy is shown GPUs with a free slot, or all if it asks for them', async (t) => {
  const given = scenario(20, 20_000, 'hours: 0.1');
  const seen = { some: 0, full: 0 };
  const watch = (kind: keyof typeof seen, policy: PlacementPolicy): PlacementPolicy => ({
    ...policy,
    place: (state, ...rest) => {
      seen[kind] += state.gpus.filter(({ free }) => !free.includes(true)).length;
      return policy.place(state, ...rest);
    },
  });
  const gpus = Array.from({ length: 20 }, () => ({ memory: 80n << 30n, slots: 4 }));
  const run = (policy: PlacementPolicy) => {
    const simulation = new Simulation({ gpus, policy });
    simulation.feed(arrivalsOf(given).jobs());
    return simulation.run().outcomes;
  };
  const part = run(watch('some', worstFit));
  const whole = run(watch('full', { ...worstFit, seesFull: true }));
  t.equal(seen.some, 0);
  t.ok(seen.full > 0);
  t.same(part, whole, 'and chooses the same');
});

t.test('memory does not grow with those who have come', async (t) => {
  v8.setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc') as () => void;
  const used: number[] = [];
  const given = scenario(100, 40_000);
  const gpus = Array.from({ length: 100 }, () => ({ memory: 80n << 30n, slots: 4 }));
  const simulation = new Simulation({
    ...{ gpus, policy: worstFit, keep: false, queueMax: Number.POSITIVE_INFINITY },
    after: ({ events, now }) => {
      if (now < 900 || events % 16_384 !== 0) return;
      collect();
      used.push(process.memoryUsage().heapUsed);
    },
  });
  simulation.feed(arrivalsOf(given).jobs());
  simulation.run();
  t.ok(simulation.arrived > 38_000, `${simulation.arrived} have come`);
  t.equal(simulation.tally.count, simulation.arrived);
  t.same([simulation.outcomes.length, simulation.order.length], [0, 0]);
  t.ok(simulation.longestAgenda < 5000, `${simulation.longestAgenda} events at once`);
  t.ok(used.length > 5, `looked ${used.length} times`);
  // Kept, each would take 200 bytes at least, 30,000 of them 6 MB. The waits are numbers of 8 bytes.
  const growth = (used.at(-1) ?? 0) - (used[0] ?? 0);
  t.ok(growth < 3 << 20, `${(growth / 1e6).toFixed(1)} MB more`);
  t.match(summary(simulation), { arrived: simulation.arrived, done: simulation.arrived });
});

t.test('progress is told, and what it comes to', async (t) => {
  const lines: string[] = [];
  const { rows, sessions } = runScenario(
    scenario(4, 2000, 'placement: [pack]'),
    (line) => void lines.push(line),
  );
  t.equal(sessions, rows[0]?.arrived);
  t.match(lines.at(-1), /^pack, first-come: \d+ events in \d+\.\d s$/);
  t.ok((rows[0]?.longestAgenda ?? 0) > 0);
});

t.test('waits: exact as long as they are few, and near enough when they are many', async (t) => {
  const seconds = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1 });
  const few = fc.property(seconds, (all) => {
    const waits = new Waits();
    for (const one of all) waits.add(one);
    const sorted = [...all].sort((a, b) => a - b);
    const at = (part: number) =>
      sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
    return [0, 0.3, 0.5, 0.99, 1].every((part) => waits.quantile(part) === at(part));
  });
  t.doesNotThrow(() => fc.assert(few));
  const waits = new Waits();
  for (let n = 0; n < 200_000; n++) waits.add(n % 4 === 0 ? 0 : (n * 7919) % 200_000);
  t.equal(waits.count, 200_000);
  t.equal(waits.quantile(0.1), 0);
  t.equal(waits.quantile(1), waits.longest);
  for (const part of [0.4, 0.6, 0.9, 0.99]) {
    // A quarter is 0, the others are spread evenly.
    const exact = ((part - 0.25) / 0.75) * 200_000;
    t.ok(Math.abs(waits.quantile(part) / exact - 1) < 0.006, `${part}: ${waits.quantile(part)}`);
  }
  t.same(waits.quantiles([0.4, 0.9]), [waits.quantile(0.4), waits.quantile(0.9)]);
  t.equal(new Waits().quantile(0.5), 0);
});

t.test('functions by how often they are called: the first most, and all of them', async (t) => {
  const given = parseScenario(
    'gpus: { count: 1, memory: 1GiB, slots: 1 }\nsessions: [{ name: f, functions: 10, perHour: 20000, seconds: 1 }]',
    's.yaml',
  );
  const counts = new Map<string, number>();
  for (const { request } of arrivalsOf(given).jobs())
    counts.set(request.name, (counts.get(request.name) ?? 0) + 1);
  t.equal(counts.size, 10);
  const [first = 0, second = 0, tenth = 0] = ['f-1', 'f-2', 'f-10'].map((one) => counts.get(one));
  t.ok(Math.abs(first / second - 2) < 0.2, `${first} and ${second}`);
  t.ok(Math.abs(first / tenth - 10) < 1.5, `${first} and ${tenth}`);
});
