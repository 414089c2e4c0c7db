// A session by TLS survives cuts of its connection as any other does: what is sent again is sealed with the keys of the
// connection that is there now. So it is with a guest that speaks TLS itself, and with one behind an agent, by a Unix
// socket.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { Agent } from '../../../monitor/test/support/agent.js';
import { authority, serverFiles } from '../../../monitor/test/support/certificates.js';
import { Guest } from '../../../monitor/test/support/guest.js';
import { type CuttingProxy, seeded, startCuttingProxy } from '../../support/cutting-proxy.js';
import { hasMoved, Operator, Steps, startTwoGpus } from '../../support/moving.js';
import { noPrograms, noTls } from '../../support/paths.js';
import { native, remoted, startNative, startRemoted, testProgram } from '../../support/program.js';
import { startServer, type TestServer } from '../../support/server.js';

const skip = noPrograms || noTls;

// Paths of sockets are short.
const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const ours = authority(folder, 'ours');
const { cert, key } = serverFiles(ours, null);
const grace = ['--grace-disconnected', '20'];
const tls = [
  ...['--tls-listen', '127.0.0.1:0', '--tls-cert', String(cert), '--tls-key', String(key)],
  ...grace,
];
const env = { OUTBOARD_CA: ours.ca };

const socketOf = (server: TestServer) => String(server.tlsAddress).replace('tls://', '');
const named = ({ address }: CuttingProxy) => `tls://${address.replace('127.0.0.1', 'localhost')}`;

/** Behind handshake and Welcome, and each connection gets further than the one before it. */
function cutting(seed: number) {
  const random = seeded(seed);
  return {
    after: (connection: number) => 12_000 + Math.floor(random() * 8_000 * 2 ** connection),
    reset: () => random() < 0.5,
  };
}

let server: TestServer;
t.before(async () => {
  if (skip) return;
  const args = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '2'];
  server = await startServer({ args: [...args, '--http', '127.0.0.1:0', ...tls] });
  await server.logged(/"http":/);
});
t.teardown(async () => {
  if (!skip) await server.stop();
});

const programs = ['copies', 'host-functions'];
const rounds = Number(process.env['OUTBOARD_TEST_CUTS'] ?? (process.env['NIGHTLY'] ? 10 : 2));

for (const name of programs) {
  t.test(`${name} is cut at random bytes`, { skip }, async (t) => {
    const here = await native(testProgram(name));
    t.equal(here.code, 0, here.stderr);
    for (let seed = 1; seed <= rounds; seed++) {
      const proxy = await startCuttingProxy(socketOf(server), cutting(seed));
      const there = await remoted(testProgram(name), named(proxy), { env });
      t.equal(there.stdout, here.stdout, `seed ${seed}: ${there.stderr}`);
      t.equal(there.code, here.code, `seed ${seed}`);
      t.ok(proxy.cuts() > 1, `seed ${seed}: it was cut ${proxy.cuts()} times`);
      await proxy.close();
    }
    await new Operator(server).rested();
  });
}

t.test('behind an agent, by a Unix socket', { skip }, async (t) => {
  const here = await native(testProgram('copies'));
  const proxy = await startCuttingProxy(socketOf(server), cutting(3));
  t.teardown(() => proxy.close());
  const at = ['--server', proxy.address, '--ca', ours.ca];
  const agent = await Agent.start(t, '--listen', `unix:${path.join(folder, 'agent')}`, ...at);
  const there = await remoted(testProgram('copies'), agent.address, {});
  t.same([there.stdout, there.code], [here.stdout, here.code], there.stderr);
  t.ok(proxy.cuts() > 1, `it was cut ${proxy.cuts()} times`);
  await new Operator(server).rested();
});

t.test('and moves, with its guest there or away', { skip }, async (t) => {
  const { server: two, operator } = await startTwoGpus(t, tls);
  const proxy = await startCuttingProxy(socketOf(two));
  t.teardown(() => proxy.close());
  const words = ['step', 'load', 'late', 'step', 'late', 'step'];
  const natively = new Steps(startNative(testProgram('moved-steps'), { writes: true }));
  for (const word of words) await natively.say(word);
  const here = await natively.end();
  const steps = new Steps(
    startRemoted(testProgram('moved-steps'), named(proxy), { writes: true, env }),
  );
  const { id } = await operator.session();
  let moves = 0;
  for (const [i, word] of words.entries()) {
    await steps.say(word);
    proxy.refuse(i % 3 === 1);
    if (i % 3) proxy.cut();
    if (i % 3 === 1) await operator.sessionThat(({ away }) => away !== null);
    // An end is kept for 5 seconds, and a move may take as long.
    proxy.refuse(false);
    const answer = await operator.moveSoon(id, {});
    if (hasMoved(answer)) moves++;
    else t.match(answer.message, /the guest|its guest/, word);
  }
  const there = await steps.end();
  t.same([there.code, there.stdout], [here.code, here.stdout], there.stderr);
  t.ok(moves > 3, `it moved ${moves} times`);
  t.ok(proxy.cuts() > 1, `it was cut ${proxy.cuts()} times`);
  await operator.rested();
});

t.test('who has come by TLS comes back by TLS', { skip }, async (t) => {
  const at = (address: string) => {
    const [host = '', port] = address.split(':');
    return { host, port: Number(port) };
  };
  const [sealed, clear] = [at(socketOf(server)), at(server.address)];
  const guest = Guest.hello(sealed, { resumes: true }, ours.ca);
  const { session, resumeSecret: secret } = await guest.welcome();
  if (secret?.length !== 16) throw new Error('no secret');
  const resume = (epoch: number) => ({
    windowBases: [],
    windowSize: 0n,
    resume: { session, secret, epoch, received: 0n },
  });
  t.match(await Guest.hello(clear, resume(1)).refusal(), { code: 'OB_RESUME' });
  guest.send(Buffer.from([0, 0, 0]));
  const second = Guest.hello(sealed, resume(2), ours.ca);
  t.strictSame(await second.answer(), { resumed: { received: 3n } });
  t.equal(await guest.answer(), null, 'the old connection is at an end');
  t.match(await Guest.hello(clear, resume(3)).refusal(), { code: 'OB_RESUME' });
  second.socket.destroy();
});
