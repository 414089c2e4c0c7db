// The commands that ask a server, as real processes, of the HTTP API in this one.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { which } from '../../../scripts/setup/command.mjs';
import { screen } from '../../src/commands/top.js';
import { TestApi } from '../support/api.js';

import { gpu, MemoryOperations, session, waiting } from '../support/operations.js';
import { outboard } from '../support/serving.js';

interface Result {
  status: number | string;
  stdout: string;
  stderr: string;
}

/** Escape characters in a form that can be read here and in what a test says. */
const readable = (text: Buffer | string) => String(text).replaceAll('\x1b', '␛');

function start(args: string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, [outboard, ...args], { env: { ...process.env, ...env } });
}

async function resultOf(child: ChildProcess): Promise<Result> {
  const result: Result = { status: 0, stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => {
    result.stdout += readable(chunk);
  });
  child.stderr?.on('data', (chunk) => {
    result.stderr += chunk;
  });
  const [code, signal] = await once(child, 'close');
  return { ...result, status: signal ?? code };
}

function cli(api: TestApi | null, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return resultOf(start(args, { ...(api && { OUTBOARD_API: api.url }), ...env }));
}

/** Resolves when the output of a process has come to hold something. */
function shows(
  child: ChildProcess,
  wanted: RegExp,
  where: 'stdout' | 'stderr' = 'stdout',
): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const look = (chunk: Buffer | string) => {
      text += readable(chunk);
      if (wanted.test(text)) {
        child[where]?.off('data', look);
        resolve(text);
      }
    };
    child[where]?.on('data', look);
    child.once('close', () => reject(new Error(`never showed ${wanted}:\n${text}`)));
  });
}

t.test('status: one screen, and JSON', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  const { status, stdout, stderr } = await cli(api, ['status']);
  t.match({ status, stderr }, { status: 0, stderr: '' });
  t.match(stdout, /^Outboard 0\.1\.0 on gpu-1: software device, up /);
  t.match(stdout, /1 sessions, 1 waiting; slots: 2 busy, 2 free, 0 starting\n/);
  t.match(
    stdout,
    / 0 {2}Software Device {2}\[###\.{7}\] {2}2\.0 GiB \/ 7\.0 GiB .* 55% .* 30% .* 1\/2\n/,
  );
  t.match(
    stdout,
    / 1 {2}0\.0 {3}- {2}acme {4}resize {2}worker-7:4242 .*30:60 .*29%\/30% .* 12\.5s {2}running\n/,
  );
  t.match(stdout, / 1 {8}2 {2}acme {4}train .* 1 {3}usual {2}0:100 {3}3\.5s\n/);
  t.notMatch(stdout, '␛', 'no colours where there is no terminal');
  t.equal(Math.max(...stdout.split('\n').map((line) => line.length)) <= 120, true);
  operations.listen = ['0.0.0.0:4460', 'tls://[::]:4462', 'unix:/run/guests.sock'];
  t.match(
    (await cli(api, ['status'])).stdout,
    'guests connect to gpu-1:4460, tls://gpu-1:4462, unix:/run/guests.sock\n',
  );
  operations.listen = ['127.0.0.1:4460'];
  const json = JSON.parse((await cli(api, ['status', '--json'])).stdout);
  t.match(json, { ...operations.view(), server: { host: 'gpu-1' } });

  operations.gpus = [gpu(0, { healthy: false, problem: 'it fell off the bus' })];
  operations.sessions = [];
  operations.queue = [];
  operations.draining = true;
  const other = (await cli(api, ['status'])).stdout;
  t.match(other, /being emptied\n/);
  t.match(other, /GPU 0 takes no sessions: it fell off the bus\n/);
  t.match(other, /\nno sessions\n$/);
});

t.test('what guests call themselves cannot move the cursor', async (t) => {
  const api = await TestApi.start(t);
  api.operations.sessions = [session(1, { name: '\x1b[2Jx\u202e\u0007', tenant: 'a\nb' })];
  api.operations.log({ time: 0, level: 'info', msg: '\x1b]0;title\x07', x: '\x1b[A' });
  for (const args of [['status'], ['sessions'], ['top', '--once'], ['logs']]) {
    const { stdout } = await cli(api, args);
    t.notMatch(stdout, /\p{Cf}|[^\P{Cc}\n]/u, args.join(' '));
    t.match(stdout, '?', args.join(' '));
  }
});

t.test('sessions: sorted, and JSON', async (t) => {
  const api = await TestApi.start(t);
  const memory = (used: number) => ({ limit: 2 ** 30, used, peak: used });
  api.operations.sessions = [
    session(5, { memory: memory(10), tenant: 'b' }),
    session(3, { memory: memory(30), tenant: 'c' }),
    session(4, { memory: memory(20), tenant: 'a' }),
  ];
  const ids = async (...args: string[]) => {
    const { stdout } = await cli(api, ['sessions', '--json', ...args]);
    return JSON.parse(stdout).sessions.map(({ id }: { id: number }) => id);
  };
  t.same(await ids(), [3, 4, 5]);
  t.same(await ids('--sort', 'memory'), [3, 4, 5]);
  t.same(await ids('--sort', 'tenant'), [4, 5, 3]);
  const text = (await cli(api, ['sessions', '--sort', 'tenant'])).stdout;
  t.match(text, /^SESSION .*\n +4 .*\n +5 .*\n +3 .*\n\nGPU 0: .*\n\nWAITING/);
  t.match(text, / 0\.0 +- {2}a /, 'of one GPU');
  const group = (ordinal: number) => ({ session: 3, ordinal, gpus: [0, 1] });
  api.operations.sessions = [
    session(3, { group: group(0) }),
    session(4, { group: group(1), gpu: 1, slot: 1 }),
  ];
  api.operations.queue = [{ ...waiting(5, 1), gpus: 4 }];
  const several = (await cli(api, ['sessions'])).stdout;
  t.match(several, /GPU +OF +TENANT.*\n +3 +0\.0 +3 .*\n +4 +1\.1 +3 /);
  t.match(several, /GPUS +MEMORY.*\n +1 +5 .* 4 +usual/);
  t.match(await cli(api, ['sessions', '--sort', 'x']), { status: 2, stderr: /one of id, memory/ });
});

t.test('sessions: whose guest is away, since when, and until when it is kept', async (t) => {
  const api = await TestApi.start(t);
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
  const away = { since: at(-90), until: at(7200) };
  api.operations.sessions = [
    session(3, { away }),
    session(4),
    session(5, { state: 'moving', away }),
  ];
  const { stdout } = await cli(api, ['sessions']);
  t.match(stdout, /\n +3 .* away +-\n +4 .* running +-\n +5 .* moving +-\n/);
  const line = (id: number) =>
    `session ${id}: its guest is away since ${away.since} \\(for 1:\\d\\d\\); kept until ${away.until} \\(for 1:59:\\d\\d\\)\n`;
  t.match(stdout, new RegExp(`\n\n${line(3)}${line(5)}\nGPU 0: `));
  t.match((await cli(api, ['status'])).stdout, / away\n/);
  const { sessions } = JSON.parse((await cli(api, ['sessions', '--json'])).stdout);
  t.same(
    sessions.map(({ away }: { away: unknown }) => away),
    [away, null, away],
  );
});

t.test('why: each decision on a line of its own, and JSON', async (t) => {
  const api = await TestApi.start(t);
  t.match(await cli(api, ['why', '1']), {
    ...{ status: 0, stderr: '' },
    stdout: `session 1 (resize of acme): running
  03:04:05.678  admission  everybody may come in?[2J
  03:04:05.678  queue      it waits (3 times, last at 03:04:09.000)
  now: it is on GPU 0, with a share of 30:60
`,
  });
  const json = JSON.parse((await cli(api, ['why', '1', '--json'])).stdout);
  t.match(json, { session: 1, state: 'running', decisions: [{ kind: 'admission' }, { times: 3 }] });
  t.match(await cli(api, ['why', '99']), { status: 3, stderr: /OB_NO_DECISIONS/ });
  t.match(await cli(api, ['why', 'x']), { status: 2, stderr: /x is no session/ });
  t.match(await cli(api, ['why']), { status: 2, stderr: /one SESSION/ });
});

t.test('kill, quota and drain act', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  operations.sessions = [session(1), session(7), session(8)];
  const done = { status: 0, stderr: '' };
  t.match(await cli(api, ['quota', 'set', '1', '40:80']), {
    ...done,
    stdout: 'session 1 has 40 percent, at most 80\n',
  });
  t.match(operations.sessions[0]?.share, { request: 40, limit: 80 });
  const json = (await cli(api, ['quota', 'set', '1', '25', '--json'])).stdout;
  t.match(JSON.parse(json), { id: 1, share: { request: 25, limit: 25 } });

  for (const one of operations.tenants) one.limits.share = 50;
  t.match(await cli(api, ['quota', 'set', '1', '70']), {
    status: 3,
    stdout: '',
    stderr:
      /tenant acme may be promised 50.* \(OB_QUOTA_TENANT\)\n.*`outboard tenant set .*--beyond-limit/,
  });
  t.match(await cli(api, ['quota', 'set', '1', '70', '--beyond-limit']), {
    ...done,
    stdout: "session 1 has 70 percent, at most 70, which is beyond its tenant's limit\n",
  });
  const listed = (await cli(api, ['sessions'])).stdout;
  t.match(listed, / 70:70! /);
  // Each of the three has 1 of its 2 GiB.
  t.match(
    listed,
    /\n\nGPU 0: reserved 2\.0 GiB of 7\.0 GiB, used 1\.0 GiB; not used: 1\.0 GiB by session 1, 1\.0 GiB by session 7, /,
  );

  t.match(await cli(api, ['kill', '1', '2', '--reason', 'too long & "quoted"']), {
    ...done,
    stdout: 'session 1 is ended\nsession 2 is ended\n',
  });
  t.match(JSON.parse((await cli(api, ['kill', '--json', '7'])).stdout), { ended: [7] });
  t.same(operations.killed, [
    [1, 'too long & "quoted"'],
    [2, 'too long & "quoted"'],
    [7, 'ended by operator local'],
  ]);

  t.match(await cli(api, ['drain']), { ...done, stdout: /^no new sessions .*1 still runs\n$/ });
  t.equal(operations.draining, true);
  t.match(await cli(api, ['drain', '--undo']), { ...done, stdout: 'new sessions are taken\n' });
  t.equal(operations.draining, false);
  const waits = start(['drain', '--wait'], { OUTBOARD_API: api.url });
  const result = resultOf(waits);
  await shows(waits, /1 still runs/);
  operations.sessions = [];
  t.match(await result, { ...done, stdout: /0 still run\n$/ });
  const empty = await cli(api, ['drain', '--wait', '--json']);
  t.same(JSON.parse(empty.stdout), { draining: true, sessions: 0, queued: 0 });
  operations.sessions = [session(8)];
  t.match(await cli(api, ['drain', '--gpu', '0', '--move']), {
    ...done,
    stdout:
      /^GPU 0 takes no new sessions; 1 still runs there\nsession 8 is waited for: it has arrays\P{Cc}*\n$/u,
  });
  t.equal(operations.gpus[0]?.draining, 'moves');
  const emptied = async () => (await cli(api, ['drain', '--gpu', '0', '--move'])).stdout;
  operations.leaves.add(8);
  t.match(await emptied(), /; 1 still runs there, and is being moved to another GPU\n$/);
  operations.sessions.push(session(9));
  t.match(
    await emptied(),
    /; 2 still run there; 1 of them is being moved\nsession 9 is waited for/,
  );
  operations.leaves.add(9);
  t.match(
    await emptied(),
    /; 2 still run there, and are being moved to other GPUs, one at a time\n$/,
  );
  operations.sessions.pop();
  t.match(await cli(api, ['drain', '--gpu', '0']), { ...done, stdout: /1 still runs there\n$/ });
  t.equal(operations.gpus[0]?.draining, 'waits');
  const goes = start(['drain', '--gpu', '0', '--wait'], { OUTBOARD_API: api.url });
  const gone = resultOf(goes);
  await shows(goes, /1 still runs there/);
  operations.sessions = [];
  t.match(await gone, { ...done, stdout: /0 still run there\n$/ });
  const openAgain = await cli(api, ['drain', '--gpu', '0', '--undo']);
  t.match(openAgain, { ...done, stdout: 'GPU 0 takes new sessions\n' });
  t.equal(operations.gpus[0]?.draining, null);
  t.match(await cli(api, ['drain', '--gpu', '7']), {
    stderr: /there is no GPU 7, only 0 to 1/,
  });
  operations.sessions = [session(9)];
  const undone = start(['drain', '--wait'], { OUTBOARD_API: api.url });
  const opened = resultOf(undone);
  await shows(undone, /still runs/);
  operations.resume();
  t.match(await opened, { status: 3 }, 'it did not become empty');
});

t.test('move: what is being done, as it comes', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  operations.sessions = [session(1)];
  const [one] = operations.sessions;
  if (!one) throw new Error('no session');
  let moves = () => {};
  operations.moved = new Promise((resolve) => {
    moves = resolve;
  });
  const going = start(['move', '1'], { OUTBOARD_API: api.url });
  const result = resultOf(going);
  const phases = [
    ['starting', /^session 1: a process is started for it\n$/],
    ['preparing', /^session 1: the process takes its addresses\n$/],
    ['transferring', /^session 1: what it has goes over\n$/],
  ] as const;
  for (const [phase, line] of phases) {
    one.moving = phase;
    await shows(going, line, 'stderr');
  }
  moves();
  t.match(await result, {
    status: 0,
    stdout: 'session 1 has moved from slot 0.0 to 1.0 in 0.50 s; it stood still for 12 ms\n',
  });
  // What is written for programs is the answer alone.
  const json = await cli(api, ['move', '1', '--to', '0', '--json']);
  t.match(json, { status: 0, stderr: '' });
  t.match(JSON.parse(json.stdout), { moved: [{ session: 1, to: { gpu: 0 } }] });
  t.match(await cli(api, ['move', '1', '--to', '0']), { status: 3, stderr: /OB_MOVE/ });
});

t.test('device', async (t) => {
  const api = await TestApi.start(t);
  const { stdout } = await cli(api, ['device']);
  t.match(
    stdout,
    /^software device\n\nGPU {2}NAME .*\n {2}0 {2}Software Device {2}GPU-0{8}-.* good\n/,
  );
  t.match(JSON.parse((await cli(api, ['device', '--json'])).stdout), {
    device: 'software',
    gpus: [{ index: 0 }, { index: 1 }],
  });
  const probe = await cli(null, ['device', '--probe', '--device', 'software', '--json']);
  t.match(JSON.parse(probe.stdout), {
    kind: 'software',
    library: /libcuda\.so\.1$/,
    gpus: 1,
    devices: [{ name: 'Software Device' }],
  });
  const text = await cli(null, ['device', '--probe', '--device', 'software']);
  t.match(text, {
    status: 0,
    stdout: /^software device: .*libcuda\.so\.1, 1 GPU\n\nNAME .*\nSoftware Device .* 12\.0 .*\n$/,
  });
  t.match(await cli(null, ['device', '--probe', '--device', '/none']), { status: 3 });
});

t.test('traits of the software device are shown', async (t) => {
  const SOFTWARE_DEVICE_TRAITS = 'nvidia-like,-spinning';
  const probe = (...words: string[]) =>
    cli(null, ['device', '--probe', '--device', ...words], { SOFTWARE_DEVICE_TRAITS });
  t.match(await probe('software'), {
    status: 0,
    stdout: /^software device: .*\ntraits: nvidia-like,-spinning\n\nNAME /,
  });
  const { stdout } = await probe('software', '--json');
  t.equal(JSON.parse(stdout).traits, SOFTWARE_DEVICE_TRAITS);
  const none = await cli(null, ['device', '--probe', '--device', 'software', '--json']);
  t.equal(JSON.parse(none.stdout).traits, null);
  const api = await TestApi.start(t);
  t.equal(JSON.parse((await cli(api, ['device', '--json'])).stdout).traits, null);
  api.operations.traits = SOFTWARE_DEVICE_TRAITS;
  t.match(
    (await cli(api, ['device'])).stdout,
    'software device\ntraits: nvidia-like,-spinning\n\n',
  );
});

/** On no port that another server may have. */
const checkConfig = ['serve', '--check-config', '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0'];

t.test('traits are of the software device only', async (t) => {
  const env = {
    SOFTWARE_DEVICE_TRAITS: 'nvidia-like',
    LD_LIBRARY_PATH: path.join(build, 'bench', 'null-device'), // where the loader finds NVIDIA's
  };
  for (const device of ['auto', 'nvidia']) {
    t.match(await cli(null, [...checkConfig, '--device', device], env), {
      status: 3,
      stdout: '',
      stderr: /OB_DRIVER_TRAITS.*nvidia-like.*libcuda\.so\.1/,
    });
  }
});

t.test('serve --check-config says which driver it would be', async (t) => {
  const check = (device: string, LD_LIBRARY_PATH: string) =>
    cli(null, [...checkConfig, '--device', device], { LD_LIBRARY_PATH });
  const folder = path.join(build, 'bench', 'null-device');
  // A driver where the loader finds NVIDIA's.
  for (const device of ['auto', 'nvidia']) {
    t.match(await check(device, folder), {
      status: 0,
      stdout: `driver: nvidia, ${path.join(folder, 'libcuda.so.1')}; it opens, with 1 GPU: `,
    });
  }
  const broken = t.testdir({ 'libcuda.so.1': 'no library' });
  t.match(await check('auto', broken), {
    status: 0,
    stdout:
      /^driver: software, .*libcuda.*\nnot NVIDIA's: .*libcuda\.so\.1.*\nthe configuration is right\n$/,
  });
  t.match(await check('nvidia', broken), {
    status: 3,
    stdout: '',
    stderr: /OB_DRIVER_LIBRARY.*libcuda\.so\.1/,
  });
  t.match(await check('/none/libcuda.so.1', broken), { status: 3, stderr: /OB_NOT_BUILT/ });
});

t.test('logs, and those to come', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  const at = Date.parse('2026-01-02T03:04:05.678Z');
  for (const n of [1, 2, 3]) {
    operations.log({ time: at, level: 'info', msg: `line ${n}`, gpu: n, why: 'two words' });
  }
  t.equal(
    (await cli(api, ['logs', '-n', '2'])).stdout,
    '03:04:05.678 INFO  line 2 gpu=2 why="two words"\n03:04:05.678 INFO  line 3 gpu=3 why="two words"\n',
  );
  const json = (await cli(api, ['logs', '--lines', '1', '--json'])).stdout;
  t.same(JSON.parse(json), operations.lines[2]);
  const follows = start(['logs', '-f', '-n', '1'], { OUTBOARD_API: api.url });
  const result = resultOf(follows);
  await shows(follows, /line 3/);
  operations.log({ time: at, level: 'error', msg: 'line 4' });
  await shows(follows, /ERROR line 4\n/);
  await api.api.close();
  const { status, stdout, stderr } = await result;
  t.match({ status, stderr }, { status: 3, stderr: /OB_API_REACH/ }, 'the server has gone');
  t.match(stdout, /^\S+ INFO {2}line 3.*\n\S+ ERROR line 4\n$/, 'each line once');
});

t.test('a reader that has gone is no error', async (t) => {
  const api = await TestApi.start(t);
  for (let n = 0; n < 5000; n++) {
    api.operations.log({ time: n, level: 'info', msg: 'x'.repeat(100) });
  }
  const child = start(['logs', '-n', '5000'], { OUTBOARD_API: api.url });
  child.stdout?.once('data', () => child.stdout?.destroy());
  const { status, stderr } = await resultOf(child);
  t.same({ status, stderr }, { status: 0, stderr: '' });
});

t.test('tokens and sockets', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-api-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const socket = path.join(folder, 'api.sock');
  const token = path.join(folder, 'token');
  const authorise = (text: string) =>
    text === 'right' ? { name: 'vic', rights: 'view' as const } : null;
  const api = await TestApi.start(t, {
    authorise,
    listen: [
      { kind: 'tcp', host: '127.0.0.1', port: 0 },
      { kind: 'unix', path: socket },
    ],
  });
  t.match(await cli(api, ['status']), { status: 3, stderr: /OB_API_TOKEN.*\n.*_TOKEN_FILE/ });
  const env = { OUTBOARD_OPERATOR_TOKEN_FILE: token };
  t.match(await cli(api, ['status'], env), { status: 3, stderr: /OB_TOKEN_FILE.*\n/ });
  writeFileSync(token, 'two words\n');
  t.match(await cli(api, ['status'], env), { status: 3, stderr: /does not hold one word/ });
  writeFileSync(token, 'wrong\n');
  t.match(await cli(api, ['status'], env), { status: 3, stderr: /OB_API_TOKEN/ });
  writeFileSync(token, 'right\n');
  t.match(await cli(api, ['status'], env), { status: 0 });
  t.match(await cli(api, ['status', '--token-file', token]), { status: 0 });
  t.match(await cli(api, ['kill', '1'], env), { status: 3, stderr: /OB_API_RIGHTS/ });
  t.match(await cli(null, ['kill', '1', '--api', `unix:${socket}`]), { status: 0 });
  const follows = start(['logs', '-f', '--api', `unix:${socket}`]);
  api.operations.log({ time: 0, level: 'info', msg: 'through the socket' });
  await shows(follows, /through the socket/);
  follows.kill();
  t.match(await resultOf(start(['top', '--json', '--api', `unix:${socket}-not`])), { status: 3 });
});

t.test('what cannot be reached, or is something else, is 3', async (t) => {
  const other = createServer((_request, response) => response.end('hello'));
  other.listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const env = { OUTBOARD_API: `http://127.0.0.1:${port}` };
  t.match(await cli(null, ['status'], env), {
    status: 3,
    stderr: /OB_API_ANSWER.*without JSON|without JSON.*OB_API_ANSWER/,
  });
  other.close();
  await once(other, 'close');
  for (const command of [
    ['status'],
    ['sessions'],
    ['kill', '1'],
    ['drain'],
    ['logs'],
    ['logs', '-f'],
  ]) {
    const stderr = new RegExp(
      `no outboard server answers at http://127\\.0\\.0\\.1:${port}.*OB_API_REACH`,
    );
    t.match(await cli(null, command, env), { status: 3, stdout: '', stderr }, command.join(' '));
  }
  const api = await TestApi.start(t);
  t.match(await cli(api, ['kill', '77']), { status: 3, stderr: /no session 77 \(OB_NO_SESSION\)/ });
});

t.test('wrong usage is 2', async (t) => {
  const wrong: [string[], RegExp, NodeJS.ProcessEnv?][] = [
    [['status', 'x'], /status takes nothing, not also x/],
    [['status', '--x'], /Unknown option '--x'\n/],
    [['status', '--jsno'], /Unknown option '--jsno'; did you mean --json\?\n/],
    [['status', '--server', 'gpu1:4460'], /Unknown option '--server': --api names the HTTP API /],
    [['status', '--api', 'gpu1:99999'], /--api gpu1:99999 is not understood: expected HOST:PORT/],
    [
      ['status', '--api', 'x:'],
      /--api x: is not understood: expected HOST:PORT, a URL or a socket/,
    ],
    [['status'], /OUTBOARD_API=ftp:\/\/x is not/, { OUTBOARD_API: 'ftp://x' }],
    [['kill'], /kill takes one SESSION/],
    [['kill', 'x'], /x is no session: a number/],
    [['kill', '1', '--reason', 'x'.repeat(201)], /200 characters/],
    [['quota', 'set', '1'], /quota takes set SESSION/],
    [['quota', 'get', '1', '2'], /quota cannot get/],
    [['quota', 'set', '1', '60:50'], /60:50 is no share/],
    [['quota', 'set', '1', '0'], /0 is no share/],
    [['quota', 'set', '1', '101'], /101 is no share/],
    [['drain', '--undo', '--wait'], /exclude each other/],
    [['drain', '--undo', '--move', '--gpu', '0'], /--undo and --move exclude each other/],
    [['drain', '--move'], /which one\? --gpu GPU/],
    [['logs', '-n'], /argument missing|value/],
    [['logs', '-n', '0'], /--lines 0 .* lines from 1/],
    [['completion'], /completion takes one shell: bash, zsh, fish/],
    [['completion', 'sh'], /completion takes one shell/],
    [['man', 'x'], /Unexpected argument 'x'/],
  ];
  const results = await Promise.all(wrong.map(([args, , env]) => cli(null, args, env)));
  for (const [index, [args, stderr]] of wrong.entries()) {
    t.match(results[index], { status: 2, stdout: '', stderr }, args.join(' '));
  }
});

t.test('top --once, --json, and without a terminal', async (t) => {
  const api = await TestApi.start(t);
  const once = await cli(api, ['top', '--once']);
  t.match(once, { status: 0, stdout: /^Outboard .*\n(.*\n)*.*sorted by id; \? for keys\n$/ });
  t.match(JSON.parse((await cli(api, ['top', '--once', '--json'])).stdout), { gpus: [{}, {}] });
  t.match(await cli(api, ['top']), { status: 3, stderr: /OB_NO_TERMINAL.*\n.*top --once/ });
  const follows = start(['top', '--json'], { OUTBOARD_API: api.url });
  const text = await shows(follows, /\n.*\n/);
  follows.kill();
  for (const line of text.trim().split('\n')) t.match(JSON.parse(line), { sessions: [{ id: 1 }] });
});

t.test('top shows in 80 columns what matters', async (t) => {
  const operations = new MemoryOperations();
  const name = 'a-function-with-a-long-name';
  operations.sessions = [1, 20_000].map((id) => {
    const used = 900 * 2 ** 20;
    const memory = { limit: 70 * 2 ** 30, used, peak: used };
    return session(id, { tenant: 'a-tenant-with-a-long-name', name, memory, seconds: 90_000 });
  });
  const paint = (_code: string, text: string) => text;
  const choices = { order: 'id', reverse: false, from: 0, help: true };
  const shown = (columns: number) =>
    screen(operations.view(), 0, choices, { columns, rows: 50 }, paint).map((line) =>
      line.trimEnd(),
    );
  const narrow = shown(80);
  t.same(
    narrow.filter((line) => [...line].length > 80),
    [],
  );
  t.match(narrow.join(' '), /BUSY: the part of .* one block of a kernel takes one thread/);
  const titles = narrow.find((line) => line.includes('SESSION')) ?? '';
  for (const title of ['TENANT', 'NAME', 'MEMORY', 'HAS/OWED', 'TIME']) t.match(titles, title);
  t.notMatch(titles, /HOST|CALLS/);
  t.ok(narrow.some((line) => /20000 .* a-fun.*… .*900 MiB \/ 70\.0 GiB/.test(line)));
  const gpus = narrow.find((line) => line.includes('SLOTS')) ?? '';
  for (const title of ['NAME', 'RESERVED', 'USED', 'BUSY']) t.match(gpus, title);
  t.match(narrow.join('\n'), /session memory auto.*\n.*guests connect to/);
  t.match(shown(200).join('\n'), /SESSION.*OF.*HOST.*CALLS.*STATE/);
  t.match(shown(60).join('\n'), /SESSION.*NAME.*MEMORY.*HAS\/OWED/);
});

/** `outboard` in a terminal of its own, of util-linux' script. */
function inTerminal(api: TestApi, args: string, { rows = 30, columns = 110 } = {}) {
  const command = `stty rows ${rows} cols ${columns}; tty; ${process.execPath} ${outboard} ${args}; echo "[ended with $?]"; stty -a`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...process.env, OUTBOARD_API: api.url, TERM: 'xterm', NO_COLOR: '' },
  });
  return child;
}

const script = which('script', process.env['PATH'] ?? '');

t.test('top in a terminal', { skip: script ? false : 'script(1) is not installed' }, async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  const load = (id: number, used: number) =>
    session(id, { name: `job-${id}`, memory: { limit: 2 ** 30, used, peak: used } });
  operations.sessions = [load(1, 100), load(2, 300), load(3, 200)];
  const top = inTerminal(api, 'top');
  t.teardown(() => top.kill());
  const whole = resultOf(top);
  const order = (...ids: number[]) => new RegExp(ids.map((id) => `job-${id}`).join('[\\s\\S]*'));
  const first = await shows(top, /sorted by id; \? for keys/);
  t.match(first, order(1, 2, 3));
  t.match(first, '␛[?1049h␛[?25l', 'the other screen, without a cursor');
  t.match(first, '␛[1mOutboard', 'in colours');
  top.stdin?.write('m');
  t.match(await shows(top, /sorted by memory; \?/), order(2, 3, 1));
  top.stdin?.write('r');
  t.match(await shows(top, /sorted by memory, reversed/), order(1, 3, 2));
  top.stdin?.write('\x1b[B');
  await shows(top, /\(1 above\)/);
  top.stdin?.write('?');
  await shows(top, /q quit {3}s next order/);
  operations.sessions = [load(44, 1)];
  await shows(top, /job-44/);

  // The terminal becomes smaller: nothing is wider or longer than it.
  const [, tty = ''] = /(\/dev\/pts\/\d+)/.exec(first) ?? [];
  await resultOf(spawn('stty', ['-F', tty, 'rows', '12', 'cols', '40']));
  // The first may still be of before, and not be whole.
  const resized = await shows(top, /␛\[H[\s\S]*␛\[H[\s\S]*␛\[H[\s\S]*␛\[J/);
  const last = resized.split('␛[H').at(-1)?.split('␛[J')[0] ?? '';
  const lines = last.split(/\r*\n/).map((line) => line.replace(/␛\[[0-9;]*[mK]/g, ''));
  t.ok(lines.length <= 12, `${lines.length} lines`);
  t.ok(Math.max(...lines.map((line) => [...line].length)) <= 40);

  top.stdin?.write('q');
  const { stdout } = await whole;
  t.match(stdout, /␛\[\?25h␛\[\?1049l[\s\S]*\[ended with 0\]/, 'the terminal is as it was');
  t.match(stdout, /[ ;]icanon/);
  t.match(stdout, /[ ;]echo /);
});

t.test(
  'top outlives the server, and a signal restores the terminal',
  { skip: script ? false : 'script(1) is not installed' },
  async (t) => {
    const api = await TestApi.start(t);
    const top = inTerminal(api, 'top');
    t.teardown(() => top.kill());
    const whole = resultOf(top);
    await shows(top, /sorted by id/);
    const { port } = api;
    await api.api.close();
    await shows(top, /no connection to|no outboard server/);
    const again = await TestApi.start(t, { listen: [{ kind: 'tcp', host: '127.0.0.1', port }] });
    again.operations.sessions = [session(55, { name: 'job-55' })];
    await shows(top, /job-55/);
    top.stdin?.write('\x03');
    const { stdout } = await whole;
    t.match(stdout, /␛\[\?25h␛\[\?1049l[\s\S]*\[ended with 130\]/);
    t.match(stdout, /[ ;]icanon/);
  },
);

t.test('every command says what it is, in help, completion and man page alike', async (t) => {
  const commands = JSON.parse((await cli(null, ['man', '--json'])).stdout) as {
    name: string;
    options: { name: string; value: string | null; default: string | null }[];
  }[];
  t.ok(commands.length >= 14);
  const pages = await Promise.all(commands.map(({ name }) => cli(null, ['help', name])));
  const man = (await cli(null, ['man'])).stdout;
  const bash = (await cli(null, ['completion', 'bash'])).stdout;
  const fish = (await cli(null, ['completion', 'fish'])).stdout;
  const zsh = (await cli(null, ['completion', 'zsh'])).stdout;
  for (const [index, { name, options }] of commands.entries()) {
    const page = pages[index]?.stdout ?? '';
    t.match(page, new RegExp(`^Usage: outboard ${name}\\b`), name);
    t.match(man, `\n.SS ${name}\n`);
    t.match(zsh, `\n    ${name}) `);
    for (const option of options) {
      t.match(page, `\n  --${option.name}`, `${name} --${option.name}`);
      const usual = option.value === null || option.default !== null;
      t.ok(usual, `${name} --${option.name} says its default`);
      t.match(man, `--${option.name}`.replaceAll('-', '\\-'));
      t.match(fish, new RegExp(`from ${name}' -l ${option.name}\\b`));
      t.match(bash, `--${option.name}`);
    }
  }
});

t.test('the man page is good roff', { skip: noTool('groff') }, async (t) => {
  const file = path.join(t.testdir(), 'outboard.1');
  writeFileSync(file, (await cli(null, ['man'])).stdout);
  const page = await resultOf(
    spawn('groff', ['-man', '-Tutf8', '-ww', '-P-cbou', file], {
      env: { ...process.env, LC_ALL: 'C.UTF-8' },
    }),
  );
  t.match(page, { status: 0, stderr: '' });
  for (const heading of ['NAME', 'SYNOPSIS', 'COMMANDS', 'ENVIRONMENT', 'EXIT STATUS']) {
    t.match(page.stdout, new RegExp(`^${heading}$`, 'm'));
  }
  t.match(page.stdout, /--reason TEXT/);
  t.notMatch(page.stdout, /\\[a-z(]/, 'no escapes are left over');
});

t.test('completion in bash', async (t) => {
  const file = path.join(t.testdir(), 'completion');
  writeFileSync(file, (await cli(null, ['completion', 'bash'])).stdout);
  const complete = async (...words: string[]) => {
    const code = `
      source ${file}
      COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
      COMP_CWORD=${words.length - 1}
      compopt() { :; }
      _outboard
      printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr, status } = await resultOf(spawn('bash', ['--norc', '-c', code]));
    t.match({ stderr, status }, { stderr: '', status: 0 });
    return stdout.trim().split('\n');
  };
  t.same(await complete('outboard', 'se'), ['serve', 'sessions']);
  t.same(await complete('outboard', 'drain', '--'), [
    '--api',
    '--token-file',
    '--json',
    '--gpu',
    '--move',
    '--undo',
    '--wait',
  ]);
  t.same(await complete('outboard', 'sessions', '--sort', 'm'), ['memory']);
  const ofQuota = ['set', '--api', '--token-file', '--json', '--beyond-limit'];
  t.same(await complete('outboard', 'quota', ''), ofQuota);
  t.same(await complete('outboard', 'completion', 'f'), ['fish']);
  t.same(await complete('outboard', 'help', 'dr'), ['drain']);
});

for (const shell of ['zsh', 'fish']) {
  t.test(`completion for ${shell} is read by it`, { skip: noTool(shell) }, async (t) => {
    const file = path.join(t.testdir(), 'completion');
    writeFileSync(file, (await cli(null, ['completion', shell])).stdout);
    t.match(await resultOf(spawn(shell, ['-n', file])), { status: 0, stderr: '' });
  });
}

function noTool(name: string): string | false {
  return which(name, process.env['PATH'] ?? '') ? false : `${name} is not installed`;
}
