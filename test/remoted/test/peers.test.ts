// Devices of one server that reach each other's memory: a program that uses it does and says what
// it does natively; memory counts once; and what one device's process takes with it when it is lost
// is only its own program.
import t, { type Test } from 'tap';
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

const args = ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '1'];
const env = { OUTBOARD_GPUS: '2' };
const skip = noPrograms;
let pair: TestServer;

t.before(async () => {
  if (!noPrograms) pair = await startServer({ args });
});
t.teardown(() => pair?.stop());

const said = ({ code, signal, stdout }: Outcome) => ({ code, signal, stdout });
const asMany = { SOFTWARE_DEVICE_GPUS: '2' };

for (const [name, shows] of [
  ['peer-memory', 'one device in the memory of another'],
  ['peer-managed', 'memory that is for all devices, and of graphs'],
  ['several-managed', 'variables that are one for all'],
] as const) {
  t.test(shows, { skip }, (t) => sameAsHere(t, name));
}

/** In any order that streams which do not wait for each other may run in, too. */
async function sameAsHere(t: Test, name: string) {
  const program = testProgram(name);
  const here = await native(program, { env: asMany });
  t.equal(here.code, 0, here.stderr);
  for (const round of [1, 2, 3]) {
    const there = await remoted(program, pair.address, { env });
    t.same(said(there), said(here), `round ${round}: ${there.stderr}`);
  }
  // Where streams that do not wait for each other run in any order.
  const disordered = await startServer({ args, env: { SOFTWARE_DEVICE_DISORDER: '7' } });
  const there = await remoted(program, disordered.address, { env });
  t.same(said(there), said(here), there.stderr);
  await disordered.stop();
}

t.test('variables are not lent: a launch that is given one is refused', { skip }, async (t) => {
  const program = testProgram('peer-variable');
  const here = await native(program, { env: asMany });
  t.equal(here.code, 0, here.stderr);
  const there = await remoted(program, pair.address, { env: { ...env, OUTBOARD_LOG: 'warn' } });
  t.equal(there.code, 0, there.stderr);
  t.match(there.stderr, /for device 0 was given the address of a module's variable on device 1/);
  const lines = here.stdout.split('\n');
  lines[5] = 'cudaGetLastError(): cudaErrorNotSupported';
  lines[7] = lines[3]?.replace('own', "the other's") ?? '';
  t.same(there.stdout.split('\n'), lines, 'copies are as here, and the program goes on');
});

t.test('a program that was written for one device or two', { skip }, async (t) => {
  const program = testProgram('peer-devices');
  const here = await native(program, { env: asMany });
  const there = await remoted(program, pair.address, { env });
  t.same(said(there), said(here), there.stderr);
});

t.test('devices of different servers do not reach each other', { skip }, async (t) => {
  const other = await startServer();
  const both = `${pair.address},${other.address}`;
  const { code, stdout, stderr } = await remoted(testProgram('peer-memory'), both, { env });
  t.equal(code, 0, stderr);
  t.match(stdout, /^reach: 0 0 0$/m);
  t.match(stdout, /EnablePeerAccess.*: cudaErrorPeerAccessUnsupported/);
  t.match(stdout, /DisablePeerAccess.*: cudaErrorPeerAccessNotEnabled/);
  await other.stop();
});

t.test('memory counts where it is, and once', { skip }, async (t) => {
  const there = await remoted(testProgram('peer-limit'), pair.address, {
    env: { ...env, OUTBOARD_MEMORY: '64M' },
  });
  t.equal(there.code, 0, there.stderr);
  const expected = [0, 1].flatMap((device) => [
    `device ${device}: 6 of 64 MiB are free`,
    'cudaMalloc(&more, 8 << 20): cudaErrorMemoryAllocation',
  ]);
  t.same(there.stdout.trim().split('\n'), [...expected, 'device 0: 0 wrong', 'device 1: 0 wrong']);
});

t.test('the process of one device is killed: the other is free again', { skip }, async (t) => {
  for (const device of [0, 1, 0, 1]) {
    const run = startRemoted(testProgram('endless-peers'), pair.address, { env });
    const ended = outcome(run);
    await new Promise((resolve) => run.stdout?.once('data', resolve));
    const slot = new RegExp(`"slot":"${device}\\.0","slotPid":(\\d+)[^\\n]*session begins`, 'g');
    await pair.logged(slot);
    process.kill(Number([...pair.log().matchAll(slot)].at(-1)?.[1]), 'SIGKILL');
    const { code, stdout } = await ended;
    t.equal(code, 0);
    t.match(stdout, /then: cudaErrorDevicesUnavailable/);
    // Both places are wanted again.
    const next = await remoted(testProgram('peer-devices'), pair.address, { env });
    t.equal(next.code, 0, next.stderr);
  }
});

t.test('a program is killed: nothing of it is kept', { skip }, async (t) => {
  for (let round = 0; round < 4; round++) {
    const run = startRemoted(testProgram('endless-peers'), pair.address, { env });
    const ended = outcome(run);
    await new Promise((resolve) => run.stdout?.once('data', resolve));
    run.kill('SIGKILL');
    t.equal((await ended).signal, 'SIGKILL');
    const next = await remoted(testProgram('peer-devices'), pair.address, { env });
    t.equal(next.code, 0, next.stderr);
  }
});
