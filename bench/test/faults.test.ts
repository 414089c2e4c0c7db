// The shorter of what `npm run bench -- faults` does. What is done and who is hit is drawn from a seed;
// nothing is judged by the time that it takes.
// Run nightly: faults by dozens; single ones have tests of their own.
import t from 'tap';
import { noPrograms, notBuilt } from '../../test/support/paths.js';
import { cutConnections } from '../faults/cuts.js';
import { logFaults, Unheard } from '../faults/log-lost.js';
import { killMonitor } from '../faults/monitor-killed.js';
import { Storm } from '../faults/storm.js';

const skip = notBuilt('api-server/executor.node', 'software-device/libcuda.so.1');

t.test(
  'clients and processes are killed: the others come out right, nothing is left',
  {
    skip,
    timeout: 300_000,
  },
  async (t) => {
    const report = await Storm.run(t, {
      ...{ seed: 4, jobs: 80, atOnce: 8, gpus: 2, serversPerGpu: 3 },
      ...{ killedJobs: 0.2, killedSlots: 0.12 },
    });
    t.same(report.wrong, [], 'survivors are right');
    t.same(report.left, [], 'nothing is left');
    t.equal(report.jobs, 80);
    t.ok(report.killedSlots > 3, `${report.killedSlots} processes killed`);
    t.ok(report.survivors > 30, `${report.survivors} survivors`);
    t.ok(noPrograms || report.programs > 15, `${report.programs} programs`);
  },
);

t.test(
  'the monitor is killed: all hear of it, the next one finds everything free',
  {
    skip,
    timeout: 300_000,
  },
  async (t) => {
    const report = await killMonitor(t, { seed: 5, rounds: 2 });
    t.same(report.left, []);
    t.equal(report.clients, 2 * 15);
  },
);

t.test(
  'connections are cut at random bytes: programs end by themselves, with an error',
  { skip: skip || noPrograms, timeout: 300_000 },
  async (t) => {
    const report = await cutConnections({ seed: 6, cuts: 60 });
    t.same(report.wrong, []);
    t.ok(report.unharmed < report.cuts / 2, `${report.unharmed} of ${report.cuts} unharmed`);
  },
);

// stdout as well: it is told of, but not served by, a stream that forgives.
for (const fault of logFaults) {
  t.test(`a log that cannot be written (${fault})`, { skip, timeout: 120_000 }, async (t) => {
    const server = await Unheard.start(t, fault);
    // More than fits into any pipe.
    await server.serve(150);
    t.equal(await server.stop(), 0, 'it serves on, and ends as it should');
  });
}
