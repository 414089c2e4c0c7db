// Messages between the monitor and its slots: what goes in comes out, whatever it is.
import fc from 'fast-check';
import t from 'tap';
import { decodeMessage, encodeMessage } from '../src/message.js';

const there = (message: unknown) => decodeMessage(encodeMessage(message));

t.test('what goes in comes out', async (t) => {
  const word = fc.bigInt({ min: -(1n << 63n), max: (1n << 64n) - 1n });
  const leaf = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => one + 0),
    ...[fc.boolean(), fc.constant(null), word],
    ...[fc.uint8Array(), fc.int32Array(), fc.bigUint64Array()],
  );
  const { message } = fc.letrec((tie) => ({
    message: fc.oneof({ maxDepth: 6 }, leaf, tie('list'), tie('object')),
    list: fc.array(tie('message'), { maxLength: 4 }),
    object: fc.dictionary(fc.string(), tie('message'), { maxKeys: 4, noNullPrototype: true }),
  }));
  fc.assert(fc.property(message, (message) => t.strictSame(there(message), message)));
});

t.test('a part of bytes, and what is not there', async (t) => {
  const bytes = Buffer.from('left over').subarray(5);
  const { leftover, tenant, ...rest } = there({ leftover: bytes, tenant: undefined }) as {
    leftover: Uint8Array;
    tenant?: string;
  };
  t.equal(Object.getPrototypeOf(leftover), Uint8Array.prototype);
  t.equal(Buffer.from(leftover).toString(), 'over');
  t.same([tenant, rest], [undefined, {}]);
});

t.test('what looks like its marks is text', async (t) => {
  for (const text of ['', "'", 'n1', 'uAAAA', '[[[[[[[[[[[[[[[[[[[[', '"\\', '\ud800'])
    t.equal(there(text), text);
});

t.test('a name that objects have is one more', async (t) => {
  const value = decodeMessage(Buffer.from('{"__proto__":{"x":"n1"}}')) as object;
  t.equal(Object.getPrototypeOf(value), Object.prototype);
});
