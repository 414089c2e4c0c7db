// The local agent: the real command between guests without secrets and a TLS front.
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import {
  type Answer,
  decodeAnswer,
  decodeHello,
  encodeAnswer,
  encodeHello,
  type Hello,
  preface,
  wire,
} from '../../../api-server/src/control.js';
import { AgentHello } from '../../src/agent/hello.js';
import { OutboardError } from '../../src/base/errors.js';
import { HelloReader } from '../../src/guests/hello.js';
import type { FrontPeer, GuestSocket } from '../../src/tls/front.js';
import { Agent } from '../support/agent.js';
import { authority, replaceFile, serverFiles } from '../support/certificates.js';
import { echoing, startFront, take } from '../support/front.js';
import { usualHello } from '../support/guest.js';
import { outboard } from '../support/serving.js';

// Short: the path of a Unix socket has at most 107 bytes.
const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const ours = authority(folder, 'ours');
const theirs = authority(folder, 'theirs');
const vision = ours.issue('vision', []);

let files = 0;
function newFile(text = ''): string {
  const file = path.join(folder, `file-${++files}`);
  writeFileSync(file, text);
  return file;
}

async function answer(guest: Socket): Promise<Answer> {
  const start = await take(guest, wire.prefaceBytes);
  return decodeAnswer(await take(guest, start.readUInt32LE(12)));
}

/** However it ends: `once` would take an error for its own. */
function closed(socket: Socket | GuestSocket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.closed) resolve();
    else socket.once('close', () => resolve());
  });
}

const at = ({ port }: { port: number }) => ['--server', `127.0.0.1:${port}`, '--ca', ours.ca];
const anyPort = ['--listen', '127.0.0.1:0'];

t.test('a guest without a secret, through everything', async (t) => {
  const seen: { hello: Hello; from: FrontPeer }[] = [];
  const front = { files: serverFiles(ours, ours), clients: 'require' as const };
  const { address } = await startFront(t, front, echoing(seen));
  const socket = path.join(folder, 'guests');
  const token = newFile('the-token\n');
  const client = ['--cert', vision.cert, '--key', vision.key];
  const listen = ['--listen', `unix:${socket}`];
  const agent = await Agent.start(t, ...listen, ...at(address), ...client, '--token-file', token);
  t.equal(agent.address, `unix:${socket}`);
  t.equal(statSync(socket).mode & 0o777, 0o600, "its owner's alone");

  const guest = agent.hello(t, { memory: 5n << 30n });
  t.same(await answer(guest), { queued: { position: 1, warning: '' } });
  t.match(seen[0], {
    hello: { ...usualHello, token: 'the-token', memory: 5n << 30n },
    from: { certificate: { cn: 'vision' } },
  });
  const sent = randomBytes(5 << 20);
  guest.end(sent);
  t.ok((await take(guest, sent.length)).equals(sent), 'what comes after this end closed, too');
  guest.resume();
  await once(guest, 'end');

  const own = agent.hello(t, { token: 'its own' });
  await answer(own);
  t.equal(seen[1]?.hello.token, 'its own', 'is kept');
  own.destroy();
  agent.child.kill('SIGTERM');
  t.equal(await agent.exit, 0);
  t.throws(() => statSync(socket), { code: 'ENOENT' });
});

/** A TCP server of a test's own. */
async function listening(t: Test, server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

t.test('what goes wrong is told to the guest', async (t) => {
  const accept = echoing([]);
  const good = await startFront(t, { files: serverFiles(ours, ours) }, accept);
  const strange = await startFront(t, { files: serverFiles(theirs, null) }, accept);
  const expired = await startFront(t, { files: serverFiles(ours, null, -1) }, accept);
  const asking = { files: serverFiles(ours, ours), clients: 'require' as const };
  const strict = await startFront(t, asking, accept);
  const gone = createServer();
  const nobody = await listening(t, gone);
  await new Promise((closed) => gone.close(closed));
  const plain = await listening(
    t,
    createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n')),
  );
  const { cert, key } = serverFiles(ours, null);
  const pem = { cert: readFileSync(String(cert)), key: readFileSync(String(key)) };
  const silent = await listening(
    t,
    createTlsServer(pem, (socket) => socket.end()),
  );
  const old = await listening(
    t,
    createTlsServer({ ...pem, maxVersion: 'TLSv1.2' }, (socket) => socket.end()),
  );
  const cases: [string, string[], string, RegExp, number][] = [
    ['nobody there', at({ port: nobody }), 'OB_AGENT_UNREACHABLE', /ECONNREFUSED/, 802],
    [
      'no such host',
      ['--server', 'no.such.invalid:1'],
      'OB_AGENT_UNREACHABLE',
      /no\.such\.inv/,
      802,
    ],
    [
      'another authority',
      at(strange.address),
      'OB_AGENT_CERTIFICATE',
      /unable to get local issuer/,
      802,
    ],
    ['expired', at(expired.address), 'OB_AGENT_CERTIFICATE', /expired/, 802],
    [
      'another name',
      [...at(good.address), '--server-name', 'other.example'],
      'OB_AGENT_CERTIFICATE',
      /other\.example/,
      802,
    ],
    ['no client certificate', at(strict.address), 'OB_CERTIFICATE_MISSING', /none came/, 800],
    ['no TLS', at({ port: plain }), 'OB_AGENT_TLS', /wrong version number/i, 802],
    ['TLS 1.2', at({ port: old }), 'OB_AGENT_TLS', /protocol version/, 802],
    ['closed at once', at({ port: silent }), 'OB_AGENT_TLS', /without a word/, 802],
  ];
  for (const [what, args, code, sentence, result] of cases) {
    const agent = await Agent.start(t, ...anyPort, ...args);
    const guest = agent.hello(t);
    t.match(await answer(guest), { refusal: { code, sentence, result } }, what);
    guest.resume();
    if (!guest.readableEnded) await once(guest, 'end');
    agent.child.kill('SIGKILL');
  }
});

t.test('no variable of Node makes it trust anybody', async (t) => {
  const strange = await startFront(t, { files: serverFiles(theirs, null) }, echoing([]));
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  t.teardown(() => delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
  const agent = await Agent.start(t, ...anyPort, ...at(strange.address));
  t.match(await answer(agent.hello(t)), { refusal: { code: 'OB_AGENT_CERTIFICATE' } });
});

t.test('the next server is tried', async (t) => {
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, echoing([]));
  const strange = await startFront(t, { files: serverFiles(theirs, null) }, echoing([]));
  const servers = `127.0.0.1:${strange.address.port},localhost:${address.port}`;
  const agent = await Agent.start(t, ...anyPort, '--server', servers, '--ca', ours.ca);
  t.match(await answer(agent.hello(t)), { queued: {} });
  t.match(await agent.line(/trying the next/), { code: 'OB_AGENT_CERTIFICATE' });
});

t.test('the other GPUs of a program are asked of the server that has them', async (t) => {
  const files = serverFiles(ours, null);
  const absent = createServer();
  const port = await listening(t, absent);
  await new Promise((closed) => absent.close(closed));
  /** Welcomes whoever asks for several GPUs, after a while in the queue and in small pieces. */
  const claimed: string[] = [];
  const { address } = await startFront(t, { files }, (socket) => {
    const reader = new HelloReader();
    socket
      .on('error', () => {})
      .on('data', (chunk) => {
        const { hello } = reader.push(chunk) ?? {};
        if (!hello) return;
        claimed.push(hello.ticket);
        const tickets = hello.devices > 1 ? ['one', 'two'] : [];
        const head = { driverVersion: 1, windowBase: 0n, windowSize: 0n, memoryLimit: 0n };
        const welcome = { ...head, session: 1n, devices: [], serverVersion: '', tickets };
        const answers = [{ queued: { position: 2 } }, { queued: { position: 1 } }, { welcome }];
        for (const byte of Buffer.concat(answers.map(encodeAnswer))) socket.write(Buffer.of(byte));
      });
  });
  const servers = ['--server', `127.0.0.1:${port},127.0.0.1:${address.port}`, '--ca', ours.ca];
  const agent = await Agent.start(t, ...anyPort, ...servers);
  const welcomed = async (hello: Partial<Hello>) => {
    const guest = agent.hello(t, hello);
    for (;;) {
      const told = await answer(guest);
      if ('welcome' in told) return guest;
      t.ok('queued' in told);
    }
  };
  const first = await welcomed({ devices: 3 });
  await agent.line(/trying the next/);
  // The first server is back, and would be the one that is tried first.
  const elsewhere: { hello: Hello; from: FrontPeer }[] = [];
  const back = { files, listen: { host: '127.0.0.1', port } };
  await startFront(t, back, echoing(elsewhere));
  for (const ticket of ['one', 'two']) (await welcomed({ ticket })).destroy();
  t.same(claimed, ['', 'one', 'two']);
  t.same(elsewhere, []);
  first.destroy();
  await closed(first);
  for (let tries = 0; elsewhere.length === 0 && tries < 100; tries++) {
    await answer(agent.hello(t, { ticket: 'one' }));
  }
  t.match(elsewhere, [{ hello: { ticket: 'one' } }], 'one that is not known goes anywhere');
});

t.test('what is no guest', async (t) => {
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, echoing([]));
  const agent = await Agent.start(t, ...anyPort, ...at(address));
  const http = agent.connect(t);
  http.write('GET / HTTP/1.1\r\n\r\n');
  t.match(await answer(http), { refusal: { code: 'OB_NOT_OUTBOARD', sentence: /"GET/ } });
  const long = agent.connect(t);
  long.write(preface(wire.protocol, wire.controlMax + 1));
  t.match(await answer(long), { refusal: { code: 'OB_HELLO_TOO_LONG' } });
  const brief = await Agent.start(t, ...anyPort, ...at(address), '--hello-timeout', '1');
  const slow = brief.connect(t);
  slow.write('OUT');
  t.match(await answer(slow), { refusal: { code: 'OB_HELLO_SLOW' } });
  const scan = agent.connect(t);
  scan.end();
  scan.resume();
  await once(scan, 'end');
  t.match(await answer(agent.hello(t)), { queued: {} }, 'others are served');
});

t.test('a new token and a new certificate, while guests run', async (t) => {
  const seen: { hello: Hello; from: FrontPeer }[] = [];
  const front = { files: serverFiles(ours, ours), clients: 'ask' as const };
  const { address } = await startFront(t, front, echoing(seen));
  const token = newFile('one');
  const [cert, key] = [newFile(), newFile()];
  replaceFile(vision.key, key);
  replaceFile(vision.cert, cert);
  const client = ['--cert', cert, '--key', key, '--token-file', token];
  const agent = await Agent.start(t, ...anyPort, ...at(address), ...client);
  const before = agent.hello(t);
  await answer(before);

  writeFileSync(token, 'two words');
  await agent.line(/stay as they were: .* holds no token/);
  await answer(agent.hello(t));
  t.equal(seen[1]?.hello.token, 'one', 'a file that holds no token changes nothing');

  const speech = ours.issue('speech', []);
  replaceFile(speech.key, key);
  replaceFile(speech.cert, cert);
  replaceFile(newFile('two\n'), token);
  await agent.line(/certificates and token read/);
  await answer(agent.hello(t));
  t.equal(seen[2]?.hello.token, 'two');
  t.equal(seen[2]?.from.certificate?.cn, 'speech');
  before.write('still here');
  t.equal(String(await take(before, 10)), 'still here');
});

t.test('SIGTERM: nobody new, and the end with the last guest', async (t) => {
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, echoing([]));
  const agent = await Agent.start(t, ...anyPort, ...at(address));
  const guest = agent.hello(t);
  await answer(guest);
  agent.child.kill('SIGTERM');
  await agent.line(/stopping/);
  const late = agent.connect(t);
  await closed(late);
  guest.write('still served');
  t.equal(String(await take(guest, 12)), 'still served');
  guest.end();
  guest.resume();
  t.equal(await agent.exit, 0);
});

t.test('SIGTERM: whoever stays is cut in the end, at once by a second signal', async (t) => {
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, echoing([]));
  const brief = await Agent.start(t, ...anyPort, ...at(address), '--grace', '0');
  await answer(brief.hello(t));
  brief.child.kill('SIGTERM');
  t.equal(await brief.exit, 0);
  const agent = await Agent.start(t, ...anyPort, ...at(address), '--grace', '3600');
  await answer(agent.hello(t));
  agent.child.kill('SIGTERM');
  await agent.line(/stopping/);
  agent.child.kill('SIGTERM');
  t.equal(await agent.exit, 0);
});

t.test('a server that dies, a guest that dies', async (t) => {
  const sockets: GuestSocket[] = [];
  const echo = echoing([]);
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, (socket, from) => {
    sockets.push(socket);
    echo(socket, from);
  });
  const agent = await Agent.start(t, ...anyPort, ...at(address));
  const one = agent.hello(t);
  await answer(one);
  sockets[0]?.destroy();
  one.resume();
  await once(one, 'end');
  const two = agent.hello(t);
  await answer(two);
  const [, server] = sockets;
  two.destroy();
  if (server) await closed(server);
  t.ok(server?.destroyed);
  t.match(await answer(agent.hello(t)), { queued: {} }, 'others are served');
});

t.test('a guest that leaves before it is answered', async (t) => {
  const sockets: GuestSocket[] = [];
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, (socket) => {
    // As a server with a queue: it reads, and says nothing yet.
    sockets.push(socket.resume().on('error', () => {}));
    arrived();
  });
  let arrived: () => void = () => {};
  const came = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const agent = await Agent.start(t, ...anyPort, ...at(address));
  const guest = agent.hello(t);
  await came;
  guest.destroy();
  const [server] = sockets;
  if (server) await closed(server);
  t.ok(server?.destroyed);
  t.notOk(
    agent.lines.some(({ level }) => level >= 40),
    'which is nothing to warn of',
  );
});

t.test('many at once', async (t) => {
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, echoing([]));
  const agent = await Agent.start(t, ...anyPort, ...at(address));
  const bytes = randomBytes(200 << 10);
  const serve = async (_: unknown, index: number) => {
    const guest = agent.hello(t, { pid: index });
    await answer(guest);
    const mine = bytes.subarray(index, index + 100_000);
    guest.write(mine);
    const same = (await take(guest, mine.length)).equals(mine);
    guest.destroy();
    return same;
  };
  const results = await Promise.all(Array.from({ length: 150 }, serve));
  t.ok(results.every(Boolean));
});

t.test('a slow reader slows the writer; nothing piles up between', async (t) => {
  const size = 128 << 20;
  let read = 0;
  let done: () => void = () => {};
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const { address } = await startFront(t, { files: serverFiles(ours, null) }, (socket) => {
    socket
      .on('error', () => {})
      .on('data', (part) => {
        read += part.length;
        if (read > size) done();
        // Far slower than the writer can write.
        socket.pause();
        setImmediate(() => setImmediate(() => socket.resume()));
      });
  });
  const agent = await Agent.start(t, ...anyPort, ...at(address));
  const peak = () => {
    const status = readFileSync(`/proc/${agent.child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) << 10;
  };
  const before = peak();
  const guest = agent.hello(t);
  const part = Buffer.alloc(1 << 20, 1);
  for (let i = 0; i < size / part.length; i++) {
    if (!guest.write(part)) await once(guest, 'drain');
  }
  await all;
  const grown = (peak() - before) / 2 ** 20;
  t.ok(grown < 100, `${grown} MiB more for ${size >> 20} MiB`);
});

t.test('mistakes', async (t) => {
  const fails = async (args: string[]) => {
    const child = spawn(process.execPath, [outboard, 'agent', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const [code] = await once(child, 'close');
    return { code, said };
  };
  const server = ['--server', '127.0.0.1:1'];
  for (const [args, code, says] of [
    [[], 2, /no server: name it/],
    [[...server, '--cert', vision.cert], 2, /--cert and --key go together/],
    [['--server', 'unix:/x'], 2, /expected HOST:PORT/],
    [[...server, '--listen', '0.0.0.0:4460'], 3, /OB_AGENT_LISTEN/],
    [[...server, '--listen', 'unix:/no/such/folder/x'], 3, /OB_LISTEN_FOLDER/],
    [[...server, '--token-file', '/no/such'], 3, /OB_AGENT_TOKEN/],
    [[...server, '--ca', newFile('text')], 3, /OB_TLS_FILES/],
  ] as const) {
    const result = await fails([...args]);
    t.equal(result.code, code, args.join(' '));
    t.match(result.said, says);
  }
});

t.test('a token in the Hello, however it is cut', async (t) => {
  const rest = fc.uint8Array({ maxLength: 40 });
  const hello = fc.record({
    program: fc.string({ maxLength: 200 }),
    token: fc.constantFrom('', 'own'),
  });
  fc.assert(
    fc.property(hello, rest, fc.array(fc.nat(60)), (hello, rest, cuts) => {
      const reader = new AgentHello('t'.repeat(300));
      let bytes = Buffer.concat([encodeHello(hello), rest]);
      let out: Buffer | undefined;
      for (const size of [...cuts, bytes.length]) {
        if (out) break;
        out = reader.push(bytes.subarray(0, size))?.bytes;
        bytes = bytes.subarray(size);
      }
      const all = Buffer.concat([out ?? Buffer.alloc(0), bytes]);
      const end = wire.prefaceBytes + all.readUInt32LE(12);
      const got = decodeHello(all.subarray(wire.prefaceBytes, end));
      t.equal(got.program, hello.program);
      t.equal(got.token, hello.token || 't'.repeat(300));
      t.ok(all.subarray(end).equals(rest));
    }),
    { numRuns: 100 },
  );
});

t.test('what the agent does not know goes on as it is', async (t) => {
  const newer = Buffer.concat([preface(99, 5), Buffer.from('abc')]);
  t.ok(new AgentHello('x').push(newer)?.bytes.equals(newer), 'another version');
  const garbled = Buffer.concat([preface(wire.protocol, 3), Buffer.from([0x4a, 0x7f, 0])]);
  t.ok(new AgentHello('x').push(garbled)?.bytes.equals(garbled), 'what cannot be decoded');
  const unknown = Buffer.from([0xfa, 0x3f, 2, 7, 7]);
  const message = encodeHello({ program: 'p' }).subarray(wire.prefaceBytes);
  const whole = Buffer.concat([message, unknown]);
  const sent = Buffer.concat([preface(wire.protocol, whole.length), whole]);
  t.ok(new AgentHello('x').push(sent)?.bytes.includes(unknown), 'a field of a newer guest');
  t.ok(new AgentHello('').push(sent)?.bytes.equals(sent), 'no token to give');
  const full = encodeHello({ program: 'x'.repeat(wire.controlMax - 4) });
  t.throws(() => new AgentHello('x').push(full), OutboardError);
});
