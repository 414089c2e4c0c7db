// The counters of a guest library.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { readStats } from '../src/stats.js';

function file(t: { testdir(): string }, words: bigint[]): string {
  const bytes = Buffer.alloc(words.length * 8);
  for (const [index, word] of words.entries()) bytes.writeBigUInt64LE(word, index * 8);
  const name = path.join(t.testdir(), 'stats');
  writeFileSync(name, bytes);
  return name;
}

const start = [Buffer.from('BOSTATS1').readBigUInt64LE(), 1n, 3n];

t.test('read in order', async (t) => {
  const stats = readStats(file(t, [...start, 10n, 11n, 12n, 13n, 14n, 15n, 16n, 17n, 18n, 0n, 0n]));
  t.same(stats, {
    ...{ calls: 10, unsupported: 11, commands: 12, roundTrips: 13 },
    ...{ bytesSent: 14, bytesReceived: 15, attachNs: 16, batches: 17, imageBytes: 18 },
  });
});

t.test('not what it should be', async (t) => {
  t.throws(() => readStats(file(t, start)), { message: /is not a file of counters/ });
  t.throws(() => readStats(file(t, [0n, ...Array(12).fill(0n)])), { message: /is not a file/ });
  t.throws(() => readStats(file(t, [start[0] ?? 0n, 2n, ...Array(12).fill(0n)])), {
    message: /counters of version 2; this reads version 1/,
  });
  t.throws(() => readStats(path.join(t.testdir(), 'none')), { code: 'ENOENT' });
});
