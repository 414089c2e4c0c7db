// A slot's process that somebody has taken over, and what it says to the monitor: that ends the
// process, and nothing else.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { Readable } from 'node:stream';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { counterNames, loadNative } from '../../../api-server/src/native.js';
import { handleOf } from '../../../api-server/src/socket-handle.js';
import { sessionOffer } from '../../../api-server/test/support/messages.js';
import { build } from '../../../bin/paths.mjs';
import { Slot, type SlotEvents } from '../../src/slots/slot.js';
import { SlotLog } from '../../src/slots/slot-log.js';
import { TurnPage } from '../../src/slots/turn-page.js';

const native = loadNative(build);

/** What the process runs in place of ours: `say` writes to where the monitor listens. */
const begin = `import('${new URL('../../../api-server/src/message.js', import.meta.url)}').then(({ encodeMessage }) => {
  const fs = require('fs');
  const write = (fd, bytes) => {
    for (let at = 0; at < bytes.length; ) {
      try { at += fs.writeSync(fd, bytes, at); }
      catch (error) { if (error.code !== 'EAGAIN') process.exit(7); }
    }
  };
  const framed = (body) => {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(body.length);
    return Buffer.concat([head, body]);
  };
  const say = (message) => write(3, framed(encodeMessage(message)));
  const ready = {
    type: 'ready',
    snapshot: {
      name: 'GPU', uuid: new Uint8Array(16), gpuUuid: null, totalMemory: 1n, freeMemory: 1n,
      attributes: new Int32Array(140), limits: new BigUint64Array(8),
      leastPriority: 0, greatestPriority: 0, pciBusId: '0000:01:00.0', peers: [],
      driverVersion: 13000, windowBase: 0n, windowSize: 1n, streamOperations: 0, granularity: 0n, cublas: 0,
    },
  };
  setInterval(() => {}, 1000);
`;

interface Line {
  level: number;
  msg: string;
  [field: string]: unknown;
}

/** A slot with such a process; resolves with how it ended. */
function hostile(t: Test, script: string, events: Partial<SlotEvents> = {}) {
  const lines: Line[] = [];
  let heard = () => {};
  const log = pino(
    { base: null, level: 'debug' },
    {
      write: (line: string) => {
        lines.push(JSON.parse(line));
        heard();
      },
    },
  );
  const nothing = () => {};
  let slot: Slot | undefined;
  const ended = new Promise<string>((resolve) => {
    const library = '';
    const kept = { modules: null, uploads: null, libraries: null, imageBytes: 0n };
    const sandbox = { command: process.execPath, args: ['-e', `${begin}${script}});`], what: '' };
    const options = {
      gpu: 0,
      addresses: 0,
      index: 1,
      build,
      library,
      ordinal: 0,
      uuid: null,
      env: process.env,
      sandbox,
      native,
      turns: new TurnPage(native),
      warm: 'handles' as const,
      ...kept,
    };
    const all = {
      ...{ onReady: nothing, onFailed: nothing, onPrepared: nothing, onDeclined: nothing },
      ...{ onArrived: nothing, onMoved: nothing, onStays: nothing },
      ...{ onUsed: nothing, onClosing: nothing, onEnded: nothing, ...events },
      onExit: (_: Slot, how: string) => resolve(how),
    };
    slot = new Slot(options, all, log);
  });
  t.teardown(() => slot?.kill());
  const until = async (fits: (line: Line) => boolean): Promise<Line> => {
    for (;;) {
      const found = lines.find(fits);
      if (found) return found;
      await new Promise<void>((resolve) => {
        heard = resolve;
      });
    }
  };
  return { slot: slot as unknown as Slot, ended, lines, until };
}

const nonsense = {
  'bytes that are no message': 'write(3, Buffer.alloc(100_000, 0xff))',
  'a message that is nothing': 'write(3, framed(Buffer.alloc(100, 0xfe)))',
  'a message that is longer than any': 'write(3, Buffer.from([0x7f, 0, 0, 0]))',
  'no message of ours': 'say(7)',
  null: 'say(null)',
  "a word of Node's own": `say({ cmd: 'NODE_HANDLE_ACK' })`,
  "another word of Node's own": `say({ cmd: 'NODE_HANDLE', type: 'nothing', msg: 0 })`,
  'a name that objects have': `say({ type: 'constructor' })`,
  'a type that is none': 'say({ type: {} })',
  'no device': `say({ type: 'ready', snapshot: null })`,
  'a device of another kind': `say({ ...ready, snapshot: { ...ready.snapshot, peers: 'all' } })`,
  'a number that no machine has': `say({ ...ready, snapshot: { ...ready.snapshot, totalMemory: 1n << 70n } })`,
  'a number just too large': `say({ ...ready, snapshot: { ...ready.snapshot, totalMemory: 1n << 64n } })`,
  'a number of four million digits': `write(3, framed(Buffer.from('"n' + '9'.repeat(4_000_000) + '"')))`,
  'bytes that fill no number': `write(3, framed(Buffer.from('"wAAAA"')))`,
  'text of no kind': `write(3, framed(Buffer.from('{"type":"prepared"}')))`,
  'a list without an end': `const peers = Array(1_000_000).fill(1); say({ ...ready, snapshot: { ...ready.snapshot, peers } })`,
  'lists within lists': `write(3, framed(Buffer.from('['.repeat(2_000_000) + ']'.repeat(2_000_000))))`,
  'a device, again': 'say(ready), say(ready)',
  'an answer nobody asked for': `say(ready), say({ type: 'pong', counters: null })`,
  'a session nobody began': `say(ready), say({ type: 'ended', end: { reason: 'closed', message: '', reusable: true, modules: [], learnt: new Uint8Array() }, counters: {} })`,
  'a guest that is away, of nobody': `say(ready), say({ type: 'away', away: null })`,
  'a time that no date has': `say(ready), say({ type: 'away', away: { passedMs: 0, leftMs: 1e300 } })`,
  'the closing of a session nobody began': `say(ready), say({ type: 'closing' })`,
  'answers without an end': `say(ready); for (;;) say({ type: 'measured', freeMemory: 1n })`,
};

for (const [what, script] of Object.entries(nonsense)) {
  t.test(what, async (t) => {
    const { ended, until } = hostile(t, script);
    t.match(await ended, /makes no sense/);
    t.match(await until(({ msg }) => /makes no sense/.test(msg)), { level: 50, slot: '0.1' });
  });
}

const padded = (bytes: number) => `
  const framedPadded = (body) => framed(Buffer.from(JSON.stringify(body).slice(0, -1) + ' '.repeat(${bytes}) + '}'));
  setImmediate(() => say(7));
  say(ready);
  write(3, framedPadded(`;

const more = {
  'bytes than what was asked for has': [
    `${padded(100_000)}{ type: "'measured", freeMemory: 'n1' }))`,
    /a message of 100\d+ bytes/,
  ],
  'values than what was asked for has': [
    `${padded(0)}{ type: "'measured", ...Array(5_000).fill(1) }))`,
    /more values/,
  ],
} as const;

for (const [what, [script, reason]] of Object.entries(more)) {
  t.test(`more ${what}`, async (t) => {
    const { until } = hostile(t, script, { onReady: (slot) => void slot.measure() });
    const { err } = await until(({ msg }) => /makes no sense/.test(msg));
    t.match(err, { message: reason });
  });
}

const names =
  'Array(100).fill({ name: "k".repeat(16 << 10), launches: 1n, blocks: 1n, ns: 1n, unmeasured: 0n })';

t.test('what is long is read where it was asked for, and else not', async (t) => {
  let kernels: Promise<unknown[]> | undefined;
  const events = {
    onReady: (slot: Slot) => {
      kernels = slot.kernels();
      slot.measure();
    },
  };
  const { ended, until } = hostile(
    t,
    `say(ready); say({ type: 'kernels', kernels: ${names} }); setImmediate(() => say(7))`,
    events,
  );
  await ended;
  t.equal((await kernels)?.length, 100);
  t.match(await until(({ err }) => err !== undefined), { err: { message: /no message/ } });

  const other = hostile(t, `${padded(100_000)}{ type: "'measured", freeMemory: 'n1' }))`, events);
  const { err } = await other.until(({ msg }) => /makes no sense/.test(msg));
  t.match(err, { message: /'measured' has 100\d+ bytes/ });
});

t.test('one that does not say how much memory is free is asked once, until it ends', async (t) => {
  const asked: Promise<bigint | null>[] = [];
  const script = `
    say(ready);
    let words = '';
    fs.createReadStream(null, { fd: 3 }).on('data', (bytes) => {
      words += bytes;
      if (words.includes('ping')) fs.writeSync(2, words.split('measure').length - 1 + ' asked\\n');
    });
  `;
  const { slot, ended, until } = hostile(t, script, {
    onReady: (slot) => {
      for (let i = 0; i < 100; i++) asked.push(slot.measure());
      slot.watch(60);
    },
  });
  t.equal((await until(({ msg }) => / asked$/.test(msg))).msg, '1 asked');
  slot.kill();
  await ended;
  t.strictSame(new Set(await Promise.all(asked)), new Set([null]));
  t.equal(await slot.measure(), null, 'nor is it asked afterwards');
});

t.test('a line without an end is cut', async (t) => {
  const { lines, until } = hostile(t, `write(2, Buffer.alloc(1 << 20, 'x')); say(ready)`);
  const { msg } = await until(({ msg }) => /^x/.test(msg));
  t.ok(msg.length <= 4000);
  await until(({ msg }) => /longer than 64 KiB/.test(msg));
  t.equal(lines.filter(({ msg }) => /^x/.test(msg)).length, 1);
});

t.test('what comes behind a line that was cut is a line again', async (t) => {
  const { until } = hostile(t, `write(2, Buffer.from('x'.repeat(1 << 20) + '\\nbehind\\n'))`);
  t.match(await until(({ msg }) => msg === 'behind'), { level: 40, slot: '0.1' });
});

t.test('lines without an end are counted', async (t) => {
  const { lines, until } = hostile(t, `write(2, Buffer.alloc(200_000, 'y\\n'))`);
  const { msg } = await until(({ msg }) => /left out/.test(msg));
  t.match(msg, /^\d+ lines/);
  t.ok(lines.length < 10_000);
});

t.test('lists within lists in a line', async (t) => {
  const deep = `'{"msg":"deep","a":' + '['.repeat(5_000) + ']'.repeat(5_000) + '}\\n'`;
  const { until } = hostile(
    t,
    `write(2, Buffer.from(${deep})); write(2, Buffer.from('behind\\n'))`,
  );
  t.match(await until(({ msg }) => /deep/.test(msg)), { level: 40, slot: '0.1' });
  await until(({ msg }) => msg === 'behind');
});

t.test('what is more than a log can hold is not even read', async (t) => {
  const awake = setInterval(() => {}, 1000);
  t.teardown(() => clearInterval(awake));
  for (const what of ['y\\n', 'y', '\\n']) {
    let read = 0;
    const endless = new Readable({
      read() {
        read++;
        // Where it is read without an end nobody else gets a turn.
        if (read === 1000) this.destroy();
        else this.push(Buffer.alloc(64 << 10, what.replace('\\n', '\n')));
      },
    });
    t.teardown(() => endless.destroy());
    const log = new SlotLog(endless, pino({ level: 'silent' }));
    await once(endless, 'pause');
    t.ok(read < 100, `${read} parts of ${JSON.stringify(what)}`);
    await once(endless, 'pause');
    t.ok(read < 100, 'nor in the next second');
    log.end();
  }
});

/** The connection of a guest, as a slot is given it. */
async function guestOf(t: Test) {
  const listener = createServer((socket) => t.teardown(() => socket.destroy()));
  await once(listener.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => listener.close());
  const guest = connect((listener.address() as AddressInfo).port, '127.0.0.1');
  await once(guest, 'connect');
  t.teardown(() => guest.destroy());
  const handle = handleOf(guest);
  if (!handle) throw new Error('it has no handle');
  return handle;
}

const limits = { memoryLimit: 1n, pinnedLimit: 1n, moduleLimit: 1n };

t.test('one that serves nobody after its session is ended at once', async (t) => {
  const guest = await guestOf(t);
  const counters = `{ ${counterNames.map((name) => `${name}: 0n`).join(', ')} }`;
  const end = `{ reason: 'device', message: '', reusable: false, modules: [], learnt: new Uint8Array() }`;
  const script = `
    const until = (word) => { for (const bytes = Buffer.alloc(4096); !bytes.includes(word); ) fs.readSync(3, bytes); };
    say(ready);
    until('windowBases');
    say({ type: 'prepared', windowBase: 0n, windowSize: 0n });
    until('begin');
    say({ type: 'ended', end: ${end}, counters: ${counters} });
  `;
  const { ended, lines } = hostile(t, script, {
    onReady: (slot) => slot.offer(sessionOffer({ session: 3n, ...limits }), guest),
    onPrepared: (slot) => slot.begin(),
  });
  t.equal(await ended, 'its session left what only a new process is without');
  t.same(
    lines.filter(({ level }) => level > 30),
    [],
    'it was not waited for',
  );
});

t.test('a line of a session is of the one that the monitor knows', async (t) => {
  const guest = await guestOf(t);
  const script = `
    say(ready);
    for (const bytes = Buffer.alloc(4096); !bytes.includes('windowBases'); ) fs.readSync(3, bytes);
    write(2, Buffer.from('{"level":40,"msg":"mine","session":7,"tenant":"b"}\\n'));
  `;
  const session = sessionOffer({ session: 3n, tenant: 'a', ...limits });
  const { until } = hostile(t, script, {
    onReady: (slot) => slot.offer(session, guest),
  });
  const line = await until(({ msg }) => msg === 'mine');
  t.match(line, { slot: '0.1', session: 3, tenant: 'a', said: '{"session":7,"tenant":"b"}' });
});
