// One session in an API server process, with a made-up executor: what is sent when, what is told,
// and that the connection is let go of in every case.
import { closeSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { decodeAnswer, wire } from '../src/control.js';
import type { SessionOffer } from '../src/ipc.js';
import type {
  DeviceHandle,
  Native,
  SessionEnd,
  SessionHandle,
  SessionOptions,
} from '../src/native.js';
import { type Connection, type SessionEvents, SlotSession } from '../src/session.js';
import { windowChoices } from '../src/window.js';
import { sessionOffer } from './support/messages.js';

const base = 0x400000000000n;
const peer = { uuid: Buffer.alloc(16, 1), performanceRank: 0, nativeAtomics: true, atomics: [31] };

function madeUp(t: { testdir(): string }, granularity = 2n << 20n) {
  const file = path.join(t.testdir(), 'sent');
  const fd = openSync(file, 'w');
  let closed = 0;
  const connection: Connection = {
    fd,
    close: () => {
      closed++;
      closeSync(fd);
    },
  };
  const moved: bigint[] = [];
  const stopped: string[] = [];
  let options: SessionOptions | undefined;
  const counters = new BigUint64Array(12);
  const native = {
    snapshot: () => ({
      name: 'GPU',
      uuid: new Uint8Array(16),
      totalMemory: 8n << 30n,
      freeMemory: 8n << 30n,
      attributes: new Int32Array([0, 1024]),
      limits: new BigUint64Array([7n]),
      leastPriority: 0,
      greatestPriority: -5,
      pciBusId: '0000:01:00.0',
      peers: [peer],
      driverVersion: 13000,
      windowBase: base,
      windowSize: 1n << 40n,
      granularity,
    }),
    moveWindow: (_: DeviceHandle, to: bigint) => {
      moved.push(to);
      if (to !== 0x300000000000n) throw new Error('taken');
    },
    startSession: (_: DeviceHandle, given: SessionOptions) => {
      options = given;
      return {} as SessionHandle;
    },
    stopSession: (_: SessionHandle, message: string) => void stopped.push(message),
    counters: () => counters,
  } as unknown as Native;
  const request = sessionOffer({
    session: 5n,
    memoryLimit: 1n << 30n,
    pinnedLimit: 1n << 28n,
    moduleLimit: 1n << 27n,
    windowBases: [base],
    leftover: Buffer.from('behind'),
  });
  const session = (given: Partial<SessionOffer> = {}) =>
    new SlotSession(native, {} as DeviceHandle, { ...request, ...given }, connection);
  const sent = () => readFileSync(file);
  return {
    native,
    session,
    sent,
    moved,
    stopped,
    counters,
    closed: () => closed,
    options: () => options,
  };
}

const nobody: SessionEvents = {
  onUsed() {},
  onAway() {},
  onClosing() {},
  onArrived() {},
  onEnd() {},
};

function welcomeOf(bytes: Buffer) {
  return decodeAnswer(bytes.subarray(wire.prefaceBytes));
}

t.test('prepared, begun, ended', async (t) => {
  const { session, sent, options, closed, counters } = madeUp(t);
  const one = session();
  one.prepare();
  t.equal(sent().length, 0, 'nothing is sent before it begins');
  const ends: unknown[] = [];
  one.begin({
    ...nobody,
    onEnd: (end, counters) => ends.push({ end, launches: counters.launches }),
  });
  t.match(welcomeOf(sent()), {
    welcome: {
      ...{ session: 5n, memoryLimit: 1n << 30n, pinnedMemory: 1n << 28n },
      ...{ windowBase: base, windowSize: 1n << 40n },
    },
  });
  t.match(options(), { session: 5n, memoryLimit: 1n << 30n, leftover: Buffer.from('behind') });
  t.match(options(), { pinnedLimit: 1n << 28n, moduleLimit: 1n << 27n });
  t.equal(closed(), 1, "this process's copy of the connection is closed");
  t.same(ends, []);
  counters[4] = 42n;
  const end: SessionEnd = {
    reason: 'closed',
    message: 'gone',
    reusable: true,
    modules: [],
    learnt: new Uint8Array(),
  };
  options()?.onEnd(end);
  t.same(ends, [{ end, launches: 42n }]);
});

t.test('one of a program that has several devices', async (t) => {
  const { session, sent, options } = madeUp(t);
  const alone = session();
  alone.prepare();
  alone.begin(nobody);
  t.equal(options()?.group, 0n);
  t.match(welcomeOf(sent()), { welcome: { devices: [{ peers: [] }] } }, 'it has no peers');
  const { session: other, sent: told, options: given } = madeUp(t);
  const together = other({ group: 9n });
  together.prepare();
  together.begin(nobody);
  t.equal(given()?.group, 9n);
  t.match(welcomeOf(told()), { welcome: { devices: [{ peers: [peer] }] } });
});

t.test('a session that is recorded', async (t) => {
  const { session, options } = madeUp(t);
  const plain = session();
  plain.prepare();
  plain.begin(nobody);
  t.equal(options()?.trace, null);
  const before = process.hrtime.bigint();
  const hello = { name: 'hello', from: before - 1n, to: before - 1n };
  const recorded = madeUp(t);
  const one = recorded.session({ trace: { file: '/x', size: null, marks: [hello] } });
  one.prepare();
  one.begin(nobody);
  const trace = recorded.options()?.trace;
  t.match(trace, { file: '/x', size: null, marks: [hello, {}, {}] });
  const [, handover, welcome] = trace?.marks ?? [];
  t.match([handover?.name, welcome?.name], ['handover', 'welcome']);
  t.match(handover, { from: before - 1n, to: welcome?.from });
  const { from = 0n, to = 0n } = welcome ?? {};
  t.ok(before <= from && from <= to && to <= process.hrtime.bigint());
});

t.test('stopped', async (t) => {
  const { session, stopped, closed } = madeUp(t);
  const one = session();
  one.prepare();
  t.notOk(one.stop('early'), 'nothing runs yet');
  t.equal(closed(), 1);
  const { session: another, stopped: told } = madeUp(t);
  const two = another();
  two.prepare();
  two.begin(nobody);
  t.ok(two.stop('late'));
  t.same([stopped, told], [[], ['late']]);
});

t.test('a guest that has gone, and an executor that does not start', async (t) => {
  const { session, native, closed } = madeUp(t);
  const one = session();
  one.prepare();
  native.startSession = () => {
    throw new Error('no thread');
  };
  t.match(await ended(one), { reason: 'device', message: /no thread/, reusable: false });
  t.equal(closed(), 1);
  // Its file descriptor is closed now, so that the Welcome cannot be written.
  const two = new SlotSession(native, {} as DeviceHandle, sessionOffer(), {
    ...{ fd: 1 << 20, readStart: () => 0, readStop: () => 0, close: () => {} },
  });
  two.prepare();
  t.match(await ended(two), { reason: 'closed', message: /EBADF/, reusable: true });
});

function ended(session: SlotSession): Promise<SessionEnd> {
  return new Promise((resolve) => session.begin({ ...nobody, onEnd: resolve }));
}

t.test('memory in pieces of another size', async (t) => {
  const { session, sent } = madeUp(t, 32n << 20n);
  const limits = { memoryLimit: 100n << 20n, pinnedLimit: 70n << 20n };
  t.throws(() => session({ ...limits, takesGranularity: false }).prepare(), {
    code: 'OB_GRANULARITY',
    message: /pieces of 32768 KiB/,
  });
  const one = session({ ...limits, takesGranularity: true });
  one.prepare();
  one.begin(nobody);
  t.match(welcomeOf(sent()), {
    welcome: { memoryLimit: 96n << 20n, pinnedMemory: 64n << 20n, granularity: 32n << 20n },
  });
});

t.test('the window goes where the guest can hold it', async (t) => {
  const { session, moved, sent } = madeUp(t);
  const windowBases = [0x200000000000n, 0x300000000000n, 0x100000000000n];
  const one = session({ windowBases, windowSize: 1n << 29n });
  one.prepare();
  t.same(moved, windowBases.slice(0, 2));
  one.begin(nobody);
  t.match(welcomeOf(sent()), {
    welcome: { windowBase: 0x300000000000n, windowSize: 1n << 29n, memoryLimit: 1n << 29n },
  });
  const { session: another } = madeUp(t);
  const tooLarge = { windowSize: 1n << 41n, memoryLimit: 1n << 41n };
  t.throws(() => another({ windowBases: [0x200000000000n], ...tooLarge }).prepare(), {
    code: 'OB_WINDOW',
    message: /tried 0x200000000000 \(taken\)/,
  });
});

t.test('which windows are tried', async (t) => {
  const reserved = { base: 8n, size: 100n };
  const choices = (windowBases: bigint[], windowSize: bigint, memoryLimit = 10n) =>
    windowChoices(reserved, { windowBases, windowSize, memoryLimit });
  t.same(choices([], 0n), [{ base: 8n, size: 100n }]);
  t.same(choices([], 50n), [{ base: 8n, size: 50n }]);
  t.same(choices([4n, 8n], 200n), [{ base: 8n, size: 100n }], 'no move where none is needed');
  t.same(choices([8n], 200n, 150n), [{ base: 8n, size: 200n }], 'too small for the memory');
  const moves = [4n, 6n].map((base) => ({ base, size: 50n }));
  t.same(choices([4n, 6n], 50n), [...moves, { base: 8n, size: 50n }], 'the guest may take ours');
  t.same(choices([4n, 6n], 50n, 150n).length, 3);
  t.same(choices([4n], 200n, 150n), [{ base: 4n, size: 200n }], 'not where ours is too small');
});
