// What a program is kept from that outboard-confine has started, tried out by the program itself.
import { spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  closeSync,
  mkdtempSync,
  openSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import type { Driver } from '../../src/devices/devices.js';
import { openSandbox } from '../../src/slots/sandbox.js';
import { aDriver } from '../support/driver.js';

const library = path.join(build, 'software-device', 'libcuda.so.1');
const driver = aDriver({ library });
const kept = { build, driver, modules: null, uploads: null };
const { what = '' } = openSandbox({ wanted: 'auto', ...kept, traces: null }) ?? {};
const abi = Number(/\d+/.exec(what)?.[0] ?? 0);
const skip = abi >= 4 ? false : 'the Landlock of this kernel knows no TCP';

/** Runs JavaScript in the sandbox; what it writes. */
function confined(
  script: string,
  traces: string | null,
  kind: Driver['kind'] = 'software',
): string {
  const named = { ...kept, driver: { ...driver, kind } };
  const sandbox = openSandbox({ wanted: 'required', ...named, traces });
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

t.test('what the kernel has of its threads', { skip }, (t) => {
  const write = (name: string, text: string) => `
    const fs = require('fs');
    const [thread] = fs.readdirSync('/proc/self/task').slice(-1);
    ${attempt(`fs.writeFileSync('/proc/self/task/' + thread + '/${name}', '${text}') ?? 'written'`)}`;
  t.equal(confined(write('comm', 'named'), null), 'EACCES');
  t.equal(confined(write('comm', 'named'), null, 'nvidia'), 'written', "NVIDIA's driver does so");
  // The monitor has said which process is to go first; it has the right, and root here has no more.
  t.equal(confined(write('oom_score_adj', '-1000'), null, 'nvidia'), 'EACCES');
  t.equal(confined(write('../../../1/comm', 'init'), null, 'nvidia'), 'EACCES');
  t.end();
});

t.test('what is secret lies where a slot cannot read', { skip }, (t) => {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'outboard-confine-')));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const open = (secret: string, traces: string | null) =>
    openSandbox({ wanted: 'auto', ...kept, traces, secrets: [secret] });
  const token = path.join(folder, 'api.sock.token');
  t.ok(open(token, null));
  t.ok(open(token, `${folder}-beside`));
  const link = path.join(folder, 'link');
  symlinkSync('/opt', link);
  const linked = path.join(folder, 'server.key');
  symlinkSync('/usr/bin/env', linked);
  for (const [secret, around] of [
    [token, folder],
    [token, path.dirname(folder)],
    ['/opt/api.sock.token', null],
    [path.join(link, 'api.sock.token'), null],
    [linked, null],
  ] as const) {
    t.throws(() => open(secret, around), { code: 'OB_SANDBOX_SECRET' }, secret);
  }
  t.end();
});

t.test('no process of its own stays behind', { skip }, (t) => {
  const program = path.join(build, 'api-server', 'test', 'confine', 'confine-processes');
  const { command = '', args = [] } =
    openSandbox({ wanted: 'required', ...kept, traces: null }) ?? {};
  const inside = [...args.slice(0, args.indexOf('--')), '--run', program, '--', program];
  const { stdout } = spawnSync(command, inside, { encoding: 'utf8' });
  const outside = spawnSync(program, { encoding: 'utf8' }).stdout;
  t.match(outside, /^clone: made\nclone3: made\nthread: made\n$/m);
  const expected = outside
    .replace('clone3: made', 'clone3: Function not implemented')
    .replace(/^(fork|clone): made$/gm, '$1: Operation not permitted');
  t.equal(stdout, expected);
  t.end();
});

t.test('where there can be none', (t) => {
  const lines: { msg: string; why: string }[] = [];
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const none = { ...kept, build: '/nowhere', traces: null };
  t.equal(openSandbox({ wanted: 'auto', ...none, log }), null);
  t.match(lines, [{ msg: /no sandbox/, why: /is not built/ }]);
  t.throws(() => openSandbox({ wanted: 'required', ...none }), { code: 'OB_SANDBOX' });
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
  t.equal(confined(attempt(`${make} ?? 'made'`), null), 'EACCES');
  t.equal(confined(attempt(`${make} ?? 'made'`), null, 'nvidia'), 'made', 'its driver needs it');
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
  t.equal(confined(run, null), 'EPERM');
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
  t.equal(confined(connect, null), 'EACCES');
});

t.test('sockets', { skip }, (t) => {
  const program = path.join(build, 'api-server', 'test', 'confine', 'confine-sockets');
  const sandbox = openSandbox({ wanted: 'required', ...kept, traces: null });
  const args = sandbox?.args ?? [];
  const rules = args.slice(0, args.indexOf('--'));
  const confinedArgs = [...rules, '--run', program, '--', program];
  const made = (output: string) => output.trim().split('\n');
  const inside = spawnSync(sandbox?.command ?? '', confinedArgs, { encoding: 'utf8' });
  t.same(
    made(inside.stdout),
    [
      ...['AF_INET TCP', 'AF_INET UDP', 'AF_INET MPTCP', 'AF_INET6 TCP', 'AF_INET6 UDP'],
      ...['AF_INET6 MPTCP', 'AF_ALG', 'AF_VSOCK', 'AF_SMC', 'AF_PACKET', 'AF_INET of 64 bits'],
    ]
      .map((name) => `${name}: Permission denied`)
      .concat(
        ['AF_UNIX: made', 'netlink, routes: made', 'netlink, devices: made'],
        ['sockets', 'processes', 'all else'].map((what) => `netlink, ${what}: Permission denied`),
        ['pair: made', 'pair of TIPC: Permission denied', 'io_uring: Function not implemented'],
      ),
  );
  const outside = made(spawnSync(program, { encoding: 'utf8' }).stdout);
  t.ok(outside.includes('AF_INET TCP: made'), 'the sandbox it is that refuses');
  t.end();
});

/** What stays: it reaches nobody else. */
const ofItsOwn = [
  'processors',
  'processors of its own',
  'open',
  'lock',
  'times',
  'limit of its own',
];

// Root may do more to others than a service's user.
for (const uid of process.getuid?.() === 0 ? [0, 1234] : [process.getuid?.() ?? 0]) {
  t.test(`ways to others that no rule of files sees, user ${uid}`, { skip }, (t) => {
    const program = path.join(build, 'api-server', 'test', 'confine', 'confine-outsiders');
    const folder = mkdtempSync(path.join(tmpdir(), 'outboard-confine-'));
    const file = path.join(folder, 'token');
    writeFileSync(file, 'secret');
    for (const one of [folder, file]) chownSync(one, uid, uid);
    const other = spawn('sleep', ['100'], { uid });
    t.teardown(() => {
      other.kill();
      rmSync(folder, { recursive: true });
    });
    const sandbox = openSandbox({ wanted: 'required', ...kept, traces: null });
    const args = sandbox?.args ?? [];
    const rules = [...args.slice(0, args.indexOf('--')), '--read', folder, '--run', program];
    const what = [String(other.pid), file];
    const lines = (command: string, args: string[]) => {
      const { stdout } = spawnSync(command, args, { encoding: 'utf8', uid });
      return new Map(
        stdout
          .trim()
          .split('\n')
          .map((line) => line.split(': ') as [string, string]),
      );
    };
    const inside = lines(sandbox?.command ?? '', [...rules, '--', program, ...what]);
    const outside = lines(program, what);
    for (const limited of ['descriptors', 'threads']) {
      const [here, there] = [inside, outside].map((found) => Number(found.get(limited)));
      const unlimited = there === 2 ** 64;
      t.ok(here && there && (unlimited || here <= there / 2), `half of the ${limited}`);
    }
    t.same([...inside.keys()], [...outside.keys()]);
    for (const limited of ['descriptors', 'threads']) inside.delete(limited);
    for (const [call, result] of inside) {
      t.equal(result, ofItsOwn.includes(call) ? 'done' : 'Operation not permitted', call);
    }
    for (const call of ['chmod', 'fchmod', 'utimensat', 'lease', 'sched_setscheduler', 'inotify']) {
      t.equal(outside.get(call), 'done', `the sandbox it is that refuses ${call}`);
    }
    t.end();
  });
}

t.test('what the command does not understand', { skip }, (t) => {
  const command = path.join(build, 'api-server', 'outboard-confine');
  for (const args of [[], ['--'], ['--hide', '/', '--', '/bin/true'], ['--read', '/']]) {
    const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' });
    t.equal(status, 126, args.join(' '));
    t.match(stderr, /^outboard-confine: /);
  }
  t.end();
});
