// Several devices in one program, each led to by a connection of its own: on servers that know
// nothing of each other, a program does and says what it does natively with as many devices; and
// what every feature does is the same beside a device that it does not use.
import t, { type Test } from 'tap';
import { features, nativeOutcome, sample } from '../../support/features.js';
import { noPrograms } from '../../support/paths.js';
import {
  native,
  type Outcome,
  outcome,
  remoted,
  startRemoted,
  testProgram,
} from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

const gpus = 3;
const servers: TestServer[] = [];
const addresses = () => servers.map(({ address }) => address).join(',');

t.before(async () => {
  if (noPrograms) return;
  for (let i = 0; i < gpus; i++)
    servers.push(await startServer({ env: i === 1 ? { SOFTWARE_DEVICE_DISORDER: '7' } : {} }));
});
t.teardown(() => Promise.all(servers.map((server) => server.stop())));

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });
const asMany = { SOFTWARE_DEVICE_GPUS: `${gpus}` };

for (const [name, shows] of [
  ['several-devices', 'all devices at work'],
  ['several-managed', 'variables that are one for all'],
] as const) {
  t.test(shows, { skip: noPrograms }, async (t) => {
    const program = testProgram(name);
    const here = await native(program, { env: asMany });
    t.equal(here.code, 0, here.stderr);
    for (const round of [1, 2, 3]) {
      const there = await remoted(program, addresses(), { env: { OUTBOARD_GPUS: `${gpus}` } });
      t.same(said(there), said(here), `round ${round}: ${there.stderr}`);
    }
  });
}

t.test('all devices of one server, and those of two', { skip: noPrograms }, async (t) => {
  const program = testProgram('several-devices');
  const here = await native(program, { env: asMany });
  const args = ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '1'];
  const pair = await startServer({ args });
  const both = await remoted(program, `${pair.address},${servers[0]?.address}`, {
    env: { OUTBOARD_GPUS: `${gpus}` },
  });
  t.same(said(both), said(here), both.stderr);
  const two = await native(program, { env: { SOFTWARE_DEVICE_GPUS: '2' } });
  const alone = await remoted(program, pair.address, { env: { OUTBOARD_GPUS: '2' } });
  t.same(said(alone), said(two), alone.stderr);
  const more = await remoted(program, pair.address, {
    env: { OUTBOARD_GPUS: '3', OUTBOARD_LOG: 'error' },
  });
  t.not(more.code, 0);
  t.match(more.stderr, /OB_TOO_MANY_GPUS/);
  await pair.stop();
});

t.test('graphs of devices that reach each other', { skip: noPrograms }, async (t) => {
  const program = testProgram('graph-devices');
  const here = await native(program, { env: { SOFTWARE_DEVICE_GPUS: '3' } });
  const args = ['--device', 'software', '--gpus', '3', '--servers-per-gpu', '1'];
  for (const disorder of ['0', '8']) {
    const server = await startServer({ args, env: { SOFTWARE_DEVICE_DISORDER: disorder } });
    const there = await remoted(program, server.address, { env: { OUTBOARD_GPUS: '3' } });
    t.same(said(there), said(here), there.stderr);
    await server.stop();
  }
});

t.test('two servers named, one GPU wanted: one device', { skip: noPrograms }, async (t) => {
  const there = await remoted(testProgram('several-devices'), addresses());
  t.equal(there.code, 2);
  t.match(there.stderr, /this takes two devices/);
});

t.test('a server that cannot be had', { skip: noPrograms }, async (t) => {
  const program = testProgram('several-devices');
  const nobody = '127.0.0.1:1';
  const env = { OUTBOARD_GPUS: '2', OUTBOARD_LOG: 'error' };
  const [first = '', second = ''] = servers.map(({ address }) => address);
  const without = await remoted(program, `${first},${nobody}`, { env });
  t.not(without.code, 0, 'nobody stands in for it');
  t.match(without.stderr, /no connection to 127\.0\.0\.1:1/);
  const instead = await remoted(program, `${first},${nobody},${second}`, { env });
  t.equal(instead.code, 0, instead.stderr);
});

/** Device 0 or 1 is on a server whose API servers are killed while the program works. */
async function takenAway(t: Test, program: string, device: 0 | 1) {
  const ending = await startServer();
  const staying = servers[0]?.address ?? '';
  const address = (device ? [staying, ending.address] : [ending.address, staying]).join(',');
  const run = startRemoted(testProgram(program), address, { env: { OUTBOARD_GPUS: '2' } });
  const said = outcome(run);
  await new Promise((resolve) => run.stdout?.once('data', resolve));
  for (const slot of ending.slots()) process.kill(slot, 'SIGKILL');
  const { code, stdout } = await said;
  t.equal(code, 0);
  t.match(stdout, /then: cudaErrorDevicesUnavailable/);
  await ending.stop();
}

t.test('a server ends: the program is told, and ends', { skip: noPrograms }, async (t) => {
  await takenAway(t, 'endless-launch', 0);
});

t.test('a server ends in the midst of copies', { skip: noPrograms }, async (t) => {
  for (let round = 0; round < (process.env['NIGHTLY'] ? 4 : 1); round++) {
    await takenAway(t, 'endless-peers', 0);
    await takenAway(t, 'endless-peers', 1);
  }
});

t.test('a program is killed: no server keeps anything of it', { skip: noPrograms }, async (t) => {
  const args = ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '1'];
  const pair = await startServer({ args });
  const env = { OUTBOARD_GPUS: '2' };
  for (let round = 0; round < 4; round++) {
    const run = startRemoted(testProgram('endless-peers'), pair.address, { env });
    const said = outcome(run);
    await new Promise((resolve) => run.stdout?.once('data', resolve));
    run.kill('SIGKILL');
    t.equal((await said).signal, 'SIGKILL');
    // Both of its places are wanted again.
  }
  await pair.stop();
});

// Those that are about other devices, or about processes with sessions of their own.
const others = new Set(['ipc', 'shared-pieces', 'peer-devices', 'device-calls']);
for (const { name, shows } of sample(features, 1)) {
  if (others.has(name)) continue;
  t.test(`${name}: ${shows}`, { skip: noPrograms }, async (t) => {
    const here = await nativeOutcome(name);
    const there = await remoted(testProgram(name), addresses(), { env: { OUTBOARD_GPUS: '2' } });
    t.same(said(there), said(here), there.stderr);
  });
}
