// `outboard doctor`: what it says of servers that can be used, and of those that cannot.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import type { GpuState } from '../../policies/state.js';
import { deviceRoom } from '../../src/devices/device-room.js';
import { formatAddress } from '../../src/options/values.js';
import type { Step } from '../../src/run/doctor.js';
import { authority } from '../support/certificates.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

interface Said {
  code: number;
  text: string;
  failed: string | null;
  steps: Step[];
}

async function run(args: string[], env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [outboard, 'doctor', ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const [code] = await once(child, 'close');
  return { code, text };
}

async function doctor(args: string[], env: NodeJS.ProcessEnv = {}): Promise<Said> {
  const { code, text } = await run([...args, '--json'], env);
  const { failed, steps } = JSON.parse(text) as Said;
  const lines = steps.map(({ name, ok, text, remedy }) => {
    return `${ok ? 'ok' : 'BAD'} ${name} ${text}\n${remedy === null ? '' : `${remedy}\n`}`;
  });
  return { code, failed, steps, text: lines.join('') };
}

t.test('all is well', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '1']);
  const server = ['--server', formatAddress(serving.address)];
  const { text } = await run([...server, '--memory', '64M']);
  const { code, failed, steps } = await doctor([...server, '--memory', '64M']);
  t.equal(code, 0);
  t.equal(failed, null);
  t.equal(text.split('\n').filter((line) => /^ok /.test(line)).length, 8);
  t.match(text, /^ok +kernel +\d+\.\d ms +a kernel has run, and its result is right; again in/m);
  const names = steps.map(({ name }) => name);
  const all = ['connection', 'server', 'tenant', 'gpus', 'queue', 'attach', 'module', 'kernel'];
  t.same(names, all);
  const [, , tenant, gpu, queue, attach] = steps;
  t.match(tenant, { text: /no tenants/, facts: { tenant: null } });
  t.match(gpu, { facts: { name: 'Software Device', share: 100, slots: 1 } });
  t.equal(gpu?.facts['usualMemory'], 64 << 20, 'what a session like this gets');
  t.ok(Number(gpu?.facts['memory']) > 64 << 20);
  t.equal(queue?.facts['position'], 0);
  t.equal(attach?.facts['memory'], 64 << 20, 'the program asked for it as well');
});

t.test('nobody, and nobody of ours', async (t) => {
  const none = await doctor(['--server', '127.0.0.1:1']);
  t.match(none, { code: 3, failed: 'connection', text: /nobody listens there\nSee whether/ });
  const page = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1');
  await once(page, 'listening');
  t.teardown(() => page.close());
  const other = `127.0.0.1:${(page.address() as AddressInfo).port}`;
  t.match(await doctor(['--server', other]), {
    code: 3,
    failed: 'server',
    text: /what answers is not an Outboard server/,
  });
  const serving = await Serving.start(t);
  const two = `127.0.0.1:1,${formatAddress(serving.address)}`;
  t.match(await doctor(['--server', two]), { code: 0, failed: null, text: /no connection to/ });
});

t.test('tenants: a wrong token, too much, all slots taken', async (t) => {
  const file = path.join(t.testdir({}), 'tenants.yaml');
  const add = ['tenant', 'add', 'acme', '--sessions', '1', '--tenants', file];
  const token = execFileSync(process.execPath, [outboard, ...add], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
  const serving = await Serving.start(t, ['--tenants', file, '--servers-per-gpu', '1']);
  const server = ['--server', formatAddress(serving.address), '--timeout', '5', '--wait', '0'];
  t.match(await doctor(server), {
    code: 4,
    failed: 'tenant',
    text: /brings no token \(OB_TOKEN_M/,
  });
  const wrong = path.join(t.testdir({}), 'wrong');
  writeFileSync(wrong, 'x\n');
  // The file that is named goes before the token in the environment.
  t.match(await doctor([...server, '--token-file', wrong], { OUTBOARD_TOKEN: token }), {
    code: 4,
    failed: 'tenant',
    text: /no tenant of this server has the token that the program brings \(OB_TOKEN_UNKNOWN\)\nSee/,
  });
  const good = await doctor(server, { OUTBOARD_TOKEN: token });
  t.match(good, { code: 0, text: /^ok tenant acme$/m });
  t.match(await doctor([...server, '--memory', '900G'], { OUTBOARD_TOKEN: token }), {
    code: 4,
    failed: 'queue',
    text: /OB_TOO_MUCH_MEMORY/,
  });
  const holding = Guest.hello(serving.address, { token });
  await holding.welcome();
  const taken = await doctor(server, { OUTBOARD_TOKEN: token });
  t.match(taken, {
    code: 4,
    failed: 'queue',
    text: /all its slots are taken(.|\n)*OB_TENANT_SESSIONS/,
  });
  await holding.leave();
});

t.test('TLS: who answers, and how it is known', async (t) => {
  const ours = authority(t.testdir({}), 'ours');
  const { cert, key } = ours.issue('server', ['IP:127.0.0.1']);
  const serving = await Serving.start(t, [
    ...['--tls-listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key],
  ]);
  const plain = formatAddress(serving.address);
  const tls = serving.listening.find((one) => one.startsWith('tls://')) ?? '';
  const ca = ['--ca', ours.ca];
  t.match(await doctor(['--server', tls, ...ca]), { code: 0, text: /^ok kernel/m });
  t.match(await doctor(['--server', tls, '--ca', cert]), { code: 0 }, 'the certificate itself');
  const { ca: others } = authority(path.join(path.dirname(ours.ca), 'more'), 'others');
  for (const [args, failed, text] of [
    [['--server', tls], 'connection', /certificate\nName the authority's file.*--ca/],
    [
      ['--server', tls.replace('127.0.0.1', 'localhost'), ...ca],
      'connection',
      /\nName the server as/,
    ],
    [['--server', tls, '--ca', others], 'connection', /\n\S+ca\.pem holds neither: name the auth/],
    [['--server', `tls://${plain}`, ...ca], 'connection', /\nThat port speaks no TLS/],
    [['--server', tls.replace('tls://', ''), ...ca], 'server', /speaks TLS\nSay tls:\/\/127/],
  ] as [string[], string, RegExp][]) {
    t.match(await doctor(args), { code: 3, failed, text });
  }
});

t.test('a certificate that the library does not believe', async (t) => {
  const ours = authority(t.testdir({}), 'ours');
  const { cert, key } = ours.issue('localhost', []);
  const serving = await Serving.start(t, [
    ...['--tls-listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key],
  ]);
  const tls = serving.listening.find((one) => one.startsWith('tls://')) ?? '';
  const text = /no name that counts \(subjectAltName\)\nName the server as its certificate does/;
  const server = tls.replace('127.0.0.1', 'localhost');
  const told = await doctor(['--server', server, '--ca', ours.ca]);
  t.match(told, { code: 3, failed: 'connection', text });
});

t.test('a place in the queue, and no session in time', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const holding = Guest.hello(serving.address);
  await holding.welcome();
  const args = ['--server', formatAddress(serving.address), '--timeout', '1', '--wait', '1'];
  const late = await doctor(args);
  t.match(late, { code: 5, failed: 'attach', text: /^ok queue place 1$/m });
  t.match(late.text, /not done within 2 seconds\nOthers have the GPUs: allow more with --wait/);
  await holding.leave();
});

t.test('a session, and no kernel that runs or is right', async (t) => {
  // A device that takes every call and computes nothing.
  const nothing = path.join(build, 'bench', 'null-device', 'libcuda.so.1');
  const wrong = await Serving.start(t, ['--device', nothing]);
  t.match(await doctor(['--server', formatAddress(wrong.address)]), {
    code: 6,
    failed: 'kernel',
    text: /^ok module (.|\n)*^BAD kernel what the kernel has computed is wrong\nThe way there is good/m,
  });
  t.equal((await run(['--memory', 'much'])).code, 2, 'what it cannot read it does not try');
});

t.test('what could be had of a GPU', async (t) => {
  const session = (shareRequest: number) => ({ shareRequest }) as GpuState['sessions'][number];
  const gpu = {
    healthy: true,
    memory: 100n,
    reserved: 40n,
    usual: 20n,
    free: [true, false, true],
    sessions: [session(30), session(0)],
  } as unknown as GpuState;
  const parameters = { omega: 1, gamma: 1.5 };
  const usual = { asked: 0n, left: null, shareLeft: null };
  t.same(deviceRoom(gpu, parameters, usual), { memory: 60n, share: 70, slots: 2, session: 20n });
  t.equal(deviceRoom(gpu, parameters, { asked: 7n, left: null, shareLeft: null }).session, 7n);
  const cut = { asked: 0n, usualMost: 15n, left: 30n, shareLeft: 50 };
  t.same(deviceRoom(gpu, parameters, cut), { memory: 30n, share: 50, slots: 2, session: 15n });
  const none = { memory: 0n, share: 0, slots: 0, session: 20n };
  t.same(deviceRoom({ ...gpu, free: [false] }, parameters, usual), none);
  t.same(deviceRoom({ ...gpu, healthy: false }, parameters, usual), none);
  t.same(deviceRoom({ ...gpu, reserved: 120n }, { omega: 0.2, gamma: 1 }, usual).share, 0);
});
