// Recordings, clocks, tracks and what `outboard trace` makes of them; without any program.
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { cli } from '../../../test/support/paths.js';
import { OutboardError } from '../../src/base/errors.js';
import { kernelName, kernelNames, withKernelNames } from '../../src/base/kernel-name.js';
import { compareClocks, estimateClocks, Finder } from '../../src/trace/clocks.js';
import { TraceFolder, toHrtime } from '../../src/trace/folder.js';
import { perfettoTrace, traceTypes } from '../../src/trace/perfetto.js';
import {
  type Kind,
  parseRecording,
  type Recording,
  type TraceEvent,
} from '../../src/trace/recording.js';
import { layOut, makeTimeline, type Slice } from '../../src/trace/timeline.js';
import { replay } from '../support/track-events.js';

const base = 5_000_000_000_000_123n;

interface Raw {
  kind: number;
  at: bigint;
  duration?: bigint;
  name?: number;
  result?: number;
  thread?: number;
  a?: bigint;
  b?: bigint;
  c?: bigint;
}

/** A file as trace_ring.c makes it: 8 records; `mangle` changes it before it is returned. */
function ring(role: 1 | 2, names: string[], records: Raw[], head = records.length): Buffer {
  const bytes = Buffer.alloc(4096 + 4096 + 8 * 64);
  bytes.write('OBTRACE1', 'latin1');
  bytes.writeUInt32LE(1, 8);
  bytes.writeUInt32LE(role, 12);
  const words = [4096, 4096, 8192, 8, 64, head, 0];
  for (const [index, word] of words.entries()) bytes.writeBigUInt64LE(BigInt(word), 16 + index * 8);
  let at = 4096;
  for (const name of names) {
    bytes.writeUInt32LE(name.length, at);
    bytes.write(name, at + 4);
    at += 4 + ((name.length + 3) & ~3);
  }
  bytes.writeBigUInt64LE(BigInt(at - 4096), 72);
  bytes.writeBigUInt64LE(77n, 88);
  bytes.writeBigUInt64LE(9n, 96);
  bytes.writeBigUInt64LE(base, 104);
  bytes.writeBigUInt64LE(1_700_000_000_000_000_000n, 112);
  bytes.write('a clock', 120);
  bytes.write('a host', 184);
  bytes.write('a program', 248);
  for (const [index, record] of records.entries()) {
    const number = head - records.length + index + 1;
    const place = 8192 + ((number - 1) % 8) * 64;
    bytes.writeBigUInt64LE(BigInt(number) * 2n, place);
    bytes.writeBigUInt64LE(base + record.at, place + 8);
    bytes.writeBigUInt64LE(record.duration ?? 0n, place + 16);
    bytes.writeUInt16LE(record.kind, place + 24);
    bytes.writeUInt32LE(record.thread ?? 77, place + 28);
    bytes.writeUInt32LE(record.name ?? 0, place + 32);
    bytes.writeInt32LE(record.result ?? 0, place + 36);
    bytes.writeBigUInt64LE(record.a ?? 0n, place + 40);
    bytes.writeBigUInt64LE(record.b ?? 0n, place + 48);
    bytes.writeBigUInt64LE(record.c ?? 0n, place + 56);
  }
  return bytes;
}

const open = 0xffffffffffffffffn;

t.test('a recording', async (t) => {
  const bytes = ring(
    1,
    ['cuInit', 'cuMemFree_v2'],
    [
      { kind: 1, at: 2_000n, duration: 50n, name: 2, result: -1, a: 3n, b: 4n },
      { kind: 1, at: -1_000n, duration: 4_000_000_000n, name: 1, thread: 78 },
      { kind: 999, at: 5n },
      { kind: 3, at: 10n, duration: open, name: 2 },
    ],
  );
  const { events, ...rest } = parseRecording(bytes, 'x');
  t.same(rest, {
    ...{ file: 'x', role: 'guest', base, realtime: 1_700_000_000_000_000_000n, lost: 0 },
    ...{ clock: 'a clock', process: 77, program: 'a program', host: 'a host', session: 9n },
  });
  t.match(events, [
    { kind: 'call', at: -1000, duration: 4e9, name: 'cuInit', thread: 78 },
    { kind: 'wait', at: 10, duration: 4e9 - 1010, open: true },
    { kind: 'call', at: 2000, duration: 50, name: 'cuMemFree_v2', result: -1, a: 3, b: 4 },
  ]);
});

t.test('a ring that went round, with records that are not whole', async (t) => {
  const records = Array.from({ length: 8 }, (_, i) => ({ kind: 2, at: BigInt(i), a: BigInt(i) }));
  const bytes = ring(1, [], records, 21);
  t.same(
    parseRecording(bytes, 'x').events.map(({ a }) => a),
    [0, 1, 2, 3, 4, 5, 6, 7],
  );
  t.equal(parseRecording(bytes, 'x').lost, 13);
  const place = (number: number) => 8192 + ((number - 1) % 8) * 64;
  bytes.writeBigUInt64LE(16n * 2n + 1n, place(16)); // being written
  bytes.writeBigUInt64LE(9n * 2n, place(17)); // given up: what was there before
  const { events, lost } = parseRecording(bytes, 'x');
  t.same(
    events.map(({ a }) => a),
    [0, 1, 4, 5, 6, 7],
  );
  t.equal(lost, 15);
});

t.test('files that are damaged', async (t) => {
  const good = ring(2, ['x'], [{ kind: 6, at: 1n }]);
  const code = (bytes: Buffer) => {
    try {
      parseRecording(bytes, 'x');
      return null;
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      return error.code;
    }
  };
  t.equal(code(good), null);
  t.equal(code(Buffer.alloc(0)), 'OB_TRACE_FILE');
  t.equal(code(good.subarray(0, 8200)), 'OB_TRACE_FILE');
  const changed = (at: number, value: number) => {
    const bytes = Buffer.from(good);
    bytes.writeUInt32LE(value, at);
    return bytes;
  };
  for (const at of [0, 8, 12, 16, 24, 32, 40, 48, 72]) {
    t.equal(code(changed(at, 0xffffffff)), 'OB_TRACE_FILE', `at ${at}`);
  }
  t.throws(() => parseRecording(changed(8, 2), 'x'), /version 2, this reads version 1/);
  // Anything at all either reads or is refused.
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(8700), fc.nat(255))), (changes) => {
      const bytes = Buffer.from(good);
      for (const [at, value] of changes) bytes[at] = value;
      code(bytes);
    }),
  );
});

// ---- clocks ------------------------------------------------------------------------------------

function event(kind: Kind, at: number, more: Partial<TraceEvent> = {}): TraceEvent {
  const nothing = { duration: 0, open: false, thread: 1, name: '', result: 0, a: 0, b: 0, c: 0 };
  return { kind, at, ...nothing, ...more };
}

function recording(role: 'guest' | 'server', events: TraceEvent[], clock = ''): Recording {
  return {
    ...{ file: role, role, base: 1000n, realtime: 5000n, clock, process: 1, program: 'p' },
    ...{ host: 'h', session: 1n, events, lost: 0 },
  };
}

/** Round trips of `there` + `work` + `back` nanoseconds, the server's clock as `ahead` says. */
function conversation(trips: { at: number; there: number; back: number }[], ahead: Clock) {
  const guest: TraceEvent[] = [];
  const server: TraceEvent[] = [];
  for (const [index, { at, there, back }] of trips.entries()) {
    const sequence = index + 1;
    const arrived = at + there;
    const answered = arrived + 100;
    guest.push(event('send', at, { a: 8, b: sequence, c: sequence }));
    guest.push(event('receive', answered + back, { name: 'reply', c: sequence }));
    const ofServer = (moment: number) => moment + ahead(moment);
    const command = { a: sequence, c: ofServer(answered), duration: 120 };
    server.push(event('command', ofServer(arrived), command));
  }
  return [recording('guest', guest), recording('server', server)] as const;
}
type Clock = (at: number) => number;

t.test('clocks that differ', async (t) => {
  const trip = fc.record({ there: fc.nat(50_000), back: fc.nat(50_000) });
  const run = fc.property(
    fc.array(trip, { minLength: 1, maxLength: 50 }),
    fc.integer({ min: -1e12, max: 1e12 }),
    (trips, ahead) => {
      const spaced = trips.map((one, index) => ({ ...one, at: index * 1_000_000 }));
      const clocks = estimateClocks(...conversation(spaced, () => ahead));
      const off = Math.abs((clocks?.ahead ?? Number.NaN) - ahead);
      const least = Math.min(...trips.map((one) => one.there));
      const most = Math.min(...trips.map((one) => one.back));
      return (
        clocks?.method === 'estimated' &&
        off <= clocks.within + 1e-3 &&
        Math.abs(clocks.within - (least + most) / 2) < 1e-3
      );
    },
  );
  t.doesNotThrow(() => fc.assert(run));
});

t.test('clocks that drift', async (t) => {
  const drift = 50e-6;
  const trips = Array.from({ length: 1000 }, (_, i) => ({
    ...{ at: i * 10_000_000, there: 10_000 + (i % 7) * 3000, back: 10_000 + (i % 5) * 3000 },
  }));
  const [guest, server] = conversation(trips, (at) => 1e9 + at * drift);
  const clocks = estimateClocks(guest, server);
  if (!clocks) return t.fail('they can be compared');
  t.ok(clocks.within < 40_000, `${clocks.within}`);
  for (const { at } of trips.filter((one) => one.at > 1e8 && one.at < 9.9e9)) {
    const moment = at + 1e9 + at * drift;
    const off = Math.abs(clocks.toGuest(moment) - at);
    if (off > 40_000) return t.fail(`${off} ns off after ${at} ns`);
  }
  let last = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < 12e9; at += 1e6) {
    const now = clocks.toGuest(at);
    if (now <= last) return t.fail('time goes back');
    last = now;
  }
  return t.end();
});

t.test('clocks without messages, and one clock', async (t) => {
  const [guest, server] = [recording('guest', []), recording('server', [])];
  t.equal(estimateClocks(guest, server), null);
  const other = { ...server, realtime: 8000n };
  t.match(compareClocks(guest, other), { method: 'none', ahead: -3000 });
  const hello = (at: number) => event('attach', at, { name: 'hello' });
  t.equal(estimateClocks(recording('guest', [hello(1)]), recording('server', [hello(9)])), null);
  const same = compareClocks({ ...guest, clock: 'c' }, { ...server, clock: 'c', base: 1500n });
  t.match(same, { method: 'same', ahead: -500, within: 0 });
  // Attach alone: 10 there, 30 back, 1000 ahead.
  const welcome = (at: number) => event('attach', at, { name: 'welcome' });
  const attach = compareClocks(
    recording('guest', [hello(50), hello(100), welcome(240)]),
    recording('server', [hello(1110), welcome(1210)]),
  );
  t.match(attach, { method: 'estimated', ahead: 990, within: 20 });
});

t.test('which run of commands', async (t) => {
  const finder = new Finder([
    { first: 8, last: 9 },
    { first: 1, last: 4 },
  ]);
  t.same(
    [0, 1, 4, 5, 8, 9, 10].map((sequence) => finder.of(sequence)?.first),
    [undefined, 1, 1, undefined, 8, 8, undefined],
  );
});

// ---- tracks ------------------------------------------------------------------------------------

t.test('slices that overlap are laid onto several tracks', async (t) => {
  const length = fc.oneof(fc.constant(null), fc.nat(20));
  const some = fc.array(fc.record({ at: fc.nat(50), duration: length }));
  const run = fc.property(some, (all) => {
    const slices: Slice[] = all.map((one, index) => ({
      ...{ ...one, name: String(index), category: 'c', args: {}, from: [], to: [] },
    }));
    const tracks = layOut([...slices]);
    const end = (one: Slice) => one.at + (one.duration ?? 0);
    const nest = (one: Slice, two: Slice) =>
      end(one) <= two.at || end(two) <= one.at || end(two) <= end(one) || end(one) <= end(two);
    return (
      tracks.flat().length === slices.length &&
      tracks.every((own) =>
        own.every((one, i) =>
          own.slice(i + 1).every((two) => two.at >= one.at && nest(one, two) && !crosses(one, two)),
        ),
      )
    );
    function crosses(one: Slice, two: Slice) {
      return two.at < end(one) && end(two) > end(one) && one.at < two.at;
    }
  });
  t.doesNotThrow(() => fc.assert(run));
});

t.test('what overlaps, lasts, and leads to what', async (t) => {
  const guest = recording('guest', [
    event('call', 100, { name: 'cuLaunchKernel', duration: 10, a: 5, b: 5 }),
    event('call', 200, { name: 'cuCtxSynchronize', duration: 900, a: 6, b: 6, open: true }),
    event('wait', 210, { name: 'cuCtxSynchronize', duration: 880, a: 1, b: 6 }),
  ]);
  const server = recording('server', [
    event('held', 300, { duration: 100, a: 1, b: 4096, c: 7 }),
    event('held', 350, { duration: 100, a: 2, b: 8192 }),
    event('use', 400, { name: '_Z3addPf', a: 1, b: 3, c: 12 }),
    event('use', 400, { name: '_ZN2at5scaleIfEEvPT_', a: 1, b: 1, c: 1 }),
    event('group', 400, { duration: 50, a: 1, b: 4096, c: 4, result: 2 }),
    event('command', 300, { name: 'cuCtxSynchronize', duration: 700, a: 6, c: 900 }),
  ]);
  const both = { ...server, clock: 'c' };
  const bytes = Buffer.concat([...perfettoTrace(makeTimeline({ ...guest, clock: 'c' }, both))]);
  const seen = replay(bytes);
  const by = (name: string) => seen.filter((one) => one.name === name);
  const [launch] = by('cuLaunchKernel');
  const [kernel] = by('add, at::scale<float>');
  t.match(kernel, { track: 'kernels: stream 1', at: 300, end: 350 });
  t.match(kernel?.args, { _Z3addPf: '3 × 12 blocks', group: 1n });
  t.same([launch?.from, kernel?.to], [[11n], [11n]]);
  const [wait] = by('wait: cuCtxSynchronize');
  const command = seen.find(({ track }) => track === 'executor thread 1');
  t.same([wait?.from, command?.to, wait?.depth], [[12n], [12n], 1]);
  t.match(by('cuCtxSynchronize')[0]?.args, { unfinished: 1n });
  t.same(
    seen.filter(({ category }) => category === 'gate').map(({ track, name }) => [track, name]),
    [
      ['gate', 'held: stream 1'],
      ['gate (2)', 'held: stream 2'],
    ],
  );
  const { packet } = traceTypes().Trace.decode(bytes) as unknown as { packet: unknown[] };
  t.equal(packet.length, 1 + 2 + 5 + 1 + 7 * 2);
});

t.test('names of kernels', async (t) => {
  const names = {
    add: 'add',
    _Z9vectorAddPKfS0_Pfi: 'vectorAdd',
    _Z5scaleIfEvPT_i: 'scale<float>',
    _Z5scaleIT_EvS0_i: 'scale<>',
    _ZN2at6native13reduce_kernelILi512ELb1EEEvv: 'at::native::reduce_kernel<512, true>',
    _Z1fIPKfN1a1bIxEESt5tupleIJicEELin3EEvv:
      'f<float const*, a::b<long long>, std::tuple<int, char>, -3>',
    _ZN1aIS_E1bEvv: 'a<>',
    _ZN12_GLOBAL__N_13addEv: '(anonymous)::add',
    _ZNK1a1bEv: 'a::b',
    _Z: '_Z',
    _Z99short: '_Z99short',
    _ZplRK1aS1_: '_ZplRK1aS1_',
    _ZN1aplEv: '_ZN1aplEv',
    _ZN: '_ZN',
    '': '',
  };
  for (const [mangled, name] of Object.entries(names)) t.equal(kernelName(mangled), name);

  // They are what guests say.
  const long = 'x'.repeat(5000);
  t.equal(kernelName(long).length, 120);
  t.equal(kernelName(`_Z${long.length}${long}v`).length, 120);
  const deep = `_Z1f${'I1a'.repeat(1000)}`;
  t.equal(kernelName(deep), 'f<>');
  for (const noise of ['_ZN1a', '_Z1fI', '_Z1fIJJJ', '_Z0', '_ZNSt', '_Z1fILi5', '_Z1fIP']) {
    t.ok(kernelName(noise).length <= 120, noise);
  }
  const any = fc.property(
    fc.string({ unit: fc.constantFrom(...'_ZNIEJLPKR1259abifSt') }),
    (text) => {
      return kernelName(`_Z${text}`).length <= 120;
    },
  );
  fc.assert(any, { numRuns: 2000 });

  const twice = ['_Z5scaleIT_EvS0_i', '_Z5scaleIT_EvS1_i', 'add', 'add'];
  t.same(kernelNames(twice), [
    'scale<> (_Z5scaleIT_EvS0_i)',
    'scale<> (_Z5scaleIT_EvS1_i)',
    'add',
    'add',
  ]);
  t.equal(withKernelNames('ended: _Z5spinsPi, _Z'), 'ended: spins, _Z');
});

// ---- the folder and the command ----------------------------------------------------------------

t.test('the folder of a server', async (t) => {
  const folder = path.join(t.testdir(), 'a', 'b');
  const traces = new TraceFolder(folder, { keep: 3, size: 1n << 20n });
  const arrived = performance.now() - 10;
  const { file, size, marks } = traces.begin(4, { arrived, placed: arrived + 2.5 });
  t.same([file, size], [path.join(folder, 'session-4.trace'), 1n << 20n]);
  const [hello, queue] = marks;
  t.match([hello?.name, queue?.name], ['hello', 'queue']);
  t.equal(hello?.from, hello?.to);
  const length = Number((queue?.to ?? 0n) - (queue?.from ?? 0n));
  t.ok(queue && queue.to < process.hrtime.bigint() && length > 0);
  t.ok(toHrtime(performance.now()) <= process.hrtime.bigint());
  for (let n = 1; n <= 5; n++) {
    writeFileSync(path.join(folder, `session-${n}.trace`), '');
    utimesSync(path.join(folder, `session-${n}.trace`), n, n);
  }
  writeFileSync(path.join(folder, 'mine.trace'), '');
  traces.begin(6, { arrived, placed: arrived });
  t.same(readdirSync(folder).sort(), ['mine.trace', 'session-4.trace', 'session-5.trace']);
  t.throws(() => new TraceFolder(path.join(folder, 'mine.trace', 'x')), { code: 'OB_TRACE_DIR' });
});

t.test('a folder in which somebody has put what is no recording', async (t) => {
  const folder = t.testdir({ 'session-7.trace': { inside: '' }, elsewhere: 'stays' });
  const traces = new TraceFolder(folder, { keep: 3, size: 1n << 20n });
  const at = (name: string) => path.join(folder, name);
  symlinkSync('nowhere', at('session-8.trace'));
  symlinkSync('elsewhere', at('session-9.trace'));
  execFileSync('mkfifo', [at('session-10.trace')]);
  for (let n = 1; n <= 5; n++) writeFileSync(at(`session-${n}.trace`), '');
  for (let n = 1; n <= 5; n++) utimesSync(at(`session-${n}.trace`), 3e9 + n, 3e9 + n);
  traces.begin(6, { arrived: 0, placed: 0 });
  t.same(readdirSync(folder).sort(), [
    'elsewhere',
    'session-4.trace',
    'session-5.trace',
    'session-7.trace',
  ]);

  // There may be any number of them, and everybody waits while they are looked at.
  for (let n = 0; n < 5000; n++) writeFileSync(at(`session-1${n}.trace`), '');
  traces.begin(6, { arrived: 0, placed: 0 });
  const left = readdirSync(folder).length;
  t.ok(left > 3000 && left < 4100, `${left} are left`);
});

t.test('a file that is no recording, and has no end', async (t) => {
  const folder = t.testdir({ 'huge.trace': '' });
  truncateSync(path.join(folder, 'huge.trace'), 8 * 2 ** 30);
  execFileSync('mkfifo', [path.join(folder, 'pipe.trace')]);
  symlinkSync('/dev/zero', path.join(folder, 'zero.trace'));
  for (const [name, why] of [
    ['huge', 'it has more than'],
    ['pipe', 'it is no regular file'],
    ['zero', 'it is no regular file'],
  ]) {
    // In a process of its own, which can be ended where it waits without an end.
    const args = [cli, 'trace', `${name}.trace`, '--output', 'out.json'];
    const read = spawnSync(process.execPath, args, { cwd: folder, timeout: 60_000 });
    t.equal(read.signal, null);
    t.match(read.stderr.toString(), `OB_TRACE_FILE`);
    t.match(read.stderr.toString(), why);
  }
});

function outboard(
  args: string[],
  cwd: string,
): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [cli, ...args], { cwd }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err });
    });
  });
}

t.test('the command', async (t) => {
  const folder = t.testdir();
  const put = (name: string, bytes: Buffer) => writeFileSync(path.join(folder, name), bytes);
  put('guest.trace', ring(1, ['cuInit'], [{ kind: 1, at: 5n, duration: 7n, name: 1 }], 11));
  put('server.trace', ring(2, ['hello'], [{ kind: 5, at: 2n, name: 1 }]));
  const other = ring(2, ['hello'], [{ kind: 5, at: 2n, name: 1 }]);
  other.writeBigUInt64LE(10n, 96);
  put('other.trace', other);

  const one = await outboard(['trace', 'guest.trace'], folder);
  t.match(one, {
    code: 0,
    err: '',
    out: /guest: a program \(77\) on a host, 1 events; 10 earlier/,
  });
  const seen = replay(readFileSync(path.join(folder, 'guest.pftrace')));
  t.match(seen, [{ name: 'trace' }, { name: 'cuInit', at: 0, end: 7 }]);

  const both = await outboard(['trace', 'server.trace', 'guest.trace', '-o', 'x'], folder);
  t.match(both, { code: 0, out: /clocks: guest and server had the same/ });
  const [, hello, init] = replay(readFileSync(path.join(folder, 'x')));
  t.match([hello, init], [{ name: 'hello' }, { name: 'cuInit', at: 3, process: 'a program' }]);

  const json = await outboard(['trace', '--json', 'guest.trace'], folder);
  t.equal(json.code, 0);
  t.ok(JSON.parse(readFileSync(path.join(folder, 'guest.json'), 'utf8')).traceEvents.length > 3);

  t.match(await outboard(['trace', 'guest.trace', 'other.trace'], folder), {
    ...{ code: 3, err: /different sessions, 9 and 10 \(OB_TRACE_PAIR\)/ },
  });
  t.match(await outboard(['trace', 'guest.trace', 'guest.trace'], folder), {
    ...{ code: 3, err: /both were recorded by a guest/ },
  });
  t.match(await outboard(['trace', 'no.trace'], folder), { code: 3, err: /OB_TRACE_FILE/ });
  t.match(await outboard(['trace', 'guest.trace', '-o', '/no/x'], folder), {
    ...{ code: 3, err: /OB_TRACE_WRITE/ },
  });
  t.match(await outboard(['trace'], folder), { code: 2 });
  t.notOk(existsSync(path.join(folder, 'no.pftrace')));
});
