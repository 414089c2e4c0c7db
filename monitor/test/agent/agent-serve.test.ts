// The whole way: a guest, `outboard agent`, TLS, `outboard serve` with tenants, an API server. And
// what one tenant hears of another, which is nothing.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { Agent } from '../support/agent.js';
import { authority, serverFiles } from '../support/certificates.js';
import { asking, Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const folder = t.testdir();
const ours = authority(folder, 'ours');
const { cert, key } = serverFiles(ours, null);
const tls = ['--tls-listen', '127.0.0.1:0', '--tls-cert', String(cert), '--tls-key', String(key)];

t.test('a session by token, a session by certificate', async (t) => {
  const tenants = path.join(folder, 'tenants.yaml');
  const add = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', ...args, '--tenants', tenants], {
      encoding: 'utf8',
    });
  const token = path.join(folder, 'token');
  writeFileSync(token, add('vision', '--sessions', '1'));
  add('speech', '--certificates', 'URI=spiffe://lab/speech');
  const args = [...tls, '--tls-client-ca', ours.ca, '--tenants', tenants];
  const serving = await Serving.start(t, args);
  const [, server = ''] = /^tls:\/\/(.*)$/.exec(serving.listening[1] ?? '') ?? [];
  const agentFor = (...credentials: string[]) =>
    Agent.start(t, '--listen', '127.0.0.1:0', '--server', server, '--ca', ours.ca, ...credentials);

  const byAccessToken = await agentFor('--token-file', token);
  const vision = Guest.hello(byAccessToken.tcp, {
    name: 'secret-of-vision',
    program: 'vision-program',
  });
  t.ok((await vision.welcome()).memoryLimit > 0n);
  t.match(await serving.logged({ msg: 'session begins', tenant: 'vision' }), {
    peer: /^127\.0\.0\.1:\d+$/,
    name: 'secret-of-vision',
  });
  const over = await Guest.hello(byAccessToken.tcp).refusal();
  t.match(over, { code: 'OB_TENANT_SESSIONS' });

  const report = await Guest.hello(byAccessToken.tcp, asking()).report();
  t.match(report.processes, [{ program: 'vision-program' }], 'queries go the same way');

  const speech = ours.issue('speech', ['URI:spiffe://lab/speech']);
  const byCertificate = await agentFor('--cert', speech.cert, '--key', speech.key);
  const other = Guest.hello(byCertificate.tcp, { name: 'talk' });
  const welcome = await other.welcome();
  await serving.logged({ msg: 'session begins', tenant: 'speech', name: 'talk' });

  const nobody = await agentFor();
  const refusals = [await Guest.hello(nobody.tcp).refusal()];
  refusals.push(await Guest.hello(byCertificate.tcp, { memory: 1n << 50n }).refusal());
  refusals.push(await Guest.hello(byCertificate.tcp, { token: 'guess' }).refusal());
  t.same(
    refusals.map(({ code }) => code),
    ['OB_TOKEN_MISSING', 'OB_TOO_MUCH_MEMORY', 'OB_TOKEN_UNKNOWN'],
  );
  const heard = JSON.stringify([welcome, refusals], (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  t.notMatch(heard, /vision/, 'nothing of the other tenant');
  t.notMatch(serving.log, execFileSync('cat', [token], { encoding: 'utf8' }).trim(), 'no token');

  await vision.leave();
  await serving.logged({ tenant: 'vision', msg: /^session ends: the guest closed/ });
  t.ok(await Guest.hello(byAccessToken.tcp).welcome(), 'what it had is free again');
});

t.test('a program with several GPUs, all the way', async (t) => {
  const tenants = path.join(folder, 'several.yaml');
  const add = [outboard, 'tenant', 'add', 'vision', '--tenants', tenants];
  const token = path.join(folder, 'several');
  writeFileSync(token, execFileSync(process.execPath, add, { encoding: 'utf8' }));
  const serving = await Serving.start(t, [...tls, '--gpus', '2', '--tenants', tenants]);
  const [, server = ''] = /^tls:\/\/(.*)$/.exec(serving.listening[1] ?? '') ?? [];
  const to = ['--server', server, '--ca', ours.ca, '--token-file', token];
  const agent = await Agent.start(t, '--listen', '127.0.0.1:0', ...to);
  const first = Guest.hello(agent.tcp, { devices: 2 });
  const { tickets = [], devices } = await first.welcome();
  t.equal(tickets.length, 1);
  const stranger = Guest.hello(serving.address, { ticket: tickets[0] ?? '' });
  t.match(await stranger.refusal(), { code: 'OB_TOKEN_MISSING' });
  const other = Guest.hello(agent.tcp, { ticket: tickets[0] ?? '' });
  t.notSame((await other.welcome()).devices[0]?.uuid, devices[0]?.uuid);
  await first.leave();
  await other.leave();
});

t.test('TLS for everybody needs tenants', async (t) => {
  const open = tls.map((word) => word.replace('127.0.0.1', '0.0.0.0'));
  const serving = Serving.launch(t, open);
  t.equal(await serving.exit, 3);
  t.ok(await serving.logged({ code: 'OB_TENANTS_NEEDED' }));
});
