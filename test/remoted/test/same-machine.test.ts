// A guest on the server's machine, by a Unix socket: large copies go through memory that both share.
// Programs behave as by TCP, and whoever dies leaves nothing behind.
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { hasMoved, startTwoGpus } from '../../support/moving.js';
import { noPrograms } from '../../support/paths.js';
import {
  counted,
  native,
  outcome,
  remoted,
  startRemoted,
  testProgram,
} from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

// Paths of sockets are short.
const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
const socket = path.join(folder, 'socket');
const shared = /large copies go through memory shared with the server/;

let server: TestServer;
t.before(async () => {
  if (noPrograms) return;
  const args = ['--listen', `unix:${socket}`, '--device', 'software', '--gpus', '2'];
  server = await startServer({ args });
});
t.teardown(async () => {
  if (!noPrograms) await server.stop();
  rmSync(folder, { recursive: true });
});

const env = { OUTBOARD_LOG: 'info' };

/** What API servers have of regions. */
const mapped = () => server.slots().filter((pid) => /outboard-region/.test(mapsOf(pid)));

function mapsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8');
  } catch {
    return ''; // it has ended
  }
}

async function nothingMapped() {
  while (mapped().length > 0) await sleep(10);
}

/** A program that copies until it is killed, and is at it. */
async function copying() {
  await nothingMapped();
  const child = startRemoted(testProgram('endless-copy'), server.address, { env });
  const ended = outcome(child);
  while (mapped().length === 0) await sleep(5);
  return { child, ended };
}

t.test('copies of any size', { skip: noPrograms }, async (t) => {
  const here = await native(testProgram('copies'));
  t.equal(here.stdout, 'what came back: right\n', here.stderr);
  const there = await counted(testProgram('copies'), server.address, { env });
  t.equal(there.stdout, here.stdout);
  t.equal(there.code, 0);
  t.match(there.stderr, shared);
  const without = { ...env, OUTBOARD_ABLATION: 'region' };
  const sent = await counted(testProgram('copies'), server.address, { env: without });
  t.equal(sent.stdout, here.stdout);
  t.notMatch(sent.stderr, shared);
  // How much depends on how busy the machine is.
  t.ok(there.cost.bytesSent < sent.cost.bytesSent, 'bytes to the device');
  t.ok(there.cost.bytesReceived < sent.cost.bytesReceived, 'bytes from the device');
});

t.test('of a session that moves meanwhile', { skip: noPrograms }, async (t) => {
  const beside = path.join(folder, 'moving');
  const { server: two, operator } = await startTwoGpus(t, ['--listen', `unix:${beside}`]);
  const options = { env, args: ['on'], writes: true };
  const child = startRemoted(testProgram('copies'), two.address, options);
  const ended = outcome(child);
  while (!two.slots().some((pid) => /outboard-region/.test(mapsOf(pid)))) await sleep(5);
  const { id } = await operator.session();
  let moves = 0;
  for (const within of [false, true, false]) {
    const answer = await operator.moveSoon(id, within ? { within } : {});
    if (hasMoved(answer)) moves++;
    else t.fail(answer.message);
  }
  child.stdin?.end();
  const { stdout, stderr } = await ended;
  t.equal(stdout, 'what came back: right\n', stderr);
  t.equal(moves, 3);
  t.match(stderr, shared);
  await operator.rested();
});

t.test('on several devices', { skip: noPrograms }, async (t) => {
  const gpus = { ...env, OUTBOARD_GPUS: '2' };
  for (const name of ['copies', 'several-devices']) {
    const there = await remoted(testProgram(name), server.address, { env: gpus });
    t.equal(there.code, 0, there.stderr);
    t.notMatch(there.stdout, /WRONG/);
    if (name !== 'copies') continue;
    t.equal(there.stderr.match(new RegExp(shared, 'g'))?.length, 2, 'a region each');
  }
});

for (const name of [
  'memory',
  'upload-twice',
  'closed-descriptors',
  'cloned-child',
  'forks',
  'threads',
  'batch-copies',
  'bulk-copies',
  'group-copies',
  'managed-memory',
  'mapped-memory',
  'pinned-order',
  'pitched-copies',
  'volume-copies',
]) {
  t.test(`program ${name}`, { skip: noPrograms }, async (t) => {
    const here = await native(testProgram(name));
    const there = await remoted(testProgram(name), server.address);
    t.equal(there.code, here.code, there.stderr);
    t.equal(there.stdout, here.stdout);
    t.equal(there.stderr, here.stderr);
  });
}

t.test('a relay in between passes no memory on', { skip: noPrograms }, async (t) => {
  const relay = net.createServer((guest) => {
    const server = net.connect(socket);
    for (const [from, to] of [[guest, server] as const, [server, guest] as const]) {
      from.on('error', () => to.destroy()).pipe(to);
    }
  });
  const other = path.join(folder, 'relay');
  relay.listen(other);
  await once(relay, 'listening');
  t.teardown(() => relay.close());
  const there = await remoted(testProgram('copies'), `unix:${other}`, { env });
  t.equal(there.stdout, 'what came back: right\n');
  t.match(there.stderr, /no memory is shared with the server: no descriptor came with it/);
});

t.test('a guest that is killed while it copies', { skip: noPrograms }, async (t) => {
  for (let round = 0; round < 3; round++) {
    const { child, ended } = await copying();
    await sleep(50 * round); // somewhere else in its copies each time
    child.kill('SIGKILL');
    await ended;
    await nothingMapped();
  }
  const next = await remoted(testProgram('copies'), server.address, { env });
  t.equal(next.stdout, 'what came back: right\n');
  t.match(next.stderr, shared);
});

t.test('a server that is killed while it copies', { skip: noPrograms }, async (t) => {
  const { ended } = await copying();
  for (const pid of mapped()) process.kill(pid, 'SIGKILL');
  const { signal, stderr } = await ended;
  t.equal(signal, null, 'it is told');
  t.match(stderr, /the connection to the server is lost/);
  t.match(stderr, /cudaErrorDevicesUnavailable/);
});
