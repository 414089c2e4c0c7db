// The counters that a guest library keeps in the file named by OUTBOARD_STATS: struct stats of
// guest-lib/src/stats.h, 64-bit little endian.
import { readFileSync } from 'node:fs';

const magic = 0x3153544154534f42n; // "BOSTATS1" as bytes
const version = 1n;

/** In the order of the file, behind magic, version and the number of calls. */
const names = [
  'calls',
  'unsupported',
  'commands',
  'roundTrips',
  'bytesSent',
  'bytesReceived',
  'attachNs',
  'batches',
  'imageBytes',
] as const;

export type GuestStats = Record<(typeof names)[number], number>;

export function readStats(file: string): GuestStats {
  const bytes = readFileSync(file);
  const at = (index: number) => bytes.readBigUInt64LE(index * 8);
  if (bytes.length < (3 + names.length) * 8 || at(0) !== magic) {
    throw new Error(`${file} is not a file of counters: no guest library has written it`);
  }
  if (at(1) !== version) {
    throw new Error(
      `${file} holds counters of version ${at(1)}; this reads version ${version}. ` +
        'Install the same release of Outboard on both machines.',
    );
  }
  return Object.fromEntries(
    names.map((name, index) => [name, Number(at(3 + index))]),
  ) as GuestStats;
}
