// The first bytes of a connection, right and wrong, in one piece and in many.
import fc from 'fast-check';
import t from 'tap';
import { encodeHello, preface, wire } from '../../../api-server/src/control.js';
import { OutboardError } from '../../src/base/errors.js';
import { type Arrived, HelloReader } from '../../src/guests/hello.js';
import { usualHello } from '../support/guest.js';

/** Pushes the pieces one after another until something comes out. */
function read(...pieces: Buffer[]): Arrived | undefined {
  const reader = new HelloReader();
  for (const [index, piece] of pieces.entries()) {
    const arrived = reader.push(piece);
    if (!arrived) continue;
    const leftover = Buffer.concat([arrived.leftover, ...pieces.slice(index + 1)]);
    return { ...arrived, leftover };
  }
  return undefined;
}

function codeOf(...pieces: Buffer[]): string | undefined {
  try {
    read(...pieces);
    return undefined;
  } catch (error) {
    if (error instanceof OutboardError) return error.code;
    throw error;
  }
}

function cut(bytes: Buffer, at: number[]): Buffer[] {
  const places = [0, ...at.map((one) => one % (bytes.length + 1)), bytes.length];
  places.sort((a, b) => a - b);
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

t.test('a Hello comes through as it was sent', async (t) => {
  const arrived = read(encodeHello({ ...usualHello, memory: 3n << 30n, shareRequest: 20 }));
  t.match(arrived?.hello, { ...usualHello, memory: 3n << 30n, shareRequest: 20, devices: 0 });
  t.equal(arrived?.leftover.length, 0);
});

t.test('however it is cut, and whatever follows', async (t) => {
  const bases = fc.array(fc.bigInt(1n, 1n << 25n).map((granules) => granules * wire.granule));
  const hello = fc.record({
    program: fc.string({ maxLength: 255 }),
    pid: fc.nat(),
    devices: fc.nat(),
    memory: fc.bigInt(0n, (1n << 64n) - 1n),
    shareRequest: fc.nat(),
    token: fc.string(),
    windowBases: bases,
    windowSize: fc.constantFrom(0n, wire.granule, 1n << 40n),
  });
  const run = fc.property(
    hello,
    fc.uint8Array({ maxLength: 100 }),
    fc.array(fc.nat()),
    (hello, tail, at) => {
      const bytes = Buffer.concat([encodeHello(hello), tail]);
      const arrived = read(...cut(bytes, at));
      t.match({ ...arrived?.hello }, hello);
      t.ok(arrived?.leftover.equals(tail));
    },
  );
  fc.assert(run, { numRuns: 200 });
});

t.test('what a guest says about itself can be shown', async (t) => {
  const arrived = read(
    encodeHello({
      program: 'a\n{"level":60}\u001b[2J\u202egnp.exe',
      host: 'h'.repeat(5000),
      guestVersion: '\0',
      traceparent: 'x\ny',
      name: 'resize',
      sessionClass: 'best-effort',
    }),
  );
  t.match(arrived?.hello, {
    program: 'a\\u{a}{"level":60}\\u{1b}[2J\\u{202e}gnp.exe',
    host: `${'h'.repeat(254)}…`,
    guestVersion: '\\u{0}',
    traceparent: '',
    name: 'resize',
    sessionClass: 'best-effort',
  });
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  t.equal(read(encodeHello({ traceparent }))?.hello.traceparent, traceparent);
});

t.test('a name or a class that no guest library sends', async (t) => {
  t.equal(codeOf(encodeHello({ name: 'x'.repeat(128) })), 'OB_HELLO_VALUE');
  t.equal(codeOf(encodeHello({ name: 'a\nb' })), 'OB_HELLO_VALUE');
  t.equal(codeOf(encodeHello({ name: 'é' })), 'OB_HELLO_VALUE');
  t.equal(codeOf(encodeHello({ sessionClass: 'urgent' })), 'OB_HELLO_VALUE');
  t.equal(codeOf(encodeHello({ gpuModel: 'x'.repeat(96) })), 'OB_HELLO_VALUE');
  t.equal(codeOf(encodeHello({ gpuModel: 'H\n' })), 'OB_HELLO_VALUE');
  t.ok(read(encodeHello({ name: 'x'.repeat(127), sessionClass: 'latency-strict' })));
});

t.test('a part of it is neither an answer nor an error', async (t) => {
  const bytes = encodeHello(usualHello);
  for (let length = 0; length < bytes.length; length++) {
    t.equal(read(bytes.subarray(0, length)), undefined, `${length} bytes`);
  }
});

t.test('arbitrary bytes end in a coded error, a Hello, or wait for more', async (t) => {
  const start = fc.constantFrom(
    Buffer.alloc(0),
    wire.magic,
    preface(wire.protocol, 20),
    preface(wire.protocol, 200),
  );
  const run = fc.property(
    start,
    fc.uint8Array({ maxLength: 300 }),
    fc.array(fc.nat()),
    (...all) => {
      const [start, tail, at] = all;
      const bytes = Buffer.concat([start, tail]);
      const outcome = (pieces: Buffer[]) => {
        const code = codeOf(...pieces);
        return code ?? (read(...pieces) ? 'arrived' : 'waits');
      };
      // The same in one piece and in many; anything but an OutboardError is thrown on by codeOf.
      return outcome([bytes]) === outcome(cut(bytes, at));
    },
  );
  fc.assert(run, { numRuns: 1000 });
  t.pass('as it should');
});

t.test('a changed byte never passes for something else than a Hello', async (t) => {
  const bytes = encodeHello({ ...usualHello, memory: 1n << 33n });
  const run = fc.property(
    fc.nat(bytes.length - 1),
    fc.integer({ min: 1, max: 255 }),
    (at, flip) => {
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(at) ^ flip, at);
      codeOf(changed);
    },
  );
  fc.assert(run, { numRuns: 1000 });
  t.pass('no error without a code');
});

t.test('wrong from the first byte that is wrong', async (t) => {
  t.equal(codeOf(Buffer.from('G')), 'OB_NOT_OUTBOARD');
  t.equal(codeOf(Buffer.from('OUTBOARS')), 'OB_NOT_OUTBOARD');
  t.equal(codeOf(Buffer.from('OUT'), Buffer.from('LOOK')), 'OB_NOT_OUTBOARD');
  t.throws(() => read(Buffer.from('GET / HTTP/1.1\r\n\r\n')), {
    message: /it began with "GET \/ HTTP/,
  });
  t.throws(() => read(Buffer.from([0x16, 3, 1])), { message: /it began with 0x160301/ });
});

t.test('another version is told before its length is looked at', async (t) => {
  const bytes = preface(wire.protocol + 1, 0xffffffff);
  t.throws(() => read(bytes.subarray(0, 12)), {
    code: 'OB_VERSION',
    message: `the guest library speaks version ${wire.protocol + 1} of the protocol, this server version ${wire.protocol}`,
    result: 803,
  });
});

t.test('too long, and just not', async (t) => {
  t.equal(codeOf(preface(wire.protocol, wire.controlMax + 1)), 'OB_HELLO_TOO_LONG');
  t.equal(codeOf(preface(wire.protocol, 0xffffffff)), 'OB_HELLO_TOO_LONG');
  t.equal(codeOf(preface(wire.protocol, wire.controlMax)), undefined);
});

t.test('not a message', async (t) => {
  const message = Buffer.from([0xff, 0xff, 0xff]);
  t.equal(codeOf(Buffer.concat([preface(wire.protocol, 3), message])), 'OB_HELLO_MALFORMED');
  const cutShort = encodeHello(usualHello);
  cutShort.writeUInt32LE(cutShort.length - wire.prefaceBytes - 3, 12);
  t.equal(codeOf(cutShort), 'OB_HELLO_MALFORMED');
});

t.test('windows that cannot be', async (t) => {
  const code = (windowBases: bigint[], windowSize = 1n << 40n) =>
    codeOf(encodeHello({ windowBases, windowSize }));
  t.equal(code([0x400000000000n]), undefined);
  t.equal(code([0n]), 'OB_HELLO_VALUE', 'at zero');
  t.equal(code([0x400000000001n]), 'OB_HELLO_VALUE', 'unaligned');
  t.equal(code([0x7fffffe00000n]), 'OB_HELLO_VALUE', 'beyond user space');
  t.equal(code([], (1n << 40n) + 1n), 'OB_HELLO_VALUE', 'half a granule');
  t.equal(code(Array(65).fill(0x400000000000n)), 'OB_HELLO_VALUE', 'too many');
});
