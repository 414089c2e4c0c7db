// TLS for guests outside the machine: who is let in, with which identity, and what becomes of running
// connections when certificates or the front itself are replaced.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { decodeAnswer, wire } from '../../../api-server/src/control.js';
import { recordRelay } from '../../../guest-lib/test/support/records.js';
import { noTls } from '../../../test/support/paths.js';
import type { FrontPeer, GuestSocket } from '../../src/tls/front.js';
import type { SealedSocket } from '../../src/tls/sealed-socket.js';
import { alternativeNames, readTls } from '../../src/tls/tls.js';
import { authority, replaceFile, serverFiles } from '../support/certificates.js';
import { DescriptorLimit } from '../support/descriptors.js';
import { startFront, take, tlsGuest } from '../support/front.js';
import { Serving } from '../support/serving.js';

const folder = t.testdir();
const ours = authority(folder, 'ours');
const theirs = authority(folder, 'theirs');
const files = serverFiles(ours, ours);
const ca = readFileSync(ours.ca);

const of = ({ cert, key }: { cert: string; key: string }) => ({
  ca,
  cert: readFileSync(cert),
  key: readFileSync(key),
});
const vision = of(ours.issue('vision', ['URI:spiffe://lab/vision', 'DNS:v.example']));

/** A front that hands guests over, and one that passes on every byte; without TLS in this build there is no other. */
const ways = noTls ? [true] : [false, true];

/** One test for each of them. */
function both(name: string, test: (t: Test, way: { relays: boolean }) => Promise<void>) {
  for (const relays of ways)
    t.test(`${name}, ${relays ? 'relayed' : 'handed over'}`, (t) => test(t, { relays }));
}

/** Sends everything back, and keeps who came. */
function mirror() {
  const seen: FrontPeer[] = [];
  const accept = (socket: GuestSocket, from: FrontPeer) => {
    seen.push(from);
    socket.on('error', () => {});
    socket.pipe(socket);
  };
  return { seen, accept };
}

both('bytes go both ways, each way ends by itself', async (t, way) => {
  const { seen, accept } = mirror();
  const { address } = await startFront(t, { ...way, files }, accept);
  const guest = await tlsGuest(t, address, { ca });
  t.equal(guest.getProtocol(), 'TLSv1.3');
  const peer = `127.0.0.1:${guest.localPort}`;
  const sent = randomBytes(3 << 20);
  guest.end(sent);
  t.ok((await take(guest, sent.length)).equals(sent), 'also after this end has been closed');
  guest.resume();
  await once(guest, 'end');
  t.same(seen, [{ peer, certificate: null }]);
});

both('a client certificate says who it is', async (t, way) => {
  const { seen, accept } = mirror();
  const { address } = await startFront(t, { ...way, files, clients: 'require' }, accept);
  const guest = await tlsGuest(t, address, vision);
  guest.write('x');
  t.equal(String(await take(guest, 1)), 'x');
  const names = { cn: 'vision', dns: ['v.example'], uris: ['spiffe://lab/vision'] };
  t.same(seen[0]?.certificate, names);
});

both('who is not let in is told why', async (t, way) => {
  const { seen, accept } = mirror();
  const { address, log } = await startFront(t, { ...way, files, clients: 'require' }, accept);
  const wrong = of(theirs.issue('vision', []));
  const old = of(ours.issue('vision', [], -1));
  for (const [what, options, code, says] of [
    ['another authority', wrong, 'OB_CERTIFICATE_REFUSED', /unable to verify leaf signature/],
    ['expired', old, 'OB_CERTIFICATE_REFUSED', /cert has expired/],
    ['no certificate', { ca }, 'OB_CERTIFICATE_MISSING', /none came/],
  ] as const) {
    const guest = await tlsGuest(t, address, options);
    const start = await take(guest, wire.prefaceBytes);
    const answer = decodeAnswer(await take(guest, start.readUInt32LE(12)));
    t.match(answer, { refusal: { code, sentence: says } }, what);
    guest.end();
    await log.line(says);
  }
  t.equal(seen.length, 0, 'none of them got to the monitor');
});

both(
  'where a certificate is welcome, none is needed, and a wrong one is refused',
  async (t, way) => {
    const { seen, accept } = mirror();
    const { address } = await startFront(t, { ...way, files, clients: 'ask' }, accept);
    const guest = await tlsGuest(t, address, { ca });
    guest.write('x');
    await take(guest, 1);
    t.same(seen[0]?.certificate, null);
    const stranger = await tlsGuest(t, address, of(theirs.issue('vision', [])));
    const start = await take(stranger, wire.prefaceBytes);
    t.match(decodeAnswer(await take(stranger, start.readUInt32LE(12))), {
      refusal: { code: 'OB_CERTIFICATE_REFUSED' },
    });
    t.equal(seen.length, 1);
  },
);

both('a certificate that nobody asked for is nobody', async (t, way) => {
  const { seen, accept } = mirror();
  const { address } = await startFront(t, { ...way, files, clients: 'none' }, accept);
  const guest = await tlsGuest(t, address, vision);
  guest.write('x');
  await take(guest, 1);
  t.same(seen[0]?.certificate, null);
});

both('nothing but TLS 1.3', async (t, way) => {
  const { seen, accept } = mirror();
  const { address, log } = await startFront(t, { ...way, files }, accept);
  const old = connectTls({ host: '127.0.0.1', port: address.port, ca, maxVersion: 'TLSv1.2' });
  const [error] = await once(old, 'error');
  t.match(error, { code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' });
  const plain = connect(address.port, '127.0.0.1');
  plain.on('error', () => {}).resume();
  plain.write('OUTBOARD, but in the clear');
  await new Promise((closed) => plain.once('close', closed));
  await log.line(/no TLS connection came about/);
  t.equal(seen.length, 0);
});

both('new certificates, while connections run', async (t, way) => {
  const mine = { ...serverFiles(ours, null) };
  const { accept } = mirror();
  const { address, log } = await startFront(t, { ...way, files: mine }, accept);
  const before = await tlsGuest(t, address, { ca });
  const old = before.getPeerX509Certificate()?.serialNumber;
  const next = serverFiles(ours, null);
  writeFileSync(`${mine.cert}`, 'no certificate');
  await log.line(/the certificates stay as they were/);
  const between = await tlsGuest(t, address, { ca });
  t.equal(between.getPeerX509Certificate()?.serialNumber, old, 'broken files change nothing');
  replaceFile(String(next.key), String(mine.key));
  replaceFile(String(next.cert), String(mine.cert));
  await log.line(/certificates read/);
  const after = await tlsGuest(t, address, { ca });
  t.not(after.getPeerX509Certificate()?.serialNumber, old);
  before.write('still here');
  t.equal(String(await take(before, 10)), 'still here');
});

t.test('a front that relays dies and comes back; close waits for who is still there', async (t) => {
  const { accept } = mirror();
  const { front, address, log } = await startFront(t, { relays: true, files }, accept);
  const guest = await tlsGuest(t, address, { ca });
  const cut = new Promise<void>((resolve) => {
    guest.once('end', resolve).once('error', () => resolve());
  });
  process.kill(childOf(process.pid), 'SIGKILL');
  guest.resume();
  await cut;
  await log.line(/the TLS front is back/);
  const again = await tlsGuest(t, address, { ca });
  again.write('x');
  t.equal(String(await take(again, 1)), 'x');
  let closed = false;
  const closing = front.close().then(() => {
    closed = true;
  });
  again.write('y');
  t.equal(String(await take(again, 1)), 'y');
  t.notOk(closed);
  again.end();
  again.resume();
  await closing;
});

t.test('who was handed over has nothing more to do with the front', { skip: noTls }, async (t) => {
  const { accept } = mirror();
  const { front, address, log } = await startFront(t, { files }, accept);
  const guest = await tlsGuest(t, address, { ca });
  const echoes = async (text: string) => {
    guest.write(text);
    t.equal(String(await take(guest, text.length)), text);
  };
  await echoes('here');
  process.kill(childOf(process.pid), 'SIGKILL');
  await echoes('still here');
  await log.line(/the TLS front is back/);
  await tlsGuest(t, address, { ca });
  await front.close();
  await echoes('and still');
});

t.test(
  'a connection that was saved for another process sends nothing here',
  { skip: noTls },
  async (t) => {
    const arrived = new Promise<SealedSocket>((resolve) => {
      const accept = (socket: GuestSocket) => {
        const sealed = socket as SealedSocket;
        sealed.on('error', () => {}).once('data', () => resolve(sealed));
      };
      void startFront(t, { files }, accept).then(async ({ address }) => {
        const guest = await tlsGuest(t, address, { ca });
        guest.on('error', () => {}).write('hello');
      });
    });
    const socket = await arrived;
    t.ok(socket.save());
    const refused = await new Promise((done) => socket.write('welcome', done));
    t.match(refused, { message: /another process sends/ });
    socket.destroy();
  },
);

// One after the other, as long as each is either let in or sent away.
const comers = `
  const { connect } = require('node:tls');
  const [port, count] = process.argv.slice(1).map(Number);
  let shaken = 0;
  const one = (left) => {
    if (left === 0) return process.stdout.write(String(shaken), () => process.exit());
    const next = () => one(left - 1);
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
    socket.on('error', () => {}).once('close', next);
    socket.once('secureConnect', () => {
      shaken++;
      socket.off('close', next);
      next();
    });
  };
  one(count);
`;

both('who has shaken hands counts until the monitor has it', async (t, way) => {
  const { seen, accept } = mirror();
  const strangers = { all: 1000, ofAddress: 5 };
  const { address } = await startFront(t, { ...way, files, strangers }, accept);
  // This process is the monitor, and takes nobody in meanwhile.
  const args = ['--eval', comers, String(address.port), '20'];
  const shaken = execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
  t.ok(Number(shaken) >= 5, shaken);
  t.ok(Number(shaken) <= 8, `${shaken}: those, and what lies in the channel`);
  t.equal(seen.length, 0);
});

t.test('what comes right behind a handshake is not lost', { skip: noTls }, async (t) => {
  const { accept } = mirror();
  const { address } = await startFront(t, { files }, accept);
  const sent = randomBytes(300 << 10);
  const guest = connectTls({ host: '127.0.0.1', port: address.port, ca });
  t.teardown(() => guest.destroy());
  guest.write(sent);
  t.ok((await take(guest, sent.length)).equals(sent));
});

t.test('who does not shake hands in time', async (t) => {
  for (const relays of ways) {
    const { accept } = mirror();
    const { address, log } = await startFront(t, { relays, files, helloSeconds: 1 }, accept);
    const silent = connect(address.port, '127.0.0.1');
    silent.on('error', () => {}).resume();
    await new Promise((over) => silent.once('close', over));
    t.match(await log.line(/no TLS connection came about/), { reason: /handshake timeout/ });
  }
});

t.test('records that somebody on the way has changed', { skip: noTls }, async (t) => {
  const failed = new Promise<Error>((resolve) => {
    const accept = (socket: GuestSocket) => void socket.on('error', resolve).resume();
    void startFront(t, { files }, accept).then(async ({ address }) => {
      // The first one belongs to the handshake.
      const way = await recordRelay(t, address.port, (direction, count, record) => {
        if (direction === 'to the server' && count === 1)
          record.writeUInt8(record.readUInt8(9) ^ 1, 9);
        return [record];
      });
      const guest = connectTls({ host: '127.0.0.1', port: way, ca });
      t.teardown(() => guest.destroy());
      guest.on('error', () => {}).write('something');
    });
  });
  t.match((await failed).message, /damaged record/);
});

/** The front's process: the last one, where that of the test before has not quite ended. */
function childOf(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  const front = children.findLast((child) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('tls/front-process'),
  );
  return Number(front);
}

t.test('a front without descriptors sends away who comes, and nobody else', async (t) => {
  const { accept } = mirror();
  const { address, log } = await startFront(t, { relays: true, files }, accept);
  const guest = await tlsGuest(t, address, { ca });
  const echoes = async (socket: Socket) => {
    socket.write('x');
    t.equal(String(await take(socket, 1)), 'x');
  };
  await echoes(guest);
  const descriptors = new DescriptorLimit(childOf(process.pid));
  // For a guest, and not for what leads to the monitor.
  descriptors.leave(1);
  const refused = await tlsGuest(t, address, { ca });
  await new Promise<void>((over) => {
    refused.once('end', over).once('error', () => over());
    refused.resume();
  });
  t.match(await log.line(/^a guest is sent away: .*Too many open files/), {
    remedy: /LimitNOFILE/,
  });
  await echoes(guest);
  descriptors.reset();
  await echoes(await tlsGuest(t, address, { ca }));
});

t.test('a front that cannot be started again is tried again', async (t) => {
  const { cert, key } = files;
  const serving = await Serving.start(t, [
    ...['--servers-per-gpu', '1', '--tls-listen', '127.0.0.1:0'],
    ...['--tls-cert', cert ?? '', '--tls-key', key ?? ''],
  ]);
  const { pid = 0 } = serving.child;
  const descriptors = new DescriptorLimit(pid);
  descriptors.leave(0);
  process.kill(childOf(pid), 'SIGKILL');
  await serving.logged({ msg: /^the TLS front cannot start: .*EMFILE/ });
  descriptors.reset();
  await serving.logged({ msg: 'the TLS front is back' });
  t.equal(await serving.stop(), 0);
});

t.test('nobody else finds a way between the front and the monitor', async (t) => {
  const { seen, accept } = mirror();
  const { address } = await startFront(t, { relays: true, files }, accept);
  const guest = await tlsGuest(t, address, { ca });
  guest.write('x');
  t.equal(String(await take(guest, 1)), 'x');
  t.equal(seen.length, 1);
  const open = [process.pid, childOf(process.pid)].flatMap((pid) =>
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${fd}`)];
      } catch {
        return []; // what the list itself was read by
      }
    }),
  );
  const inodes = new Set(open.map((name) => /^socket:\[(\d+)\]$/.exec(name)?.[1]));
  const unix = readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const ours = unix.filter(([, , , , , , inode]) => inodes.has(inode));
  t.ok(ours.length >= 2, 'they are connected');
  t.same(ours.map(([, , , , , , , name]) => name).filter(Boolean), [], 'by sockets without names');
});

both('many at once all get through', async (t, way) => {
  const { seen, accept } = mirror();
  const { address } = await startFront(t, { ...way, files }, accept);
  const guests = Array.from({ length: 200 }, async (_, number) => {
    const guest = await tlsGuest(t, address, { ca });
    guest.end(String(number).padStart(4));
    return String(await take(guest, 4));
  });
  const answers = (await Promise.all(guests)).map(Number);
  t.same(answers, [...answers.keys()]);
  t.equal(new Set(seen.map(({ peer }) => peer)).size, 200);
});

t.test('a front that cannot start says why', async (t) => {
  const { accept } = mirror();
  const none = { cert: null, key: null, ca: null };
  await t.rejects(startFront(t, { files: none }, accept), { code: 'OB_TLS_FILES' });
  const noAuthority = { ...files, ca: null };
  await t.rejects(startFront(t, { files: noAuthority, clients: 'ask' }, accept), {
    code: 'OB_TLS_FILES',
    message: /need a file of authorities/,
  });
  const mixed = { ...files, key: serverFiles(ours, null).key };
  await t.rejects(startFront(t, { files: mixed }, accept), { code: 'OB_TLS_FILES' });
  const { address } = await startFront(t, { files }, accept);
  await t.rejects(startFront(t, { files, listen: address }, accept), {
    code: 'OB_LISTEN',
    message: /EADDRINUSE/,
  });
});

t.test('files that are no certificates', async (t) => {
  const text = `${folder}/text`;
  writeFileSync(text, 'hello');
  const code = { code: 'OB_TLS_FILES' };
  const says = (change: Partial<typeof files>, message: RegExp) => {
    t.throws(() => readTls({ ...files, ...change }), { ...code, message });
    try {
      readTls({ ...files, ...change });
    } catch (error) {
      t.notMatch((error as Error).message, /error:|routines|::/, "nothing of OpenSSL's own");
    }
  };
  says({ ca: text }, /text: there is no certificate in it/);
  says({ cert: text }, /text: there is no certificate in it/);
  says({ key: text }, /there is no private key in it/);
  says({ key: '/no/such' }, /\/no\/such: there is no such file/);
  says({ key: serverFiles(ours, null).key }, /the key is not that of the certificate/);
  const locked = `${folder}/locked.key`;
  const cipher = ['-aes256', '-passout', 'pass:secret'];
  execFileSync('openssl', ['ec', '-in', files.key ?? '', ...cipher, '-out', locked], {
    stdio: 'ignore',
  });
  says({ key: locked }, /the key is encrypted/);
  // What comes out without a passphrase is now and then no key in another way.
  const nonsense = randomBytes(96).toString('base64');
  for (const [head, kind] of [
    ['', 'ENCRYPTED PRIVATE KEY'],
    ['Proc-Type: 4,ENCRYPTED\nDEK-Info: NONE\n\n', 'EC PRIVATE KEY'],
  ] as const) {
    writeFileSync(locked, `-----BEGIN ${kind}-----\n${head}${nonsense}\n-----END ${kind}-----\n`);
    says({ key: locked }, /the key is encrypted/);
  }
});

t.test('alternative names, also hostile ones', async (t) => {
  t.same(alternativeNames('DNS:a.b, URI:spiffe://x/y, IP Address:1.2.3.4'), [
    ['DNS', 'a.b'],
    ['URI', 'spiffe://x/y'],
    ['IP Address', '1.2.3.4'],
  ]);
  t.same(alternativeNames('DNS:"a, URI:spiffe://x"'), [['DNS', 'a, URI:spiffe://x']]);
  t.same(alternativeNames('URI:"a\\"b", DNS:c'), [
    ['URI', 'a"b'],
    ['DNS', 'c'],
  ]);
  t.same(alternativeNames(''), []);
  t.same(alternativeNames('DNS:a, "b'), []);
});

both('a certificate with a comma in its name is not two', async (t, way) => {
  const { seen, accept } = mirror();
  const { address } = await startFront(t, { ...way, files, clients: 'require' }, accept);
  const sly = of(ours.issue('sly/CN=vision', ['URI:spiffe://lab/sly, URI:spiffe://lab/vision']));
  const guest = await tlsGuest(t, address, sly);
  guest.write('x');
  await take(guest, 1);
  const { uris = [], cn } = seen[0]?.certificate ?? {};
  t.notOk(uris.includes('spiffe://lab/vision'), JSON.stringify(uris));
  t.equal(cn, null, 'of several common names none counts');
});
