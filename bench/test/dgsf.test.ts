// DGSF's experiment: that the plan is what the paper says, that the simulated server gives the times
// of section 7.5, and that a real server places and queues as the experiment takes for granted.
import t from 'tap';
import { Guest } from '../../monitor/test/support/guest.js';
import { Serving } from '../../monitor/test/support/serving.js';
import {
  arrivals,
  type Done,
  fourSettings,
  mean,
  resultOf,
  settings,
} from '../../simulator/dgsf/plan.js';
import { simulate } from '../../simulator/dgsf/simulated.js';
import { paper, workloads } from '../../simulator/dgsf/workloads.js';
import { shared, undisturbed } from '../../simulator/server/co-run.js';
import { notBuilt } from '../../test/support/paths.js';
import { serve } from '../dgsf/real.js';

const skip = notBuilt('api-server/executor.node', 'software-device/libcuda.so.1');

t.test('ten of each, as far apart as they should be', async (t) => {
  for (const { name } of workloads) {
    const count = arrivals('heavy', 1).filter(({ workload }) => workload.name === name).length;
    t.equal(count, 10, name);
  }
  for (const [load, gap] of [
    ['heavy', 2],
    ['low', 3],
  ] as const) {
    const last = Array.from({ length: 300 }, (_, seed) => arrivals(load, seed)[59]?.at ?? 0);
    t.ok(Math.abs(mean(last) / 59 - gap) < 0.1, `every ${gap} s`);
  }
  t.same(arrivals('heavy', 3), arrivals('heavy', 3));
  t.notSame(arrivals('heavy', 3), arrivals('heavy', 4));
  t.ok(
    Math.abs(mean(workloads.map(({ gpu }) => gpu)) - 12) < 0.05,
    'the mean GPU time of the paper',
  );
});

t.test('the times of 7.5', async (t) => {
  for (const setting of fourSettings) {
    const { done } = resultOf(simulate(setting, arrivals('four', 0), shared(1.2)));
    const published = paper.four[setting.servers === 1 ? 'none' : setting.policy];
    t.ok(Math.abs(done / published - 1) < 0.02, `${done} s, in the paper ${published} s`);
  }
});

t.test('sharing shortens the queue, contention makes it longer again', async (t) => {
  for (const setting of settings().filter(({ servers }) => servers === 2)) {
    const plan = arrivals(setting.load, 2);
    const queue = (servers: number, coRun = undisturbed) =>
      resultOf(simulate({ ...setting, servers }, plan, coRun)).queue;
    t.ok(queue(2) < queue(2, shared(1.2)), JSON.stringify(setting));
    t.ok(queue(2, shared(1.2)) < queue(1));
  }
});

t.test('a real server puts them where the policies say', { skip, timeout: 120_000 }, async (t) => {
  const MB = 1n << 20n;
  for (const [policy, wanted] of [
    ['best-fit', ['0', '0', '1', '1']],
    ['worst-fit', ['0', '1', '0', '1']],
  ] as const) {
    const args = ['--gpus', '2', '--servers-per-gpu', '2', '--placement', policy];
    const serving = await Serving.start(t, args, { SOFTWARE_DEVICE_MEMORY: '15256M' });
    const guests: Guest[] = [];
    const gpus: string[] = [];
    for (const { workload } of arrivals('four', 0)) {
      const guest = Guest.hello(serving.address, { memory: BigInt(workload.memory) * MB });
      const { session } = await guest.welcome();
      const { slot } = await serving.logged({ session: Number(session), msg: 'session begins' });
      guests.push(guest);
      gpus.push(String(slot).split('.')[0] ?? '');
    }
    t.same(gpus, wanted, policy);
    for (const guest of guests) await guest.leave();
  }
});

t.test('a small experiment on a real server', { skip, timeout: 120_000 }, async (t) => {
  const plan = workloads.map((workload, index) => ({ at: index, workload }));
  const setting = { load: 'heavy', gpus: 2, servers: 1, policy: 'best-fit' } as const;
  const done: Done[] = await serve(t, setting, plan, 100);
  t.same(
    done.map(({ workload }) => workload),
    workloads.map(({ name }) => name),
  );
  for (const [index, { gpu, arrived, waited, ended, workload }] of done.entries()) {
    const { prepare = 0, gpu: work = 0 } = workloads[index] ?? {};
    t.ok(gpu === 0 || gpu === 1, `${workload} had GPU ${gpu}`);
    // A timer may be a millisecond early.
    const least = Math.max(waited, prepare) + work - 0.3;
    t.ok(waited >= 0 && ended - arrived >= least, `${workload}: nothing is faster than it can be`);
  }
  // Six in a row on two GPUs: at least half of all work is behind one another.
  const work = workloads.reduce((sum, { gpu }) => sum + gpu, 0);
  t.ok(resultOf(done).done >= work / 2);
});
