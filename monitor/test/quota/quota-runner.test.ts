// The quota runner: its logic with a clock of the test's own, then the real thread.
import { pino } from 'pino';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { usualQuotaParameters } from '../../policies/quota.js';
import { MemoryPage, noLimit, type QuotaCounts } from '../../src/quota/page-view.js';
import { Quota, type QuotaOptions } from '../../src/quota/quota.js';
import { type QuotaReport, QuotaRunner } from '../../src/quota/runner.js';
import { QuotaLoop, type QuotaPlacement } from '../../src/quota/runner-loop.js';

const ms = 1_000_000n;

function placement(session: number, given: Partial<QuotaPlacement> = {}): QuotaPlacement {
  return {
    session,
    gpu: 0,
    page: `slot ${session}`,
    tenant: '',
    class: 'latency-strict',
    shareRequest: 50,
    shareLimit: 100,
    measured: true,
    ...given,
  };
}

function set(page: MemoryPage, counts: Partial<QuotaCounts>) {
  page.counts = { ...page.counts, ...counts };
}

function loopWith(policy: string, ...sessions: number[]) {
  const reports: QuotaReport[] = [];
  const loop = new QuotaLoop(policy, (report) => reports.push(report));
  const pages = sessions.map((session) => {
    const page = new MemoryPage();
    loop.addPage(`slot ${session}`, page);
    return page;
  });
  return { loop, reports, pages: pages as [MemoryPage, MemoryPage] };
}

t.test('steps come on time, whatever each takes, and only while there are sessions', async (t) => {
  const { loop, reports } = loopWith('device-time', 1);
  t.equal(loop.due, null);
  loop.place(100n, placement(1));
  t.equal(loop.due, 5n * ms + 100n);
  loop.tick(4n * ms);
  t.equal(loop.due, 5n * ms + 100n, 'too early');
  loop.tick(6n * ms);
  t.equal(loop.due, 10n * ms + 100n, 'no drift');
  loop.tick(31n * ms);
  t.equal(loop.due, 35n * ms + 100n, 'what was missed is not made up for');
  loop.end(1);
  t.equal(loop.due, null);
  t.same(reports, [{ seconds: 0, sessions: [], gpus: [] }], 'all is quiet');
  loop.place(50n * ms, placement(1));
  t.equal(loop.due, 55n * ms);
});

t.test('a page has its mode and limit before the session begins', async (t) => {
  const { loop, pages } = loopWith('device-time', 1, 2);
  const [one, two] = pages;
  set(one, { session: 7n, charged: 999_999n * ms, held: 3n });
  loop.place(0n, placement(1, { shareLimit: 40 }));
  t.equal(one.mode, 'device-time');
  t.ok(one.limit <= 16n * ms, 'not counted from what the session before has used');
  loop.place(0n, placement(2));
  t.equal(two.mode, 'device-time');
  loop.end(1);
  t.same([one.mode, one.limit], ['open', noLimit], 'and none after it');
});

t.test('modes are those of the policies', async (t) => {
  for (const [policy, mode] of [
    ['none', 'open'],
    ['priority', 'device-time'],
    ['dilu-paper', 'blocks'],
    ['dilu-corrected', 'blocks'],
    ['host-time', 'host-time'],
  ] as const) {
    const { loop, pages } = loopWith(policy, 1);
    loop.place(0n, placement(1, { shareLimit: 60 }));
    t.equal(pages[0].mode, mode);
    if (policy === 'none') t.equal(pages[0].limit, noLimit);
    else t.ok(pages[0].limit < noLimit);
  }
  t.throws(() => new QuotaLoop('nonsense', () => {}), /no quota policy nonsense/);
});

t.test('received and owed, once a second', async (t) => {
  const { loop, pages, reports } = loopWith('device-time', 1, 2);
  const [one, two] = pages;
  loop.place(0n, placement(1, { shareRequest: 30 }));
  loop.place(0n, placement(2, { shareRequest: 10 }));
  for (let step = 1n; step <= 400n; step++) {
    const now = step * 5n * ms;
    const used = (share: bigint) => (now * share) / 100n;
    const both = { inflightNs: 1000n, gateWaits: step, gateWaitNs: step * ms };
    set(one, { session: 1n, charged: used(70n), deviceNs: used(70n), held: 1n, ...both });
    // The second one has work in the first second only.
    if (step <= 200n) set(two, { session: 2n, charged: used(20n), deviceNs: used(20n), ...both });
    else set(two, { inflightNs: 0n });
    loop.tick(now);
  }
  t.equal(reports.length, 2);
  const [first, second] = reports as [QuotaReport, QuotaReport];
  t.equal(first.seconds, 1);
  t.match(first.sessions, [
    {
      session: 1,
      gpu: 0,
      received: 70,
      deviceNs: 7e8,
      gateWaits: 200,
      gateSeconds: 0.2,
      held: true,
    },
    { session: 2, gpu: 0, received: 20, held: false },
  ]);
  t.same(
    first.sessions.map(({ owed }) => Math.round(owed ?? -1)),
    [75, 25],
  );
  t.same(first.gpus, [{ gpu: 0, busy: 90 }]);
  t.match(second.sessions, [{ received: 70 }, { received: 0 }]);
  t.same(
    second.sessions.map(({ owed }) => Math.round(owed ?? -1)),
    [100, 0],
  );
});

t.test('a limit counts what was given back as used', async (t) => {
  const { loop, pages } = loopWith('device-time', 1);
  const [page] = pages;
  set(page, { session: 1n });
  loop.place(0n, placement(1, { shareLimit: 50 }));
  set(page, { charged: 500n * ms, inflightNs: 1n });
  loop.tick(5n * ms);
  t.equal(page.limit, 500n * ms, 'it has nothing left');
  set(page, { charged: 450n * ms, givenBack: 50n * ms, inflightNs: 0n, held: 1n });
  loop.tick(10n * ms);
  t.equal(page.limit, 500n * ms, 'and what it did not use goes to its debt');
});

t.test('of what is not measured nothing is known, not even of its GPU', async (t) => {
  const { loop, pages, reports } = loopWith('device-time', 1, 2);
  loop.place(0n, placement(1, { measured: false }));
  loop.place(0n, placement(2, { gpu: 1 }));
  set(pages[0], { session: 1n, launches: 5n, gateWaits: 1n });
  set(pages[1], { session: 2n, charged: 300n * ms, deviceNs: 300n * ms });
  for (let step = 1n; step <= 200n; step++) loop.tick(step * 5n * ms);
  t.match(reports, [
    {
      sessions: [
        { session: 1, received: null, owed: null, deviceNs: null, gateWaits: 1 },
        { session: 2, received: 30, deviceNs: 3e8 },
      ],
      gpus: [
        { gpu: 0, busy: null },
        { gpu: 1, busy: 30 },
      ],
    },
  ]);
});

t.test('a share that is changed is in effect with the next step', async (t) => {
  const { loop, pages } = loopWith('device-time', 1);
  const [page] = pages;
  loop.place(0n, placement(1));
  set(page, { session: 1n, charged: 100n * ms, deviceNs: 100n * ms, held: 1n });
  loop.tick(100n * ms);
  t.equal(page.limit, noLimit, 'alone, without a limit');
  loop.setShare(1, 20, 40);
  loop.tick(105n * ms);
  t.ok(page.limit <= 105n * ms);
  loop.setShare(77, 20, 40);
});

t.test('GPUs are apart from each other', async (t) => {
  const { loop, pages } = loopWith('device-time', 1, 2);
  loop.place(0n, placement(1));
  loop.place(0n, placement(2, { gpu: 1 }));
  for (const [index, page] of pages.entries()) {
    set(page, { session: BigInt(index + 1), charged: 5n * ms, inflightNs: 1n });
  }
  loop.tick(5n * ms);
  for (const page of pages) t.equal(page.limit, noLimit);
});

t.test('the thread', async (t) => {
  let came: (report: QuotaReport) => void = () => {};
  const report = new Promise<QuotaReport>((resolve) => {
    came = resolve;
  });
  const failures: Error[] = [];
  const runner = new QuotaRunner({
    policy: 'device-time',
    build,
    onReport: came,
    onFailed: (error) => failures.push(error),
  });
  // Keeps the test alive while it waits for a thread that does not.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  await runner.addPage('slot 1', null);
  await t.rejects(runner.place(placement(2)), /no quota page slot 2/);
  await runner.place(placement(1));
  await runner.setShare(1, { request: 20, limit: 50 });
  const told = await report;
  t.match(told.sessions, [{ session: 1, gpu: 0, received: 0, owed: 0, held: false }]);
  t.match(told.gpus, [{ gpu: 0, busy: 0 }]);
  t.ok(told.seconds >= 1);
  runner.end(1);
  runner.removePage('slot 1');
  await t.rejects(runner.place(placement(1)), /no quota page/);
  await runner.stop();
  t.same(failures, []);
});

t.test('a thread that fails is told of', async (t) => {
  const error = await new Promise<Error>((resolve) => {
    const alive = setInterval(() => {}, 1000);
    new QuotaRunner({
      policy: 'nonsense',
      build,
      onReport: () => {},
      onFailed: (error) => {
        clearInterval(alive);
        resolve(error);
      },
    });
  });
  t.match(error.message, /no quota policy nonsense/);
});

t.test('one that cannot even be started is tried again', async (t) => {
  const seen: string[] = [];
  let heard = () => {};
  const write = (line: string) => {
    seen.push(JSON.parse(line).err.message);
    heard();
  };
  const failure = async (pattern: RegExp) => {
    while (!seen.some((message) => pattern.test(message))) {
      await new Promise<void>((resolve) => {
        heard = resolve;
      });
    }
  };
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(alive));
  const options: QuotaOptions = { policy: 'nonsense', build };
  const quota = new Quota(options, pino({ base: null }, { write }));
  // No thread can be given a function: the next ones fail where they are made.
  options.parameters = [{ maxBlocks: () => {} }] as never;
  await failure(/could not be cloned/);
  const before = seen.length;
  options.policy = 'still nonsense';
  delete options.parameters;
  await failure(/no quota policy still nonsense/);
  t.equal(seen.length, before + 1);
  await quota.stop();
});

t.test('each GPU has a policy with its own parameters; one is for all', async (t) => {
  const limits = (...maxBlocks: number[]) => {
    const parameters = maxBlocks.map((maxBlocks) => ({ ...usualQuotaParameters, maxBlocks }));
    const loop = new QuotaLoop('dilu-corrected', () => {}, parameters);
    return [0, 1].map((gpu) => {
      const page = new MemoryPage();
      loop.addPage(`slot ${gpu}`, page);
      loop.place(0n, placement(gpu + 1, { gpu, page: `slot ${gpu}`, shareLimit: 50 }));
      const before = page.limit;
      for (let time = 0n; time < 100n; time += 5n) loop.tick(time * ms);
      return [before, page.limit];
    });
  };
  const [large, small] = limits(10_000, 1000) as [bigint[], bigint[]];
  // Half of them, and the one at which work still starts: before the session begins, and after steps.
  t.same(large, [5001n, 5001n]);
  t.same(small, [501n, 501n]);
  const [one, other] = limits(1000);
  t.same([one, other], [small, small]);
});

t.test('parts of the SMs: who fits beside another launches at the same time', async (t) => {
  const open = (...sms: (number | undefined)[]) => {
    const loop = new QuotaLoop('host-time', () => {});
    const pages = sms.map((sm, index) => {
      const page = new MemoryPage();
      loop.addPage(`slot ${index}`, page);
      const its = sm === undefined ? {} : { sm };
      loop.place(0n, placement(index + 1, { page: `slot ${index}`, shareRequest: 20, ...its }));
      page.counts = { ...page.counts, session: BigInt(index + 1), held: 1n };
      return page;
    });
    loop.tick(1n * ms);
    return pages.map(({ limit }) => limit > 0n);
  };
  t.same(open(undefined, undefined), [true, false], 'all SMs each: one at a time');
  t.same(open(60, 40), [true, true]);
  t.same(open(60, 50), [true, false]);
});
