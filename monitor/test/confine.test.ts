// What a program is kept from that outboard-confine has started, tried out by the program itself.
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { build } from '../../scripts/setup/paths.mjs';
import type { Driver } from '../src/devices.js';
import { openSandbox } from '../src/sandbox.js';

const library = path.join(build, 'software-device', 'libcuda.so.1');
const driver: Driver = {
  kind: 'software',
  library,
  gpus: 1,
  offered: [],
  env: {},
  nvml: null,
  file: null,
  instead: null,
};
const kept = { build, driver, modules: null, uploads: null };
const { what = '' } = openSandbox({ wanted: 'auto', ...kept, traces: null }) ?? {};
const abi = Number(/\d+$/.exec(what)?.[0] ?? 0);
const skip = abi >= 4 ? false : 'the Landlock of this kernel knows no TCP';

/** Runs JavaScript in the sandbox; what it writes. */
function confined(script: string, traces: string | null): string {
  const sandbox = openSandbox({ wanted: 'required', ...kept, traces });
  const args = [...(sandbox?.args ?? []), '-e', script];
  return spawnSync(sandbox?.command ?? '', args, { encoding: 'utf8' }).stdout.trim();
}

const attempt = (call: string) =>
  `try { console.log(${call}) } catch (error) { console.log(error.code) }`;

t.test('files', { skip }, (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-confine-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const secret = path.join(folder, 'tenants.yaml');
  writeFileSync(secret, 'secret');
  const read = attempt(`String(require('fs').readFileSync('${secret}'))`);
  t.equal(confined(read, null), 'EACCES');
  t.equal(confined(read, folder), 'secret', 'what is named is there');
  const write = attempt(`require('fs').writeFileSync('${secret}', '') ?? 'written'`);
  t.equal(confined(write, null), 'EACCES');
  t.equal(confined(write, folder), 'written');
  t.equal(confined(attempt(`require('fs').readFileSync('/etc/shadow').length`), null), 'EACCES');
  t.end();
});

t.test('devices', { skip }, (t) => {
  const open = (name: string) =>
    confined(
      attempt(`require('fs').closeSync(require('fs').openSync('/dev/${name}')) ?? 'open'`),
      null,
    );
  for (const name of ['null', 'zero', 'urandom']) t.equal(open(name), 'open', name);
  const file = `/dev/shm/outboard-confine-${process.pid}`;
  const make = `require('fs').writeFileSync('${file}', '') ?? require('fs').unlinkSync('${file}')`;
  t.equal(confined(attempt(`${make} ?? 'made'`), null), 'made');
  // Of what no GPU is, as much as this machine has and lets us open.
  for (const name of ['kmsg', 'kvm', 'fuse', 'vda', 'loop-control', 'tty', 'ptmx', 'net/tun']) {
    if (canOpen(`/dev/${name}`)) t.equal(open(name), 'EACCES', name);
  }
  t.end();
});

function canOpen(file: string): boolean {
  try {
    closeSync(openSync(file, 'r'));
    return true;
  } catch {
    return false;
  }
}

t.test('other programs and processes', { skip }, (t) => {
  const other = spawn('sleep', ['100']);
  t.teardown(() => other.kill());
  const run = `console.log(require('child_process').spawnSync('/bin/true').error?.code ?? 'ran')`;
  t.equal(confined(run, null), 'EACCES');
  for (const what of ['environ', 'maps', 'mem']) {
    const read = `require('fs').closeSync(require('fs').openSync('/proc/${other.pid}/${what}'))`;
    t.match(confined(attempt(`${read} ?? 'opened'`), null), /^E(ACCES|PERM)$/, what);
  }
  const signal = `try { process.kill(${other.pid}, 'SIGTERM'); console.log('sent') } catch (error) { console.log(error.code) }`;
  t.equal(confined(signal, null), abi >= 6 ? 'EPERM' : 'sent');
  t.end();
});

t.test('the network', { skip }, async (t) => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const connect = `require('net').connect(${port}, '127.0.0.1').on('connect', () => { console.log('connected'); process.exit() }).on('error', (error) => console.log(error.code))`;
  t.equal(confined(connect, null), abi >= 4 ? 'EACCES' : 'connected');
});

t.test('what the command does not understand', { skip }, (t) => {
  const command = path.join(build, 'api-server', 'outboard-confine');
  for (const args of [[], ['--'], ['--hide', '/', '--', '/bin/true'], ['--read', '/']]) {
    const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
    t.equal(status, 126, args.join(' '));
    t.match(stderr, /^outboard-confine: /);
  }
  t.end();
});
