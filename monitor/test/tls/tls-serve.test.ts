// The whole way by TLS: a program, the agent beside it, the server's front, a slot.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { noPrograms } from '../../../test/support/paths.js';
import { example, native, remoted } from '../../../test/support/program.js';
import { authority, serverFiles } from '../support/certificates.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const ours = authority(folder, 'ours');

async function agent(...args: string[]): Promise<ChildProcess> {
  const child = spawn(process.execPath, [outboard, 'agent', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  await once(createInterface({ input: child.stdout }), 'line');
  return child;
}

t.test('a certificate stands for a token', async (t) => {
  const tenants = path.join(folder, 'tenants.yaml');
  writeFileSync(
    tenants,
    `version: v1
tenants:
  - name: vision
    certificates: [CN=vision]
`,
  );
  const { cert, key } = serverFiles(ours, null);
  const serving = await Serving.start(t, [
    ...['--servers-per-gpu', '2', '--tenants', tenants, '--tls-listen', '127.0.0.1:0'],
    ...['--tls-cert', cert ?? '', '--tls-key', key ?? '', '--tls-client-ca', ours.ca],
  ]);
  const tls = serving.listening.find((one) => one.startsWith('tls://'))?.slice('tls://'.length);
  if (!tls) throw new Error(`no TLS: ${serving.listening.join(', ')}`);
  t.match(await Guest.hello(serving.address).refusal(), { code: 'OB_TOKEN_MISSING' });

  const vision = ours.issue('vision', []);
  const socket = path.join(folder, 'agent.sock');
  await agent(
    ...['--listen', `unix:${socket}`, '--server', tls, '--ca', ours.ca],
    ...['--cert', vision.cert, '--key', vision.key],
  );
  const guest = Guest.hello({ path: socket });
  await guest.welcome();
  await guest.leave();
  await serving.logged({ msg: 'session begins', tenant: 'vision' });

  const nobody = ours.issue('nobody', []);
  const other = path.join(folder, 'other.sock');
  await agent(
    ...['--listen', `unix:${other}`, '--server', tls, '--ca', ours.ca],
    ...['--cert', nobody.cert, '--key', nobody.key],
  );
  t.match(await Guest.hello({ path: other }).refusal(), { code: 'OB_CERTIFICATE_UNKNOWN' });

  await t.test('a CUDA program', { skip: noPrograms }, async (t) => {
    const program = example('vector-add');
    const here = await native(program);
    const there = await remoted(program, `unix:${socket}`);
    t.equal(there.code, 0, there.stderr);
    t.equal(there.stdout, here.stdout);
  });
});
