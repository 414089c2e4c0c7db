// tls:// of the guest against TLS that others have written: Node's, which ends it on the server, and openssl's.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import t, { type Test } from 'tap';
import { authority, replaceFile, serverFiles } from '../../monitor/test/support/certificates.js';
import { Serving } from '../../monitor/test/support/serving.js';
import { build, noPrograms, noTls } from '../../test/support/paths.js';
import { example, native, remoted } from '../../test/support/program.js';
import { between, ended, run, start } from './support/client.js';
import { type Change, recordRelay } from './support/records.js';

const withTls = { skip: noTls };

const folder = mkdtempSync(path.join(tmpdir(), 'outboard-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const ours = authority(folder, 'ours');
const talks = path.join(build, 'guest-lib', 'test', 'guest-tls-talk');

/** The port on loopback, until the test ends. */
async function listen(t: Test, server: ReturnType<typeof createServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function serve(t: Test, ...args: string[]): Promise<{ serving: Serving; port: number }> {
  const { cert, key } = serverFiles(ours, null);
  const serving = await Serving.start(t, [
    ...['--servers-per-gpu', '2', '--tls-listen', '127.0.0.1:0'],
    ...['--tls-cert', cert ?? '', '--tls-key', key ?? '', ...args],
  ]);
  const tls = serving.listening.find((one) => one.startsWith('tls://')) ?? '';
  return { serving, port: Number(tls.split(':').pop()) };
}

/** TLS that nobody but the handshake needs. */
async function shows(t: Test, options: TlsOptions): Promise<number> {
  const server = createTlsServer({ minVersion: 'TLSv1.3', ...options });
  server.on('tlsClientError', () => {}).on('secureConnection', (socket) => socket.destroy());
  return listen(t, server);
}

const read = ({ cert, key }: { cert: string; key: string }) => ({
  cert: readFileSync(cert),
  key: readFileSync(key),
});

/** A certificate of ours whose time begins in ten minutes: as it is seen where the clock is late. */
function soon(common: string, name: string): { cert: string; key: string } {
  const { key } = ours.issue(common, [name]);
  const at = (file: string) => path.join(folder, `soon-${file}`);
  writeFileSync(at('index'), '');
  const config = `[ca]
default_ca = here
[here]
database = ${at('index')}
new_certs_dir = ${folder}
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = names
[any]
commonName = supplied
[names]
subjectAltName = ${name}
`;
  writeFileSync(at('config'), config);
  const time = (minutes: number) => {
    const text = new Date(Date.now() + minutes * 60_000).toISOString();
    return text.replace(/[-:T]|\.\d+/g, '');
  };
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  openssl('req', '-new', '-key', key, '-subj', `/CN=${common}`, '-out', at('csr'));
  const signed = ['-cert', ours.ca, '-keyfile', path.join(folder, 'ours', 'ca.key')];
  const when = ['-startdate', time(10), '-enddate', time(60)];
  const files = ['-config', at('config'), '-in', at('csr'), '-out', at('pem')];
  openssl('ca', '-batch', '-notext', ...files, ...signed, ...when);
  return { cert: at('pem'), key };
}

async function refused(t: Test, server: string, says: RegExp, env: Record<string, string> = {}) {
  const { lines, stderr, code } = await run('init', {
    OUTBOARD_SERVER: server,
    OUTBOARD_CA: ours.ca,
    OUTBOARD_LOG: 'warn',
    ...env,
  });
  t.match(lines[0], /^cuInit CUDA_ERROR_(SYSTEM_NOT_READY|INVALID_VALUE|NOT_PERMITTED)$/);
  t.match(stderr, says);
  t.equal(code, 0);
}

t.test(
  'programs, by name and by address, and what a certificate stands for',
  withTls,
  async (t) => {
    const tenants = path.join(folder, 'tenants.yaml');
    writeFileSync(
      tenants,
      'version: v1\ntenants:\n  - name: vision\n    certificates: [CN=vision]\n',
    );
    const { serving, port } = await serve(t, '--tenants', tenants, '--tls-client-ca', ours.ca);
    const vision = ours.issue('vision', []);
    const env = { OUTBOARD_CA: ours.ca, OUTBOARD_CERT: vision.cert, OUTBOARD_KEY: vision.key };
    for (const host of ['localhost', '127.0.0.1']) {
      const server = { ...env, OUTBOARD_SERVER: `tls://${host}:${port}` };
      const { lines, code } = await run('forks', server);
      t.ok(lines.includes('data same'), host);
      t.equal(lines.at(-1), `byte ${7}`, 'the child has not touched the connection');
      t.equal(code, 0);
    }
    await serving.logged({ msg: 'session begins', tenant: 'vision' });

    const nobody = ours.issue('nobody', []);
    const wrong = { OUTBOARD_CERT: nobody.cert, OUTBOARD_KEY: nobody.key };
    const server = `tls://localhost:${port}`;
    await refused(t, server, /OB_CERTIFICATE_UNKNOWN/, wrong);
    await refused(t, server, /OB_TOKEN_MISSING/);
    const others = authority(folder, 'strangers').issue('vision', []);
    const foreign = { OUTBOARD_CERT: others.cert, OUTBOARD_KEY: others.key };
    await refused(t, server, /OB_CERTIFICATE_REFUSED/, foreign);

    await t.test('CUDA programs', { skip: noPrograms }, async (t) => {
      for (const name of ['vector-add', 'matrix-multiply', 'printf']) {
        const here = await native(example(name));
        const there = await remoted(example(name), `tls://localhost:${port}`, { env });
        t.equal(there.code, 0, there.stderr);
        t.equal(there.stdout, here.stdout, name);
      }
    });
  },
);

t.test('whom a guest does not believe', withTls, async (t) => {
  const good = await shows(t, read(ours.issue('server', ['DNS:localhost'])));
  await refused(t, `tls://127.0.0.1:${good}`, /certificate of tls:.* is not of 127\.0\.0\.1/);
  const expired = await shows(t, read(ours.issue('server', ['DNS:localhost'], -1)));
  await refused(t, `tls://localhost:${expired}`, /has expired: here it is 20\d\d-.* UTC/);
  const early = await shows(t, read(soon('server', 'DNS:localhost')));
  await refused(t, `tls://localhost:${early}`, /is not valid yet: here it is 20\d\d-.* UTC/);
  const stranger = authority(folder, 'others').issue('server', ['DNS:localhost']);
  const unknown = await shows(t, read(stranger));
  await refused(t, `tls://localhost:${unknown}`, /is signed by nobody in .*ca\.pem/);
  const old = await shows(t, {
    ...read(ours.issue('server', ['DNS:localhost'])),
    minVersion: 'TLSv1.2',
    maxVersion: 'TLSv1.2',
  });
  await refused(t, `tls://localhost:${old}`, /does not speak TLS 1\.3/);
});

t.test("a server's certificate that is replaced, and one that has expired", withTls, async (t) => {
  const mine = serverFiles(ours, null);
  const [cert, key] = [String(mine.cert), String(mine.key)];
  const serving = await Serving.start(t, [
    ...['--servers-per-gpu', '2', '--tls-listen', '127.0.0.1:0'],
    ...['--tls-cert', cert, '--tls-key', key],
  ]);
  const tls = serving.listening.find((one) => one.startsWith('tls://')) ?? '';
  const server = tls.replace('127.0.0.1', 'localhost');
  const shows = async (next: { cert: string | null; key: string | null }) => {
    const from = serving.lines.length;
    replaceFile(String(next.key), key);
    replaceFile(String(next.cert), cert);
    await serving.logged({ msg: 'certificates read' }, from);
  };
  const env = { OUTBOARD_SERVER: server, OUTBOARD_CA: ours.ca };
  const { lines } = await between('server-dies', env, async () => {
    const others = authority(folder, 'next');
    await shows(serverFiles(others, null));
    await refused(t, server, /is signed by nobody/);
    const { lines } = await run('session', { ...env, OUTBOARD_CA: others.ca });
    t.match(lines[0], /CUDA_SUCCESS/, 'who knows the new one comes in');
    await shows(ours.issue('server', ['DNS:localhost'], -1));
    await refused(t, server, /has expired: here it is/);
  });
  t.ok(lines.includes('cuMemcpyDtoH_v2 CUDA_SUCCESS'), 'who was there goes on');
});

t.test('a certificate that signs itself is believed where it is named', withTls, async (t) => {
  // What `openssl req -x509` makes, as docs/operating.md has it: an authority's, by what it says of itself.
  const port = await shows(t, read({ cert: ours.ca, key: path.join(folder, 'ours', 'ca.key') }));
  await refused(t, `tls://localhost:${port}`, /is not of localhost/);
  const { ca } = authority(folder, 'third');
  await refused(t, `tls://localhost:${port}`, /is signed by nobody/, { OUTBOARD_CA: ca });
});

t.test('a certificate of an authority is believed where itself is named', withTls, async (t) => {
  const [right, old, other] = [
    ours.issue('server', ['DNS:localhost']),
    ours.issue('server', ['DNS:localhost'], -1),
    ours.issue('server', ['DNS:elsewhere']),
  ];
  const named = async ({ cert, key }: { cert: string; key: string }, ca: string) => {
    const port = await shows(t, read({ cert, key }));
    return [`tls://localhost:${port}`, { OUTBOARD_CA: ca }] as const;
  };
  const [server, env] = await named(right, right.cert);
  // It is believed, and says nothing.
  await refused(t, server, /Is it an Outboard server/, env);
  const [late, oldItself] = await named(old, old.cert);
  await refused(t, late, /has expired/, oldItself);
  const [wrong, otherItself] = await named(other, other.cert);
  await refused(t, wrong, /is not of localhost/, otherItself);
  const [unknown, another] = await named(right, other.cert);
  await refused(t, unknown, /is signed by nobody/, another);
});

t.test('what answers and is no TLS', withTls, async (t) => {
  const text = await listen(
    t,
    createServer((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad Request\r\n\r\n')),
  );
  await refused(t, `tls://localhost:${text}`, /speaks no TLS/);
  const shut = await listen(
    t,
    createServer((socket) => socket.on('error', () => {}).end()),
  );
  await refused(t, `tls://localhost:${shut}`, /no TLS with|has ended the connection/);
  const silent = await listen(
    t,
    createServer((socket) => socket.on('error', () => {})),
  );
  const soon = { OUTBOARD_CONNECT_TIMEOUT: '1' };
  await refused(t, `tls://localhost:${silent}`, /no TLS with .*: Connection timed out/, soon);
});

t.test('files that are of no use', withTls, async (t) => {
  const port = await shows(t, read(ours.issue('server', ['DNS:localhost'])));
  const server = `tls://localhost:${port}`;
  const file = (name: string, text: string) => {
    writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };
  const empty = file('empty', '');
  const { cert, key } = ours.issue('vision', []);
  await refused(t, server, /OUTBOARD_CA="\/no\/ca" cannot be read: No such file/, {
    OUTBOARD_CA: '/no/ca',
  });
  await refused(t, server, /holds no certificate that can be read/, { OUTBOARD_CA: empty });
  await refused(t, server, /OUTBOARD_CERT is set and OUTBOARD_KEY is not/, { OUTBOARD_CERT: cert });
  await refused(t, server, /OUTBOARD_KEY is set and OUTBOARD_CERT is not/, { OUTBOARD_KEY: key });
  await refused(t, server, /OUTBOARD_CERT=.* holds no certificates/, {
    OUTBOARD_CERT: empty,
    OUTBOARD_KEY: key,
  });
  await refused(t, server, /OUTBOARD_KEY=.* holds no key/, {
    OUTBOARD_CERT: cert,
    OUTBOARD_KEY: empty,
  });
  const named = ours.issue('vision', ['DNS:vision']);
  await refused(t, server, /do not belong together/, {
    OUTBOARD_CERT: named.cert,
    OUTBOARD_KEY: key,
  });
});

t.test('records that a network changes, leaves out, repeats or cuts', withTls, async (t) => {
  const { serving, port } = await serve(t);
  const damaged = (record: Buffer) => {
    const other = Buffer.from(record);
    other.writeUInt8(other.readUInt8(other.length - 9) ^ 1, other.length - 9);
    return [other];
  };
  let before: Buffer = Buffer.alloc(0);
  const NOT_SENT = /what came is not what the server has sent/;
  const ways: [name: string, change: Change, says: RegExp][] = [
    ['changed', (_direction, _count, record) => damaged(record), NOT_SENT],
    ['left out, an earlier one in its place', () => [before], NOT_SENT],
    ['repeated', (_direction, _count, record) => [record, record], NOT_SENT],
    [
      'of another size',
      (_direction, _count, record) => [Buffer.concat([record, record])],
      NOT_SENT,
    ],
    [
      'cut',
      (_direction, _count, record) => [record.subarray(0, 20), null],
      /the server closed it|ended early/,
    ],
    ['ended', () => [null], /the server closed it|ended early|no answer/],
  ];
  // What the server sends before are its part of the handshake and the Welcome.
  const LATE = 2;
  for (const [name, change, says] of ways) {
    let changed = 0;
    const relay = await recordRelay(t, port, (direction, count, record) => {
      if (direction !== 'to the guest' || count < LATE || changed > 0) {
        if (direction === 'to the guest') before = record;
        return [record];
      }
      changed++;
      return change(direction, count, record);
    });
    const { lines, stderr, signal } = await run('threads', {
      OUTBOARD_SERVER: `tls://localhost:${relay}`,
      OUTBOARD_CA: ours.ca,
      OUTBOARD_LOG: 'warn',
    });
    t.equal(changed, 1, `${name}: there was such a record`);
    t.match(stderr, says, name);
    t.equal(signal, null, `${name}: ${lines.at(-1)}`);
  }
  const relay = await recordRelay(t, port, (direction, count, record) =>
    direction === 'to the server' && count === 2 ? damaged(record) : [record],
  );
  const { stderr } = await run('session', {
    OUTBOARD_SERVER: `tls://localhost:${relay}`,
    OUTBOARD_CA: ours.ca,
    OUTBOARD_LOG: 'warn',
  });
  t.match(stderr, /the server has ended TLS with alert 20|the server closed it|reset/);
  t.equal(serving.child.exitCode, null, 'the server goes on');
});

t.test('keys are changed when the other side wants it, in both directions', withTls, async (t) => {
  const { cert, key } = ours.issue('server', ['DNS:localhost']);
  const args = [
    's_server',
    '-msg',
    '-tls1_3',
    '-cert',
    cert,
    '-key',
    key,
    '-accept',
    '127.0.0.1:0',
  ];
  const server = spawn('openssl', args, { stdio: ['pipe', 'pipe', 'pipe'] });
  t.teardown(() => server.kill('SIGKILL'));
  let heard = '';
  const seen = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve) => {
      const look = () => {
        const found = pattern.exec(heard);
        if (found) resolve(found);
        else server.stdout.once('data', look);
      };
      look();
    });
  server.stdout.setEncoding('utf8').on('data', (text: string) => {
    heard += text;
  });
  const [, at = ''] = await seen(/ACCEPT 127\.0\.0\.1:(\d+)/);
  const talk = start([], { OUTBOARD_SERVER: `tls://localhost:${at}`, OUTBOARD_CA: ours.ca }, talks);
  const result = ended(talk);
  let said = '';
  const told = (word: string) =>
    new Promise<void>((resolve) => {
      const look = () => (said.includes(word) ? resolve() : talk.stdout?.once('data', look));
      look();
    });
  talk.stdout?.on('data', (text: string) => {
    said += text;
  });
  const updates = (from: '>>>' | '<<<', times: number) =>
    seen(new RegExp(`(${from} [^\n]*KeyUpdate[^]*){${times}}`));
  await seen(/CIPHER is TLS_/);
  for (const round of [1, 2, 3]) {
    // s_server: K changes its keys and asks for the same.
    server.stdin.write('K\n');
    await updates('>>>', round);
    server.stdin.write(`here ${round}\n`);
    await told(`here ${round}`);
    talk.stdin?.write(`there ${round}\n`);
    await updates('<<<', round);
    await seen(new RegExp(`there ${round}`));
  }
  talk.stdin?.end();
  t.equal((await result).code, 0);
});

t.test('a guest that was built without TLS says so', { skip: !noTls }, async (t) => {
  const port = await listen(t, createServer());
  await refused(t, `tls://127.0.0.1:${port}`, /this library was built without TLS/);
});
