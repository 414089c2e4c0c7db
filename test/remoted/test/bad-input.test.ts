// What goes wrong in practice: each case gets the CUDA error it should, and leaves the server
// serving the next program.
import { once } from 'node:events';
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import {
  example,
  native,
  outcome,
  remoted,
  startRemoted,
  testProgram,
} from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

let server: TestServer;
t.before(async () => {
  if (!noPrograms) server = await startServer();
});
t.teardown(async () => {
  if (!noPrograms) await server.stop();
});

const vectorAdd = () =>
  remoted(example('vector-add'), server.address, { args: ['--size', '1000'] });

async function stillServes(t: Pick<typeof import('tap').default, 'equal'>) {
  // As many times as there are slots and once more, so that every slot serves again.
  for (let i = 0; i < 3; i++) {
    const run = await vectorAdd();
    t.equal(run.code, 0, `the server serves the next program: ${run.stderr}`);
  }
}

/** Lines of a run, without what is not about errors. */
function lines(text: string): string[] {
  return text.split('\n').filter(Boolean);
}

t.test('a kernel that writes out of bounds', { skip: noPrograms }, async (t) => {
  const run = await remoted(testProgram('out-of-bounds'), server.address);
  t.equal(lines(run.stdout)[0], 'cudaDeviceSynchronize(): cudaErrorIllegalAddress');
  // The server says where.
  await server.logged(/out-of-bounds|illegal|0x/i);
  await stillServes(t);
});

t.test('host pointers where device pointers belong', { skip: noPrograms }, async (t) => {
  const run = await remoted(testProgram('host-pointer'), server.address);
  const [copy] = lines(run.stdout);
  t.match(copy, /cudaErrorInvalidValue/);
  t.match(run.stdout, /cudaDeviceSynchronize\(\): cudaErrorIllegalAddress/);
  await stillServes(t);
});

t.test('out of memory', { skip: noPrograms }, async (t) => {
  const run = await remoted(testProgram('out-of-memory'), server.address, {
    env: { OUTBOARD_MEMORY: '512M' },
  });
  t.match(run.stdout, /cudaMalloc\(&memory, total \+ 1\): cudaErrorMemoryAllocation/);
  t.match(run.stdout, /all is free again: yes/);
  await stillServes(t);
});

t.test('more memory than any GPU has is refused at once', { skip: noPrograms }, async (t) => {
  const run = await remoted(example('vector-add'), server.address, {
    env: { OUTBOARD_MEMORY: '100T', OUTBOARD_LOG: 'error' },
  });
  t.not(run.code, 0);
  t.match(run.stderr, /the server refused \(OB_/);
  await stillServes(t);
});

t.test('a fatbin without PTX', { skip: noPrograms }, async (t) => {
  const here = await native(testProgram('no-ptx'));
  const there = await remoted(testProgram('no-ptx'), server.address);
  t.match(there.stdout, /cudaErrorNoKernelImageForDevice/);
  t.equal(there.stdout, here.stdout);
  await stillServes(t);
});

t.test('an instruction the device does not know', { skip: noPrograms }, async (t) => {
  const run = await remoted(testProgram('unsupported-instruction'), server.address);
  t.equal(run.stdout, 'refused: CUDA_ERROR_NOT_SUPPORTED\ngood: 42\n');
  // The log names the instruction, and the kernel.
  await server.logged(/tcgen05/);
  await server.logged(/refused/);
  await stillServes(t);
});

t.test('a program killed in the middle of a copy', { skip: noPrograms }, async (t) => {
  for (let i = 0; i < 3; i++) {
    const child = startRemoted(testProgram('endless-copy'), server.address);
    await once(child.stdout as NodeJS.ReadableStream, 'data');
    child.kill('SIGKILL');
    const end = await outcome(child);
    t.equal(end.signal, 'SIGKILL');
  }
  await stillServes(t);
});

t.test('a server process that dies in the middle of a run', { skip: noPrograms }, async (t) => {
  const child = startRemoted(testProgram('endless-launch'), server.address, {
    env: { OUTBOARD_LOG: 'error' },
  });
  const end = outcome(child);
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  for (const pid of server.slots()) process.kill(pid, 'SIGKILL');
  const run = await end;
  t.match(run.stdout, /then: cudaErrorDevicesUnavailable/);
  t.match(run.stdout, /cudaMemset.*: cudaErrorDevicesUnavailable/, 'and so every later call');
  t.match(run.stderr, /the connection to the server is lost/);
  t.equal(run.code, 0);
  await stillServes(t);
});

t.test('callbacks hear that their server has died', { skip: noPrograms }, async (t) => {
  const child = startRemoted(testProgram('lost-callbacks'), server.address);
  const end = outcome(child);
  await once(child.stdout as NodeJS.ReadableStream, 'data');
  for (const pid of server.slots()) process.kill(pid, 'SIGKILL');
  const run = await end;
  t.equal(run.code, 0, run.stderr);
  t.match(run.stdout, /then: cudaErrorDevicesUnavailable/);
  t.match(run.stdout, /AddCallback.*: cudaErrorDevicesUnavailable/, 'a new one is refused');
  t.match(run.stdout, /told: cudaErrorDevicesUnavailable, cudaErrorDevicesUnavailable/, 'in order');
  t.match(run.stdout, /0 functions called/);
  await stillServes(t);
});

t.test(
  'the whole server is told to stop in the middle of a run',
  { skip: noPrograms },
  async (t) => {
    const other = await startServer();
    const child = startRemoted(testProgram('endless-launch'), other.address, {
      env: { OUTBOARD_LOG: 'error' },
    });
    const end = outcome(child);
    await once(child.stdout as NodeJS.ReadableStream, 'data');
    const slots = other.slots();
    t.equal(await other.stop(), 0, 'it ends well');
    const run = await end;
    t.match(run.stdout, /then: cudaError/);
    t.match(run.stderr, /the server ended the session/);
    for (const pid of slots) t.throws(() => process.kill(pid, 0), 'no process is left');
  },
);

t.test('more programs than slots wait in turn', { skip: noPrograms }, async (t) => {
  const runs = await Promise.all(Array.from({ length: 8 }, vectorAdd));
  for (const run of runs) t.equal(run.code, 0, run.stderr);
  t.ok(new Set(runs.map((run) => run.stdout)).size === 1, 'all get the same');
});
