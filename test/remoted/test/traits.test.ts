// A server whose device has traits of NVIDIA's driver (docs/software-device/traits.md): programs do
// and say what they do natively under the same traits. Where the driver waits in a call because a
// queue is full, or calls all functions of programs on one thread, nothing of the server's may wait
// for what only the same thread could tell it.
import path from 'node:path';
import t, { type Test } from 'tap';
import { noPrograms } from '../../support/paths.js';
import { native, remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const few = ['full-streams', 'held-launches'];
// These put a few operations behind functions that wait for the very thread that puts them there,
// and a server's stream has room for fewer of a program's than a driver's own.
const some = [
  ...['callbacks', 'graph-host-memory', 'graph-host-order', 'host-functions'],
  ...['managed-memory', 'mapped-memory', 'pinned-order'],
];
const whole = [...few, ...some, 'held-loads', 'many-threads', 'stream-values', 'waiting-threads'];
// Those that allocate, map and share memory, or count what is free.
const memory = [
  ...['frees-while-running', 'frees-while-running-shared', 'ends-while-running', 'granularity'],
  ...['graph-host-memory', 'graph-memory', 'host-registration', 'ipc', 'managed-memory'],
  ...['mapped-memory', 'memory-calls', 'memory-pools', 'peer-devices', 'pool-sharing'],
  ...['pool-streams', 'shared-pieces', 'stack-memory', 'virtual-memory', 'virtual-vector'],
];
// A sample of all others, of one process each: two processes may be on two instances. A quarter for each change.
const sample = [
  ...['held-launches', 'device-calls', 'memory-calls', 'memory-pools', 'virtual-memory'],
  ...['managed-memory', 'mapped-memory', 'graph-memory', 'graph-conditional', 'device-heap'],
  ...['child-grid-sort', 'cluster-memory', 'grid-sync', 'occupancy', 'limits', 'link-ptx'],
  ...['texture-2d', 'surface-2d', 'tensor-gemm', 'launch-errors', 'wrong-addresses'],
].filter((_, index) => process.env['NIGHTLY'] || index % 4 === 0);
const runs: [traits: string, programs: string[]][] = [
  ['finite-queue=8', few],
  ['finite-queue=64', [...few, ...some]],
  ['finite-queue', whole],
  ['serial-host-functions', whole],
  ['nvidia-like', whole],
  ['granularity=64K', [...memory, 'free-memory']],
  // What is free is told in pieces of 2 MiB by `free-memory`.
  ['granularity=32M', memory],
];

/** For each change what is tightest, and all together. */
const usual = ['finite-queue=8', 'nvidia-like'];

for (const [traits, programs] of runs) {
  if (!process.env['NIGHTLY'] && !usual.includes(traits)) continue;
  t.test(traits, { skip: noPrograms }, async (t) => {
    const env = { SOFTWARE_DEVICE_TRAITS: traits };
    const server = await startServer({ env });
    t.teardown(() => server.stop());
    await same(t, server.address, programs, env);
  });
}

t.test('instances of a GPU', { skip: noPrograms }, async (t) => {
  // Alike, so that it does not matter which a program gets.
  const env = { SOFTWARE_DEVICE_TRAITS: 'mig=2g+2g', SOFTWARE_DEVICE_MEMORY: '16G' };
  const server = await startServer({ env });
  t.teardown(() => server.stop());
  t.equal(server.log().match(/"name":"Software Device MIG 2g.4gb"/g)?.length, 2);
  await same(t, server.address, sample, env);
  const { stdout } = await remoted(testProgram('device-calls'), server.address);
  t.match(stdout, /^Software Device MIG 2g.4gb$/m);
});

t.test('exclusive-process mode', { skip: noPrograms }, async (t) => {
  const folder = t.testdir({});
  const having = (what: string) => ({
    SOFTWARE_DEVICE_TRAITS: `exclusive-process=${path.join(folder, what)}`,
  });
  const server = await startServer({ env: having('server') });
  t.teardown(() => server.stop());
  // The server has its devices for itself, and so has a program beside it.
  await same(t, server.address, sample, having('program'));
});

async function same(t: Test, address: string, programs: string[], env: Record<string, string>) {
  for (const name of programs) {
    const here = await native(testProgram(name), { env });
    t.equal(here.code, 0, `${name} natively: ${here.stderr}`);
    const there = await remoted(testProgram(name), address);
    t.same([there.code, there.stdout], [0, here.stdout], name);
  }
}
