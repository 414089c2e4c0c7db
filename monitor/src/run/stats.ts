// What a guest library keeps in the file named by OUTBOARD_STATS: struct stats of
// guest-lib/src/base/stats.h, 64-bit little endian, and the names of the calls behind it.
import { readFileSync } from 'node:fs';

const magic = 0x3153544154534f42n; // "BOSTATS1" as bytes
const version = 3n;
const places = 1024;

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
  'cachedParts',
  'cachedBytes',
] as const;
const headWords = 3 + names.length;

/** A part of the run; bytes with the program's images. */
export interface Phase {
  calls: number;
  commands: number;
  roundTrips: number;
  bytesSent: number;
  bytesReceived: number;
  imageBytes: number;
}
const phaseFields = [
  'calls',
  'commands',
  'roundTrips',
  'bytesSent',
  'bytesReceived',
  'imageBytes',
] as const;

export const phaseNames = ['attach', 'set-up', 'steady', 'tear-down'] as const;
export type Phases = Record<(typeof phaseNames)[number], Phase>;

export interface CallStats {
  name: string;
  count: number;
  /** Of the caller. */
  ns: number;
  roundTrips: number;
  bytesSent: number;
  bytesReceived: number;
}
const timedFields = ['ns', 'roundTrips', 'bytesSent', 'bytesReceived'] as const;

export type GuestStats = Record<(typeof names)[number], number> & {
  phases: Phases;
  /** Those that the program made, in the order of their names. */
  byCall: CallStats[];
};

const phasesAt = headWords;
const countsAt = phasesAt + 3 * phaseFields.length;
const timedAt = countsAt + places;
const words = timedAt + places * timedFields.length;

export function readStats(file: string): GuestStats {
  const bytes = readFileSync(file);
  const at = (index: number) => bytes.readBigUInt64LE(index * 8);
  if (bytes.length < 16 || at(0) !== magic) {
    throw new Error(`${file} is not a file of counters: no guest library has written it`);
  }
  if (at(1) !== version) {
    throw new Error(
      `${file} holds counters of version ${at(1)}; this reads version ${version}. ` +
        'Install the same release of Outboard on both machines.',
    );
  }
  if (bytes.length < words * 8) throw new Error(`${file} ends before its counters do`);
  const number = (index: number) => Number(at(index));
  const totals = Object.fromEntries(names.map((name, i) => [name, number(3 + i)])) as Record<
    (typeof names)[number],
    number
  >;
  const callNames = bytes.toString('latin1', words * 8).split('\n');
  const byCall = Array.from({ length: Math.min(number(2), places) }, (_, call) => ({
    name: callNames[call] ?? `call ${call}`,
    count: number(countsAt + call),
    ...fields(timedFields, (i) => number(timedAt + call * timedFields.length + i)),
  })).filter(({ count }) => count > 0);
  const marks = [0, 1, 2].map((mark) =>
    fields(phaseFields, (i) => number(phasesAt + mark * phaseFields.length + i)),
  );
  return { ...totals, phases: phasesOf(marks, totals), byCall };
}

function fields<K extends string>(keys: readonly K[], value: (index: number) => number) {
  return Object.fromEntries(keys.map((key, index) => [key, value(index)])) as Record<K, number>;
}

/** The file says where the run was when a phase ended. One that started no work was all set-up. */
function phasesOf([attach, setUp, steady]: Phase[], end: Phase): Phases {
  const none = fields(phaseFields, () => 0);
  const worked = setUp !== undefined && setUp.calls > 0;
  const ends = [attach ?? none, worked ? setUp : end, worked ? (steady ?? end) : end, end];
  const phases = phaseNames.map((name, i) => {
    const before = ends[i - 1] ?? none;
    const after = ends[i] ?? end;
    return [name, fields(phaseFields, (f) => part(after, f) - part(before, f))];
  });
  return Object.fromEntries(phases) as Phases;
}

function part(phase: Phase, field: number): number {
  const key = phaseFields[field];
  return key ? phase[key] : 0;
}
