// The log's way out, against a descriptor that can do whatever descriptors do.
import t from 'tap';
import { ForgivingStream } from '../../src/base/forgiving-stream.js';

/** Takes `room` bytes, then fails with this code until it has room again. */
class Descriptor {
  text = '';
  room = Number.POSITIVE_INFINITY;
  code = 'ENOSPC';
  calls = 0;

  readonly write = (bytes: Buffer): number => {
    this.calls++;
    if (this.room === 0) throw Object.assign(new Error(this.code), { code: this.code });
    const taken = Math.min(this.room, bytes.length);
    this.text += bytes.toString('utf8', 0, taken);
    this.room -= taken;
    return taken;
  };
}

t.test('a line is written at once', async (t) => {
  const descriptor = new Descriptor();
  const stream = new ForgivingStream(descriptor.write);
  stream.write('one\n');
  stream.write('zwei ü\n');
  t.equal(descriptor.text, 'one\nzwei ü\n');
  t.equal(descriptor.calls, 2);
});

t.test('a full disk: what does not fit is lost, and lines stay lines', async (t) => {
  const descriptor = new Descriptor();
  const stream = new ForgivingStream(descriptor.write);
  descriptor.room = 6;
  for (const line of ['one\n', 'two\n', 'three\n']) stream.write(line);
  t.ok(stream.length <= 1, 'nothing is kept');
  descriptor.room = Number.POSITIVE_INFINITY;
  stream.write('four\n');
  t.equal(descriptor.text, 'one\ntw\nfour\n');
  descriptor.room = 0;
  stream.write('five\n');
  t.equal(stream.length, 0);
  descriptor.room = 100;
  stream.write('six\n');
  t.equal(descriptor.text, 'one\ntw\nfour\nsix\n');
});

t.test('a slow reader: what fits into a bound is kept for it, in order', async (t) => {
  const descriptor = new Descriptor();
  descriptor.code = 'EAGAIN';
  const stream = new ForgivingStream(descriptor.write);
  descriptor.room = 2;
  stream.write('one\n');
  const { calls } = descriptor;
  const line = `${'x'.repeat(999)}\n`;
  for (let index = 0; index < 5000; index++) stream.write(line);
  t.equal(descriptor.calls, calls, 'it is not asked for each line');
  t.ok(stream.length <= 1 << 20 && stream.length > 1 << 19, 'a bound');
  descriptor.room = Number.POSITIVE_INFINITY;
  stream.flush();
  t.equal(stream.length, 0);
  t.equal(descriptor.text.slice(0, 8), 'one\nxxxx');
  t.equal((descriptor.text.length - 4) % line.length, 0, 'whole lines only');
});

t.test('a slow reader that comes back gets it without another line', async (t) => {
  const descriptor = new Descriptor();
  descriptor.code = 'EAGAIN';
  descriptor.room = 0;
  const stream = new ForgivingStream(descriptor.write);
  stream.write('one\n');
  descriptor.room = 10;
  while (stream.length > 0) await new Promise((again) => setTimeout(again, 10));
  t.equal(descriptor.text, 'one\n');
});

t.test('a reader that has gone is asked again, in vain', async (t) => {
  const descriptor = new Descriptor();
  descriptor.code = 'EPIPE';
  descriptor.room = 0;
  const stream = new ForgivingStream(descriptor.write);
  for (let index = 0; index < 100; index++) stream.write('x\n');
  t.equal(stream.length, 0);
  t.equal(descriptor.calls, 100);
});
