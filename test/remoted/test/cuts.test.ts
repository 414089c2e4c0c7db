// A session survives cuts of its connection: programs behave as without them, whenever they come. And nobody else
// gets it, nor does anybody wait for a guest for ever.
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import t from 'tap';
import { ended, printed, start } from '../../../guest-lib/test/support/client.js';
import { Guest } from '../../../monitor/test/support/guest.js';
import { tenantsFile } from '../../../monitor/test/support/tenants.js';
import { seeded, startCuttingProxy } from '../../support/cutting-proxy.js';
import { Operator, Steps } from '../../support/moving.js';
import { noPrograms, notBuilt } from '../../support/paths.js';
import { example, native, remoted, startRemoted, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

/** How often each program is run: more often at night. */
const rounds = Number(process.env['OUTBOARD_TEST_CUTS'] ?? (process.env['NIGHTLY'] ? 10 : 2));
const client = notBuilt(path.join('guest-lib', 'test', 'guest-client'));

const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '2'];
let server: TestServer;
t.before(async () => {
  server = await startServer({ args: [...args, '--grace-disconnected', '20'] });
});
t.teardown(() => server.stop());

function addressOf({ address }: { address: string }) {
  const [host = '', port] = address.split(':');
  return { host, port: Number(port) };
}

const programs: [name: string, program: string, args: string[]][] = [
  ['vector-add', example('vector-add'), ['--size', '10000']],
  ['reduction', example('reduction'), ['--size', '20001']],
  // Uploads and downloads of any size, from any memory.
  ['copies', testProgram('copies'), []],
  // A queue behind functions of the program.
  ['host-functions', testProgram('host-functions'), []],
];

for (const [name, program, args] of programs) {
  t.test(`${name} is cut at random bytes`, { skip: noPrograms }, async (t) => {
    const here = await native(program, { args });
    t.equal(here.code, 0, here.stderr);
    for (let seed = 1; seed <= rounds; seed++) {
      const random = seeded(seed);
      // Behind the Welcome, and each connection gets further than the one before it.
      const after = (connection: number) => 4_000 + Math.floor(random() * 4_000 * 2 ** connection);
      const proxy = await startCuttingProxy(server.address, { after, reset: () => random() < 0.5 });
      const there = await remoted(program, proxy.address, { args });
      t.equal(there.stdout, here.stdout, `seed ${seed}: ${there.stderr}`);
      t.equal(there.code, here.code, `seed ${seed}`);
      t.ok(proxy.cuts() > 1, `seed ${seed}: it was cut ${proxy.cuts()} times`);
      await proxy.close();
    }
  });
}

t.test('a program that ends says so: its session ends at once', { skip: client }, async (t) => {
  const one = await startServer({ args: [...args, '--grace-disconnected', '3600'] });
  t.teardown(() => one.stop());
  const there = await ended(start('session', { OUTBOARD_SERVER: one.address }));
  t.equal(there.lines.at(-1), 'data same');
  await one.logged(/session ends: the guest closed the connection/);
  t.notMatch(one.log(), /the connection was cut/);
});

t.test('a program that does not come back', { skip: client }, async (t) => {
  const short = await startServer({ args: [...args, '--grace-disconnected', '1'] });
  t.teardown(() => short.stop());
  const proxy = await startCuttingProxy(short.address);
  const child = start('server-dies', { OUTBOARD_SERVER: proxy.address, OUTBOARD_LOG: 'error' });
  const over = ended(child);
  await printed(child, /ready/);
  proxy.refuse(true);
  proxy.cut();
  child.stdin?.write('\n');
  await short.logged(/it has not come back in time/);
  const { lines, stderr } = await over;
  // The error stays.
  const calls = ['cuMemcpyDtoH_v2', 'cuMemAlloc_v2', 'cuCtxSynchronize', 'cuInit'];
  t.strictSame(
    lines.slice(-4),
    calls.map((call) => `${call} CUDA_ERROR_DEVICE_UNAVAILABLE`),
  );
  t.match(stderr, /it was cut, and the session could not be taken up again/);
  await proxy.close();
});

t.test('who is away is shown, and who is back', { skip: noPrograms }, async (t) => {
  const showing = await startServer({
    args: [...args, '--grace-disconnected', '30', '--http', '127.0.0.1:0'],
  });
  t.teardown(() => showing.stop());
  await showing.logged(/"http":/);
  const operator = new Operator(showing);
  const proxy = await startCuttingProxy(showing.address);
  t.teardown(() => proxy.close());
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), proxy.address, { writes: true }),
  );
  await steps.say('step');
  const there = await operator.session();
  t.equal(there.away, null);
  for (let cut = 0; cut < 2; cut++) {
    proxy.refuse(true);
    proxy.cut();
    const { away, state } = await operator.sessionThat(({ away }) => away !== null);
    t.equal(state, 'running');
    const [since, until] = [away?.since, away?.until].map((moment) => Date.parse(moment ?? ''));
    // Its connection has ended, which was not by silence.
    t.equal(Math.round(((until ?? 0) - (since ?? 0)) / 1000), 5);
    proxy.refuse(false);
    // It calls nothing meanwhile.
    const back = await operator.sessionThat(({ away }) => away === null);
    t.equal(back.id, there.id);
    await steps.say('step');
  }
  await steps.end();
  await operator.rested();
});

t.test('without --grace-disconnected a cut ends the session', { skip: client }, async (t) => {
  const none = await startServer({ args });
  t.teardown(() => none.stop());
  const proxy = await startCuttingProxy(none.address);
  const child = start('server-dies', { OUTBOARD_SERVER: proxy.address });
  const over = ended(child);
  await printed(child, /ready/);
  proxy.cut();
  child.stdin?.write('\n');
  t.equal((await over).lines.at(-4), 'cuMemcpyDtoH_v2 CUDA_ERROR_DEVICE_UNAVAILABLE');
  await proxy.close();
});

t.test('a tenant may have its own time', async (t) => {
  const limits = (seconds: number) => `{ graceDisconnectedSeconds: ${seconds} }`;
  const { file, one, other } = tenantsFile(t, limits(7), limits(0));
  const serving = await startServer({
    args: [...args, '--grace-disconnected', '30', '--tenants', file],
  });
  t.teardown(() => serving.stop());
  const address = addressOf(serving);
  const offered = async (token: string) =>
    (await Guest.hello(address, { resumes: true, token }).welcome()).resumeSeconds ?? 0;
  t.same([await offered(one), await offered(other)], [7, 0]);
});

t.test('who may come back, and how often', async (t) => {
  const address = addressOf(server);
  const guest = Guest.hello(address, { resumes: true });
  const { session, resumeSecret, resumeSeconds } = await guest.welcome();
  t.equal(resumeSeconds, 20);
  if (resumeSecret?.length !== 16) throw new Error('no secret');
  const back = (resume: object, more: object = {}) =>
    Guest.hello(address, {
      windowBases: [],
      windowSize: 0n,
      ...more,
      resume: { session, secret: resumeSecret, epoch: 1, received: 0n, ...resume },
    });

  await t.test('not with another secret or number, nor with half a secret', async (t) => {
    const stolen = await back({ secret: randomBytes(16) }).refusal();
    t.match(stolen, { code: 'OB_RESUME' });
    const other = await back({ session: session + 1n }).refusal();
    // Nobody learns which sessions there are.
    t.strictSame(other, stolen);
    t.match(await back({ secret: resumeSecret.subarray(8) }).refusal(), { code: 'OB_HELLO_VALUE' });
    t.match(await back({ epoch: 0 }).refusal(), { code: 'OB_HELLO_VALUE' });
  });

  await t.test('twice, and what comes late is not taken', async (t) => {
    // A part of a frame.
    guest.send(Buffer.from([0, 0, 0]));
    const second = back({ epoch: 2 });
    t.strictSame(await second.answer(), { resumed: { received: 3n } });
    t.equal(await guest.answer(), null, 'the old connection is at an end');
    t.match(await back({ epoch: 1 }).refusal(), { code: 'OB_RESUME' }, 'a late one');
    t.match(await back({ epoch: 2 }).refusal(), { code: 'OB_RESUME' }, 'one that was used');
    const third = back({ epoch: 3 });
    t.strictSame(await third.answer(), { resumed: { received: 3n } });
    t.equal(await second.answer(), null);
    // More than was ever sent to it: the session is over.
    const wrong = back({ epoch: 4, received: 1n << 40n });
    t.equal(await wrong.answer(), null);
    await server.logged(new RegExp(`"session":${session},.*session ends`));
    t.match(await back({ epoch: 5 }).refusal(), { code: 'OB_RESUME' });
  });
});
