// The counters of a guest library.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { readStats } from '../../src/run/stats.js';
import { statsPage } from '../../src/run/stats-page.js';

const magic = Buffer.from('BOSTATS1').readBigUInt64LE();
const places = 1024;

interface Contents {
  version?: bigint;
  calls?: bigint;
  totals?: bigint[];
  phases?: bigint[];
  counts?: bigint[];
  timed?: bigint[];
  names?: string;
}

function file(t: { testdir(): string }, contents: Contents): string {
  const { version = 3n, calls = 3n, totals = [], phases = [], counts = [], timed = [] } = contents;
  const words = new BigUint64Array(3 + 11 + 18 + places * 5);
  words.set([magic, version, calls]);
  words.set(totals, 3);
  words.set(phases, 14);
  words.set(counts, 32);
  words.set(timed, 32 + places);
  const name = path.join(t.testdir(), 'stats');
  writeFileSync(
    name,
    Buffer.concat([Buffer.from(words.buffer), Buffer.from(contents.names ?? '')]),
  );
  return name;
}

const totals = [10n, 1n, 12n, 13n, 14n, 15n, 1_600_000n, 17n, 18n, 19n, 2_000_000n];

t.test('read in order', async (t) => {
  const stats = readStats(
    file(t, {
      totals,
      phases: [
        ...[1n, 0n, 1n, 0n, 0n, 0n],
        ...[4n, 5n, 3n, 7n, 8n, 6n],
        ...[9n, 11n, 12n, 13n, 14n, 18n],
      ],
      counts: [6n, 0n, 4n],
      timed: [...[5000n, 1n, 2n, 3n], ...[0n, 0n, 0n, 0n], ...[7000n, 2n, 8n, 9n]],
      names: 'cuInit\ncuCtxCreate\ncuLaunchKernel\n',
    }),
  );
  t.match(stats, {
    ...{ calls: 10, unsupported: 1, commands: 12, roundTrips: 13 },
    ...{ bytesSent: 14, bytesReceived: 15, attachNs: 1.6e6, batches: 17, imageBytes: 18 },
    ...{ cachedParts: 19, cachedBytes: 2e6 },
  });
  const phase = (...[calls, commands, roundTrips, sent, got, images]: number[]) => ({
    ...{ calls, commands, roundTrips, bytesSent: sent, bytesReceived: got, imageBytes: images },
  });
  t.same(stats.phases, {
    attach: phase(1, 0, 1, 0, 0, 0),
    'set-up': phase(3, 5, 2, 7, 8, 6),
    steady: phase(5, 6, 9, 6, 6, 12),
    'tear-down': phase(1, 1, 1, 1, 1, 0),
  });
  t.same(stats.byCall, [
    { name: 'cuInit', count: 6, ns: 5000, roundTrips: 1, bytesSent: 2, bytesReceived: 3 },
    { name: 'cuLaunchKernel', count: 4, ns: 7000, roundTrips: 2, bytesSent: 8, bytesReceived: 9 },
  ]);
  const page = statsPage(stats);
  t.match(
    page[0],
    /^10 driver calls became 12 commands and 13 round trips .*1 calls are not served/,
  );
  t.match(page[1], /^the server had .* of uploads, which were not sent$/);
  t.match(page.join('\n'), /steady +5 +6 +9 /);
  const calls = page.filter((line) => line.startsWith('cu'));
  t.match(calls, [/^cuLaunchKernel +4 +0\.007 ms +1\.8 us +2 /, /^cuInit /], 'the dearest first');
});

t.test('a run that started no work is set-up all along', async (t) => {
  const stats = readStats(file(t, { totals, phases: [1n, 0n, 1n, 0n, 0n, 0n] }));
  t.equal(stats.phases['set-up'].calls, 9);
  t.equal(stats.phases.steady.calls + stats.phases['tear-down'].calls, 0);
});

t.test('not what it should be', async (t) => {
  const short = path.join(t.testdir({ short: 'BOSTATS1' }), 'short');
  t.throws(() => readStats(short), { message: /is not a file of counters/ });
  const other = path.join(t.testdir({ other: 'x'.repeat(64) }), 'other');
  t.throws(() => readStats(other), { message: /is not a file/ });
  t.throws(() => readStats(file(t, { version: 9n })), {
    message: /counters of version 9; this reads version 3/,
  });
  const cut = Buffer.alloc(24);
  cut.writeBigUInt64LE(magic);
  cut.writeBigUInt64LE(3n, 8);
  t.throws(() => readStats(path.join(t.testdir({ cut }), 'cut')), { message: /ends before/ });
  t.throws(() => readStats(path.join(t.testdir(), 'none')), { code: 'ENOENT' });
});
