// The first CUDA call, with servers of all kinds and environments of all kinds: the CUresult that
// the program gets, the line in the log, and silence without OUTBOARD_LOG.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { encodeAnswer, preface, wire } from '../../api-server/src/control.js';
import { guestLibrary } from '../../test/support/paths.js';
import { client, type Environment, ended, printed, run, start } from './support/client.js';
import { encodeAnswerOf, type Script, scriptedServer, welcome } from './support/scripted-server.js';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

/** cuInit's result and the log, with OUTBOARD_LOG and without. */
async function fails(t: Test, env: Environment, result: string, says: RegExp) {
  const quiet = await run('init', env);
  t.equal(quiet.lines[0], `cuInit ${result}`);
  t.equal(quiet.lines[1], 'cuDeviceGetCount CUDA_ERROR_NOT_INITIALIZED');
  t.equal(quiet.stderr, '', 'nothing on stderr unless a log was asked for');
  t.same([quiet.code, quiet.signal], [0, null]);
  const loud = await run('init', { ...env, OUTBOARD_LOG: 'warn' });
  t.equal(loud.lines[0], `cuInit ${result}`);
  t.match(loud.stderr, says);
  t.match(loud.stderr, /^(outboard \d\d:\d\d:\d\d\.\d{6} \d+ (error|warn): .+\n)+$/, 'whole lines');
}

const NOT_READY = 'CUDA_ERROR_SYSTEM_NOT_READY';
const INVALID = 'CUDA_ERROR_INVALID_VALUE';

t.test('an environment that says nothing, or nonsense', async (t) => {
  const server = await scriptedServer(() => {});
  t.teardown(() => server.stop());
  const good = { OUTBOARD_SERVER: server.address };
  await fails(t, {}, NOT_READY, /OUTBOARD_SERVER is not set: name the GPU server/);
  await fails(
    t,
    { OUTBOARD_SERVER: 'gpu1:' },
    INVALID,
    /OUTBOARD_SERVER="gpu1:" is not understood: /,
  );
  await fails(
    t,
    { ...good, OUTBOARD_GPUS: 'all' },
    INVALID,
    /OUTBOARD_GPUS="all" is not understood/,
  );
  await fails(t, { ...good, OUTBOARD_MEMORY: '4 apples' }, INVALID, /OUTBOARD_MEMORY="4 apples"/);
  await fails(t, { ...good, OUTBOARD_SHARE: '120' }, INVALID, /OUTBOARD_SHARE="120"/);
  await fails(t, { ...good, OUTBOARD_CONNECT_TIMEOUT: '0' }, INVALID, /from 1 to 3600/);
  await fails(t, { ...good, OUTBOARD_TOKEN_FILE: '/no/such' }, INVALID, /cannot be read: No such/);
  const empty = path.join(t.testdir({ token: '\n' }), 'token');
  await fails(t, { ...good, OUTBOARD_TOKEN_FILE: empty }, INVALID, /is empty: it holds no access/);
  t.equal(server.connections(), 0, 'no server was asked');
});

t.test('a log or counters that cannot be had do not stop a program', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    socket.write(encodeAnswer({ welcome: welcome(await hello) }));
  });
  t.teardown(() => server.stop());
  const env = { OUTBOARD_SERVER: server.address };
  const loud = await run('init', { ...env, OUTBOARD_LOG: 'loud' });
  t.equal(loud.lines[0], 'cuInit CUDA_SUCCESS');
  t.match(loud.stderr, /OUTBOARD_LOG="loud": OUTBOARD_LOG takes off, error, warn, info, debug or/);
  const file = await run('init', { ...env, OUTBOARD_LOG: 'info:/no/such/folder/log' });
  t.equal(file.lines[0], 'cuInit CUDA_SUCCESS');
  t.match(file.stderr, /the log file cannot be opened/);
  const stats = await run('init', {
    ...env,
    OUTBOARD_LOG: 'error',
    OUTBOARD_STATS: '/no/such/file',
  });
  t.equal(stats.lines[0], 'cuInit CUDA_SUCCESS');
  t.match(stats.stderr, /OUTBOARD_STATS="\/no\/such\/file": No such file or directory/);
  // Where somebody else may write, a name may lead to a file of ours.
  const link = path.join(shortFolder(t), 'link');
  const target = `${link}.target`;
  writeFileSync(target, 'precious');
  symlinkSync(target, link);
  const linked = await run('init', {
    ...env,
    OUTBOARD_LOG: 'error',
    OUTBOARD_STATS: link,
    OUTBOARD_TRACE: link,
  });
  t.equal(linked.lines[0], 'cuInit CUDA_SUCCESS');
  t.match(linked.stderr, /OUTBOARD_STATS=".*": Too many levels of symbolic links/);
  t.match(linked.stderr, /OUTBOARD_TRACE=".*": Too many levels of symbolic links/);
  t.equal(readFileSync(target, 'utf8'), 'precious', 'what it leads to is as it was');
});

t.test('no server there', async (t) => {
  const port = await freePort();
  const says = new RegExp(
    `no connection to 127\\.0\\.0\\.1:${port}: Connection refused\\. Is \`outboard serve\` running there\\?`,
  );
  await fails(t, { OUTBOARD_SERVER: `127.0.0.1:${port}` }, NOT_READY, says);
});

/** Short: the path of a Unix socket has at most 107 bytes. */
function shortFolder(t: Test): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}

t.test('no Unix socket there, or nobody behind it', async (t) => {
  const folder = shortFolder(t);
  const none = /no connection to unix:\/.*\/none: No such file or directory\. Is `outboard serve`/;
  await fails(t, { OUTBOARD_SERVER: `unix:${folder}/none` }, NOT_READY, none);
  writeFileSync(`${folder}/file`, '');
  const refused = /no connection to unix:\/.*\/file: Connection refused/;
  await fails(t, { OUTBOARD_SERVER: `unix:${folder}/file` }, NOT_READY, refused);
});

t.test('a Unix socket', async (t) => {
  const script: Script = async (socket, hello) => {
    socket.write(encodeAnswer({ welcome: welcome(await hello) }));
  };
  const server = await scriptedServer(script, `${shortFolder(t)}/guests`);
  t.teardown(() => server.stop());
  const port = await freePort();
  const servers = `unix:/no/such,127.0.0.1:${port},${server.address}`;
  const { lines, stderr } = await run('init', { OUTBOARD_SERVER: servers, OUTBOARD_LOG: 'info' });
  t.equal(lines[0], 'cuInit CUDA_SUCCESS');
  t.match(stderr, 'no connection to unix:/no/such: No such file or directory');
  t.match(stderr, `connected to ${server.address}`);
  t.equal(server.hellos.length, 1);
});

interface Case {
  name: string;
  script: Script;
  result: string;
  says: RegExp;
  env?: Environment;
}

const refusal = {
  code: 'OB_TEST',
  sentence: 'the house is full',
  remedy: 'Come back tomorrow.',
  result: 801,
};

const cases: Case[] = [
  {
    name: 'a port that closes at once',
    script: (socket) => socket.destroy(),
    result: NOT_READY,
    says: /no answer from 127\.0\.0\.1:\d+: Connection reset|the hello could not be sent/,
  },
  {
    name: 'a port that listens and closes',
    script: async (socket, hello) => {
      await hello;
      socket.end();
    },
    result: NOT_READY,
    says: /no answer from 127\.0\.0\.1:\d+: Connection reset by peer\. Is it an Outboard server, and the/,
  },
  {
    name: 'a port that speaks HTTP',
    script: (socket) => socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'),
    result: NOT_READY,
    says: /what answers at 127\.0\.0\.1:\d+ is not an Outboard server: name the address and port/,
  },
  {
    name: 'a port that speaks SSH, briefly',
    script: (socket) => socket.end('SSH-2.0-x\r\n'),
    result: NOT_READY,
    says: /no answer from 127\.0\.0\.1:\d+/,
  },
  {
    name: 'a port that speaks TLS',
    script: (socket) => socket.end(Buffer.from([21, 3, 3, 0, 2, 2, 10])),
    result: NOT_READY,
    says: /what answers at 127\.0\.0\.1:(\d+) speaks TLS\. Name it tls:\/\/127\.0\.0\.1:\1$/m,
  },
  {
    name: 'a server that sends random bytes',
    script: (socket) => socket.write(randomBytes(4096)),
    result: NOT_READY,
    says: /not an Outboard server/,
  },
  {
    name: 'a server that never answers',
    script: () => {},
    result: NOT_READY,
    says: /no answer from 127\.0\.0\.1:\d+: Connection timed out/,
    env: { OUTBOARD_CONNECT_TIMEOUT: '1' },
  },
  {
    name: 'a server that stops in its answer',
    script: (socket) =>
      socket.write(Buffer.concat([preface(wire.protocol, 100), Buffer.alloc(50)])),
    result: NOT_READY,
    says: /the server's answer ended early: Connection timed out/,
    env: { OUTBOARD_CONNECT_TIMEOUT: '1' },
  },
  {
    name: 'a Welcome that is cut',
    script: async (socket, hello) => {
      const bytes = encodeAnswer({ welcome: welcome(await hello) });
      socket.end(bytes.subarray(0, bytes.length - 5));
    },
    result: NOT_READY,
    says: /the server's answer ended early: Connection reset/,
  },
  {
    name: 'an answer longer than allowed',
    script: (socket) => socket.write(preface(wire.protocol, 65537)),
    result: NOT_READY,
    says: /the server's answer is longer than the protocol allows/,
  },
  {
    name: 'an answer that is no message',
    script: (socket) =>
      socket.write(Buffer.concat([preface(wire.protocol, 64), Buffer.alloc(64, 0xff)])),
    result: NOT_READY,
    says: /the server's answer could not be decoded/,
  },
  {
    name: 'an answer of an unknown kind',
    script: (socket) => socket.write(preface(wire.protocol, 0)),
    result: NOT_READY,
    says: /something this library does not know/,
  },
  {
    name: 'another version of the protocol',
    script: async (socket, hello) => {
      socket.write(encodeAnswerOf(99, { welcome: welcome(await hello) }));
    },
    result: 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH',
    says: new RegExp(
      `the server speaks protocol 99, this library ${wire.protocol}: use versions that go together`,
    ),
  },
  {
    name: 'a refusal',
    script: async (socket, hello) => {
      await hello;
      socket.end(encodeAnswer({ refusal }));
    },
    result: 'CUDA_ERROR_NOT_SUPPORTED',
    says: /the server refused \(OB_TEST\): the house is full\. Come back tomorrow\./,
  },
  {
    name: 'a refusal of another version',
    script: (socket) => socket.end(encodeAnswerOf(99, { refusal })),
    result: 'CUDA_ERROR_NOT_SUPPORTED',
    says: /the house is full/,
  },
  {
    name: 'a refusal without a result',
    script: (socket) => socket.end(encodeAnswer({ refusal: { ...refusal, result: 0 } })),
    result: NOT_READY,
    says: /the house is full/,
  },
  {
    name: 'a queue that ends in a refusal',
    script: (socket) => {
      for (const position of [3, 2, 1]) socket.write(encodeAnswer({ queued: { position } }));
      socket.end(encodeAnswer({ refusal }));
    },
    result: 'CUDA_ERROR_NOT_SUPPORTED',
    says: /the house is full/,
  },
  {
    name: 'a queue whose server goes away',
    script: (socket) => socket.end(encodeAnswer({ queued: { position: 1 } })),
    result: NOT_READY,
    says: /no answer from 127\.0\.0\.1:\d+/,
  },
  {
    name: 'a Welcome without a device',
    script: async (socket, hello) => {
      socket.write(encodeAnswer({ welcome: { ...welcome(await hello), devices: [] } }));
    },
    result: NOT_READY,
    says: /welcome makes no sense/,
  },
  {
    name: 'a window that cannot be had',
    script: async (socket, hello) => {
      socket.write(encodeAnswer({ welcome: { ...welcome(await hello), windowBase: 1n << 62n } }));
    },
    result: NOT_READY,
    says: /device window at 0x4000000000000000 is taken in this process/,
  },
  {
    name: 'no device that CUDA_VISIBLE_DEVICES names',
    script: async (socket, hello) => {
      socket.write(encodeAnswer({ welcome: welcome(await hello) }));
    },
    result: 'CUDA_ERROR_NO_DEVICE',
    says: /CUDA_VISIBLE_DEVICES="7": "7" names no device/,
    env: { CUDA_VISIBLE_DEVICES: '7' },
  },
];

for (const { name, script, result, says, env } of cases) {
  t.test(name, async (t) => {
    const server = await scriptedServer(script);
    t.teardown(() => server.stop());
    await fails(t, { OUTBOARD_SERVER: server.address, ...env }, result, says);
    t.equal(server.connections(), 2, 'one connection each');
  });
}

t.test('no device visible: no server is asked', async (t) => {
  const server = await scriptedServer(() => {});
  t.teardown(() => server.stop());
  const env = { OUTBOARD_SERVER: server.address, CUDA_VISIBLE_DEVICES: '' };
  const { lines } = await run('init', env);
  t.equal(lines[0], 'cuInit CUDA_ERROR_NO_DEVICE');
  t.equal(server.connections(), 0);
});

t.test('the next server is tried', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    socket.write(encodeAnswer({ welcome: welcome(await hello) }));
  });
  t.teardown(() => server.stop());
  const port = await freePort();
  const env = { OUTBOARD_SERVER: `127.0.0.1:${port},${server.address}`, OUTBOARD_LOG: 'info' };
  const { lines, stderr } = await run('init', env);
  t.equal(lines[0], 'cuInit CUDA_SUCCESS');
  t.match(stderr, `no connection to 127.0.0.1:${port}`);
  t.match(stderr, `connected to ${server.address}`);
});

t.test('a Welcome', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    socket.write(encodeAnswer({ queued: { position: 1 } }));
    // Byte by byte: nothing depends on how the network cuts it.
    for (const byte of encodeAnswer({ welcome: welcome(await hello) })) {
      socket.write(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
  });
  t.teardown(() => server.stop());
  const env = {
    OUTBOARD_SERVER: server.address,
    OUTBOARD_TOKEN: 'a-secret-token',
    OUTBOARD_GPUS: '1',
    OUTBOARD_MEMORY: '3G',
    OUTBOARD_SHARE: '20:50',
    OUTBOARD_NAME: 'resize images',
    OUTBOARD_CLASS: 'best-effort',
    OUTBOARD_GPU_MODEL: 'test',
    TRACEPARENT: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  };
  const { lines, stderr, code } = await run('init', env);
  t.same(lines, [
    'cuInit CUDA_SUCCESS',
    'cuDeviceGetCount CUDA_SUCCESS',
    'cuDriverGetVersion CUDA_SUCCESS',
    'devices 1 version 13000',
  ]);
  t.equal(stderr, '');
  t.equal(code, 0);
  const [hello] = server.hellos;
  t.match(hello, {
    program: 'guest-client',
    token: 'a-secret-token',
    devices: 1,
    memory: 3n << 30n,
    shareRequest: 20,
    shareLimit: 50,
    name: 'resize images',
    sessionClass: 'best-effort',
    gpuModel: 'test',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    windowSize: 1n << 40n,
  });
  t.ok(hello?.pid);
  t.ok(hello?.host);
  t.equal(hello?.windowBases[0], 0x400000000000n);
  const traced = await run('init', { ...env, OUTBOARD_LOG: 'trace' });
  t.match(traced.stderr, /waiting for a free slot: position 1/);
  t.match(traced.stderr, /session 1: 1 device\(s\), 1024 MiB, server test/);
  t.notMatch(traced.stderr, 'a-secret-token', 'the token is not logged');
});

t.test('a server that gives another GPU than was asked for', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    socket.write(encodeAnswer({ welcome: welcome(await hello) }));
  });
  t.teardown(() => server.stop());
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_GPU_MODEL: 'H100' };
  const says =
    /a GPU was asked for whose name has "H100" .*, and the server has given \S+.* too old/;
  await fails(t, env, 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH', says);
});

t.test('an interpreter is called by its script', async (t) => {
  const server = await scriptedServer(async (socket, hello) => {
    socket.write(encodeAnswer({ welcome: welcome(await hello) }));
  });
  t.teardown(() => server.stop());
  const env = { ...process.env, LD_LIBRARY_PATH: path.dirname(guestLibrary) };
  const asked = { ...env, OUTBOARD_SERVER: server.address };
  const child = spawn(client, ['init'], { argv0: 'python3.11', env: asked, stdio: 'pipe' });
  t.match(await ended(child), { code: 0 });
  t.match(server.hellos, [{ program: 'init' }], 'what stands where a script does');
});

t.test('several GPUs: a connection for each ticket', async (t) => {
  const tickets = ['0123456789abcdef0123456789abcdef', 'fedcba9876543210fedcba9876543210'];
  const server = await scriptedServer(async (socket, hello) => {
    const asked = await hello;
    const given = asked.devices === 3 ? { tickets } : {};
    socket.write(encodeAnswer({ welcome: { ...welcome(asked), ...given } }));
  });
  t.teardown(() => server.stop());
  const env = { OUTBOARD_SERVER: server.address, OUTBOARD_GPUS: '3', OUTBOARD_TOKEN: 'mine' };
  const { lines } = await run('init', env);
  t.match(lines, ['cuInit CUDA_SUCCESS', /./, /./, 'devices 3 version 13000']);
  t.match(
    server.hellos.map(({ ticket, devices, token }) => ({ ticket, devices, token })),
    [
      { ticket: '', devices: 3, token: 'mine' },
      { ticket: tickets[0], devices: 1, token: 'mine' },
      { ticket: tickets[1], devices: 1, token: 'mine' },
    ],
  );
  const chosen = await run('init', { ...env, CUDA_VISIBLE_DEVICES: '2,0' });
  t.match(chosen.lines.at(-1), 'devices 2 version');
});

for (const { name, of, says } of [
  {
    name: 'fewer GPUs than were asked for',
    of: () => ({}),
    says: /the server has given 1 of 2 GPUs/,
  },
  {
    name: 'another window for the second GPU',
    of: (devices: number) =>
      devices === 2 ? { tickets: ['1'] } : { windowBase: 0x500000000000n, windowSize: 1n << 40n },
    says: /windows of two GPUs differ: \S+ holds for one \d+ GiB of addresses at 0x400000000000, and for another 1024 GiB at 0x500000000000: .* Start that server again/,
  },
]) {
  t.test(name, async (t) => {
    const server = await scriptedServer(async (socket, hello) => {
      const asked = await hello;
      socket.write(encodeAnswer({ welcome: { ...welcome(asked), ...of(asked.devices) } }));
    });
    t.teardown(() => server.stop());
    const env = { OUTBOARD_SERVER: server.address, OUTBOARD_GPUS: '2', OUTBOARD_LOG: 'error' };
    const { lines, stderr } = await run('init', env);
    t.match(lines[0], `cuInit ${NOT_READY}`);
    t.match(stderr, says);
  });
}

for (const { name, window, differ } of [
  {
    name: 'a second server that can hold other addresses only',
    window: { windowBase: 0x500000000000n, windowSize: 1n << 40n },
    differ: '1024 GiB at 0x500000000000',
  },
  {
    name: 'a second server that can hold fewer addresses only',
    window: { windowSize: 1n << 36n },
    differ: '64 GiB at 0x400000000000',
  },
]) {
  t.test(name, async (t) => {
    const serve = (window = {}) =>
      scriptedServer(async (socket, hello) => {
        socket.write(encodeAnswer({ welcome: { ...welcome(await hello), ...window } }));
      });
    const [first, second] = [await serve(), await serve(window)];
    t.teardown(() => Promise.all([first.stop(), second.stop()]));
    const servers = [first.address, second.address];
    const env = { OUTBOARD_GPUS: '2', OUTBOARD_LOG: 'error', OUTBOARD_SERVER: servers.join(',') };
    const { lines, stderr } = await run('init', env);
    t.match(lines[0], `cuInit ${NOT_READY}`);
    t.match(stderr, `windows of two servers differ: ${first.address} holds `);
    t.match(stderr, `, and ${second.address} ${differ}: `);
    t.match(stderr, `. Name ${second.address} first in OUTBOARD_SERVER, `);
  });
}

t.test('a child forked while another thread is in cuInit', async (t) => {
  let answer: () => void = () => {};
  let ask: () => void = () => {};
  const asked = new Promise<void>((resolve) => {
    ask = resolve;
  });
  const server = await scriptedServer(async (socket, hello) => {
    const message = encodeAnswer({ welcome: welcome(await hello) });
    answer = () => socket.write(message);
    ask();
  });
  t.teardown(() => server.stop());
  const child = start('forks-in-init', { OUTBOARD_SERVER: server.address });
  const result = ended(child);
  await asked;
  child.stdin?.write('fork\n');
  await printed(child, /^child \d+$/m);
  answer();
  child.stdin?.write('go on\n');
  t.same((await result).lines, [
    'ready',
    'cuInit CUDA_ERROR_NOT_INITIALIZED',
    'child 0',
    'and then',
    'cuInit CUDA_SUCCESS',
  ]);
});

t.test('calls before cuInit', async (t) => {
  const { lines } = await run('before-init', {});
  t.same(lines, [
    'cuDeviceGetCount CUDA_ERROR_NOT_INITIALIZED',
    'cuMemAlloc_v2 CUDA_ERROR_NOT_INITIALIZED',
    'cuInit CUDA_ERROR_INVALID_VALUE',
  ]);
});
