// `outboard serve` as a guest and an operator see it: real processes, real sockets, software GPUs.
import { once } from 'node:events';
import { readdirSync, readFileSync, symlinkSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { encodeHello, preface, wire } from '../../../api-server/src/control.js';
import { build } from '../../../bin/paths.mjs';
import { parseAddress } from '../../src/options/values.js';
import { Guest, usualHello } from '../support/guest.js';
import { isAlive, Serving } from '../support/serving.js';

t.test('a guest is welcomed with all it has to know', async (t) => {
  const { address } = await Serving.start(t);
  const guest = Guest.hello(address);
  const welcome = await guest.welcome();
  const [device] = welcome.devices;
  t.equal(welcome.session, 1n);
  t.ok(usualHello.windowBases?.includes(welcome.windowBase), 'a window the guest can hold');
  t.ok(welcome.windowSize >= welcome.memoryLimit, 'with room for its memory');
  t.equal(welcome.memoryLimit % wire.granule, 0n);
  t.ok(welcome.memoryLimit > 0n);
  t.equal(device?.totalMemory, welcome.memoryLimit, 'the device is as large as the limit');
  t.ok(welcome.driverVersion >= 12000);
  t.equal(welcome.devices.length, 1);
  t.equal(device?.uuid.length, 16);
  t.ok(device?.name);
  t.ok((device?.attributes[75] ?? 0) >= 5, 'compute capability');
  await guest.leave();
});

t.test('one slot: the others wait in order, and those who leave make way', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const { address } = serving;
  const a = Guest.hello(address);
  await a.welcome();
  const b = Guest.hello(address, { program: 'b' });
  t.equal(await b.position(), 1);
  const c = Guest.hello(address, { program: 'c' });
  t.equal(await c.position(), 2);
  const d = Guest.hello(address, { program: 'd' });
  t.equal(await d.position(), 3);
  await c.leave();
  t.equal(await d.position(), 2, 'moves up');
  await a.leave();
  t.equal((await b.welcome()).session, 2n);
  t.equal(await d.position(), 1);
  await b.leave();
  t.equal((await d.welcome()).session, 4n, 'the number it had while it waited');
  await d.leave();
  await serving.logged({ program: 'c', msg: 'left the queue' });
});

t.test('two GPUs with two slots each serve four at a time', async (t) => {
  const { address } = await Serving.start(t, ['--gpus', '2']);
  const guests = Array.from({ length: 4 }, () => Guest.hello(address));
  const welcomes = await Promise.all(guests.map((guest) => guest.welcome()));
  const devices = welcomes.map(({ devices }) =>
    Buffer.from(devices[0]?.uuid ?? []).toString('hex'),
  );
  t.equal(new Set(devices).size, 2, 'both are used');
  const fifth = Guest.hello(address);
  t.equal(await fifth.position(), 1);
  await guests[2]?.leave();
  await fifth.welcome();
  await Promise.all([...guests, fifth].map((guest) => guest.leave()));
});

t.test('memory that others have is waited for', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '2']);
  const { address } = serving;
  const probe = Guest.hello(address);
  const { memoryLimit } = await probe.welcome();
  await probe.leave();
  await serving.logged({ session: 1, msg: /^session ends/ });
  const large = Guest.hello(address, { memory: memoryLimit + 1n });
  const { memoryLimit: larger } = await large.welcome();
  t.equal(larger, memoryLimit + wire.granule, 'asked for more, and rounded up');
  const usual = Guest.hello(address);
  t.equal(await usual.position(), 1, 'a slot is free, but not the memory');
  const small = Guest.hello(address, { memory: wire.granule });
  t.equal(await small.position(), 2, 'would fit, but came later');
  await large.leave();
  await Promise.all([usual.welcome(), small.welcome()]);
  await Promise.all([usual.leave(), small.leave()]);
});

t.test('requests that cannot be satisfied are refused at once', async (t) => {
  const { address } = await Serving.start(t, ['--servers-per-gpu', '1']);
  const busy = Guest.hello(address);
  await busy.welcome();
  const refused = async (hello: Parameters<typeof Guest.hello>[1]) =>
    Guest.hello(address, hello).refusal();
  t.match(await refused({ devices: 2 }), {
    code: 'OB_TOO_MANY_GPUS',
    result: 101,
    remedy: /OUTBOARD_GPUS/,
  });
  t.match(await refused({ memory: 1n << 60n }), {
    code: 'OB_TOO_MUCH_MEMORY',
    result: 2,
    sentence: /asks for 1048576 TiB of device memory/,
  });
  t.match(await refused({ shareRequest: 150 }), { code: 'OB_SHARE', result: 1 });
  t.match(await refused({ windowBases: [1n] }), { code: 'OB_HELLO_VALUE' });
  await busy.leave();
});

t.test('the queue has an end', async (t) => {
  const { address } = await Serving.start(t, ['--servers-per-gpu', '1', '--queue-limit', '1']);
  const busy = Guest.hello(address);
  await busy.welcome();
  const waiting = Guest.hello(address);
  t.equal(await waiting.position(), 1);
  t.match(await Guest.hello(address).refusal(), { code: 'OB_QUEUE_FULL', result: 46 });
  await busy.leave();
  await waiting.welcome();
  await waiting.leave();
});

t.test('what is not a guest gets an answer and leaves no trace', async (t) => {
  const { address } = await Serving.start(t, ['--servers-per-gpu', '1']);
  const sends = async (bytes: Buffer | string, to = address) => {
    const guest = new Guest(to);
    guest.send(bytes);
    return guest;
  };

  const http = await sends('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.match((await http.rest()).toString(), /^HTTP\/1\.1 400 .*\r\n\r\nOB_NOT_OUTBOARD: /s);
  t.match(await (await sends(Buffer.from([0x16, 3, 1, 2, 0]))).refusal(), {
    code: 'OB_NOT_OUTBOARD',
  });
  t.match(await (await sends(preface(wire.protocol + 1, 10))).refusal(), {
    code: 'OB_VERSION',
    result: 803,
    remedy: /same release/,
  });
  t.match(await (await sends(preface(wire.protocol, 1 << 30))).refusal(), {
    code: 'OB_HELLO_TOO_LONG',
  });
  const flood = Buffer.concat([preface(wire.protocol, 1 << 30), Buffer.alloc(600_000)]);
  t.match(
    await (await sends(flood)).refusal(),
    { code: 'OB_HELLO_TOO_LONG' },
    'and goes on sending',
  );
  const garbled = Buffer.concat([preface(wire.protocol, 4), Buffer.from([255, 255, 255, 255])]);
  t.match(await (await sends(garbled)).refusal(), { code: 'OB_HELLO_MALFORMED' });

  const half = encodeHello(usualHello).subarray(0, 30);
  const brief = await Serving.start(t, ['--servers-per-gpu', '1', '--hello-timeout', '1']);
  t.match(await (await sends(half, brief.address)).refusal(), { code: 'OB_HELLO_SLOW' });
  const cutOff = await sends(half);
  cutOff.socket.end();
  t.match(await cutOff.refusal(), { code: 'OB_HELLO_TRUNCATED', sentence: /after 30 bytes/ });
  const silent = new Guest(address);
  await once(silent.socket, 'connect');
  await silent.leave();

  const busy = Guest.hello(address);
  t.equal((await busy.welcome()).session, 1n, 'none of them was a session');
  const eager = Guest.hello(address);
  t.equal(await eager.position(), 1);
  const behind = Guest.hello(address);
  t.equal(await behind.position(), 2);
  eager.send(Buffer.alloc(wire.controlMax + 1));
  t.match(await eager.refusal(), { code: 'OB_TOO_EARLY' });
  t.equal(await behind.position(), 1, 'moves up');
  await busy.leave();
  await behind.welcome();
  await behind.leave();
});

t.test('bytes behind the Hello reach the executor, however late', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  // No op is 0x7fff: the executor, and only the executor, ends the session with WIRE_END (0x8006).
  const frame = Buffer.from([0xff, 0x7f, 0, 0, 8, 0, 0, 0]);
  const hello = encodeHello(usualHello);
  const endOf = async (guest: Guest) => {
    await guest.welcome();
    return (await guest.read(2))?.readUInt16LE();
  };
  const together = new Guest(serving.address);
  together.send(Buffer.concat([hello, frame]));
  t.equal(await endOf(together), 0x8006, 'in one piece');
  const apart = new Guest(serving.address);
  apart.send(Buffer.concat([hello, frame.subarray(0, 3)]));
  await apart.welcome();
  apart.send(frame.subarray(3));
  t.equal((await apart.read(2))?.readUInt16LE(), 0x8006, 'half before, half after the Welcome');
  // Anywhere in the hand-over: the more turns of the event loop go by, the later it arrives.
  for (let turns = 0; turns < 30; turns++) {
    const guest = new Guest(serving.address);
    await once(guest.socket, 'connect');
    guest.send(hello);
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
    guest.send(frame);
    t.equal(await endOf(guest), 0x8006, `${turns} turns later`);
    await guest.rest();
  }
});

t.test('a Hello in pieces is a Hello', async (t) => {
  const { address } = await Serving.start(t);
  const guest = new Guest(address);
  await once(guest.socket, 'connect');
  for (const byte of encodeHello(usualHello)) {
    guest.send(Buffer.from([byte]));
    await new Promise(setImmediate);
  }
  t.equal((await guest.welcome()).devices.length, 1);
  await guest.leave();
});

t.test('a window somewhere else, and where nothing can be reserved', async (t) => {
  const { address } = await Serving.start(t, ['--servers-per-gpu', '1']);
  // Below 0x400000000000 the server's own heap may lie anywhere (V8 picks addresses at random).
  const windowBases = [0x480000000000n];
  const elsewhere = Guest.hello(address, { windowBases, windowSize: 1n << 36n });
  const welcome = await elsewhere.welcome();
  t.equal(welcome.windowBase, 0x480000000000n);
  t.ok(welcome.windowSize <= 1n << 36n);
  await elsewhere.leave();
  // Where this server's own programs and libraries are. The guest may be able to hold what the server has.
  const impossible = Guest.hello(address, { windowBases: [0x200000n], windowSize: 1n << 46n });
  t.equal((await impossible.welcome()).windowBase, 0x480000000000n);
  await impossible.leave();
  const usual = Guest.hello(address);
  t.equal((await usual.welcome()).windowBase, 0x400000000000n, 'the slot is as good as before');
  await usual.leave();
});

t.test('a guest that knows memory in pieces of 2 MiB only', async (t) => {
  const SOFTWARE_DEVICE_TRAITS = 'granularity=64K';
  const { address } = await Serving.start(t, ['--servers-per-gpu', '1'], {
    SOFTWARE_DEVICE_TRAITS,
  });
  const old = Guest.hello(address);
  t.match(await old.refusal(), { code: 'OB_GRANULARITY', remedy: /as new as the server/ });
  const guest = Guest.hello(address, { takesGranularity: true });
  t.equal((await guest.welcome()).granularity, 65536n);
  await guest.leave();
});

t.test('a driver that follows hints in some places only, or nowhere', async (t) => {
  const usual = 0x400000000000n;
  for (const hints of ['high', 'low', 'ignored']) {
    const SOFTWARE_DEVICE_TRAITS = `reservation-hints=${hints}`;
    const args = ['--servers-per-gpu', '1'];
    const { address } = await Serving.start(t, args, { SOFTWARE_DEVICE_TRAITS });
    const guest = Guest.hello(address, { windowBases: [usual] });
    const { windowBase } = await guest.welcome();
    // Below the usual one V8 may have taken what the server would have: where it is then is the driver's choice.
    if (hints === 'high') t.equal(windowBase, usual);
    else t.ok(windowBase < usual, `${hints}: 0x${windowBase.toString(16)}`);
    await guest.leave();
  }
});

t.test('a process that is killed is replaced, its session ends, the queue moves', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const { address } = serving;
  const guest = Guest.hello(address);
  await guest.welcome();
  const waiting = Guest.hello(address);
  t.equal(await waiting.position(), 1);
  const [pid] = serving.slotPids();
  process.kill(pid ?? 0, 'SIGKILL');
  await guest.rest();
  t.pass('the guest notices');
  t.equal((await waiting.welcome()).session, 2n);
  await serving.logged({ session: 1, msg: /session lost: .*killed by SIGKILL/ });
  t.not(serving.slotPids()[0], pid);
  await waiting.leave();
});

t.test('a free process that is killed is replaced too', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const before = serving.lines.length;
  process.kill(serving.slotPids()[0] ?? 0, 'SIGKILL');
  await serving.logged({ msg: 'ready' }, before);
  const guest = Guest.hello(serving.address);
  t.equal((await guest.welcome()).devices.length, 1);
  await guest.leave();
});

t.test('a process that dies while it takes over a guest loses nobody', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const [pid = 0] = serving.slotPids();
  process.kill(pid, 'SIGSTOP');
  const first = Guest.hello(serving.address);
  await serving.logged({ msg: 'offered' });
  const second = Guest.hello(serving.address);
  t.equal(await second.position(), 1);
  process.kill(pid, 'SIGKILL');
  t.equal((await first.welcome()).session, 1n, 'by another process');
  await serving.logged({ session: 1, msg: /killed by SIGKILL.*waits for another/ });
  await first.leave();
  t.equal((await second.welcome()).session, 2n);
  await second.leave();
});

t.test('a device that cannot be opened again', async (t) => {
  const folder = t.testdir();
  const library = path.join(folder, 'libcuda.so.1');
  const link = () => symlinkSync(path.join(build, 'software-device', 'libcuda.so.1'), library);
  link();
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--device', library]);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  const waiting = Guest.hello(serving.address);
  t.equal(await waiting.position(), 1);
  unlinkSync(library);
  process.kill(serving.slotPids()[0] ?? 0, 'SIGKILL');
  t.match(await waiting.refusal(), { code: 'OB_NO_SLOT', sentence: /libcuda\.so\.1/, result: 46 });
  t.match(await Guest.hello(serving.address).refusal(), { code: 'OB_NO_SLOT' });
  const before = serving.lines.length;
  link();
  await serving.logged({ msg: 'ready' }, before);
  const late = Guest.hello(serving.address);
  await late.welcome();
  await late.leave();
});

t.test('how many devices a driver library has', async (t) => {
  const library = path.join(build, 'software-device', 'libcuda.so.1');
  const args = ['--device', library, '--servers-per-gpu', '1'];
  const serving = await Serving.start(t, args, { SOFTWARE_DEVICE_GPUS: '3' });
  await serving.logged({ msg: 'listening', device: 'library', gpus: 3, slots: 3 });
  const more = Serving.start(t, [...args, '--gpus', '4'], { SOFTWARE_DEVICE_GPUS: '3' });
  await t.rejects(more, { message: /ended with 3:.*OB_DEVICE_COUNT.*asks for 4 GPUs.* has 3/s });
});

t.test('sessions leave nothing open in the monitor, and one process serves them all', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const open = () => readdirSync(`/proc/${serving.child.pid}/fd`).length;
  const pids = serving.slotPids();
  const visit = async (session: number) => {
    const guest = Guest.hello(serving.address);
    await guest.welcome();
    await guest.leave();
    await serving.logged({ session, msg: /^session ends/ });
  };
  // The first ones open what stays.
  for (let session = 1; session <= 3; session++) await visit(session);
  const before = open();
  for (let session = 4; session <= 100; session++) await visit(session);
  // The last one's may still be being closed.
  while (open() > before) await new Promise((again) => setTimeout(again, 20));
  t.pass('nothing is left open');
  t.same(serving.slotPids(), pids);
});

t.test('the end of a session is one line of figures', async (t) => {
  const serving = await Serving.start(t);
  const guest = Guest.hello(serving.address, { program: 'figures', pid: 77, host: 'elsewhere' });
  await guest.welcome();
  await guest.leave();
  const begins = await serving.logged({ msg: 'session begins' });
  t.match(begins, {
    program: 'figures',
    pid: 77,
    host: 'elsewhere',
    session: 1,
    slot: /^0\.[01]$/,
  });
  const ends = await serving.logged({ session: 1, msg: /^session ends/ });
  t.match(ends, { reason: 'closed', commands: 0, roundTrips: 0, launches: 0, program: 'figures' });
  t.type(ends['seconds'], 'number');
});

t.test('SIGTERM: sessions are told, nobody is left', async (t) => {
  const file = path.join(t.testdir(), 'ready');
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--ready-file', file]);
  t.same(parseAddress(readFileSync(file, 'utf8').trim()), serving.address);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  const waiting = Guest.hello(serving.address);
  await waiting.position();
  const silent = new Guest(serving.address);
  await once(silent.socket, 'connect');
  const pids = serving.slotPids();
  t.equal(pids.length, 1);
  t.equal(await serving.stop(), 0);
  t.match(await waiting.refusal(), { code: 'OB_SHUTDOWN' });
  await silent.rest();
  t.match((await guest.rest()).toString('latin1'), /the server is being shut down/);
  t.same(pids.filter(isAlive), []);
  const late = Guest.hello(serving.address);
  t.equal(await late.answer(), null, 'nobody listens any more');
});

t.test('SIGTERM before it listens', async (t) => {
  const serving = Serving.launch(t, ['--servers-per-gpu', '3']);
  await serving.logged({ msg: 'ready' });
  t.equal(await serving.stop(), 0);
  t.same(serving.slotPids(), []);
});

t.test('a monitor that is killed takes its processes along', async (t) => {
  const serving = await Serving.start(t);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  const pids = serving.slotPids();
  t.equal(pids.length, 2);
  serving.child.kill('SIGKILL');
  await guest.rest();
  t.pass('the session ends');
  // Their stderr is the monitor's pipe: it closes when the last of them has ended.
  if (serving.child.stderr && !serving.child.stderr.closed)
    await once(serving.child.stderr, 'close');
  for (const pid of pids) await gone(pid);
});

/** Waits for the end of a process that is nobody's child here. */
async function gone(pid: number) {
  while (isAlive(pid)) await new Promise((again) => setTimeout(again, 20));
}
