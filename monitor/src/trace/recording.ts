// Reads a file that a guest library or an executor recorded into: proto/wire/trace_ring.h. The
// writer may be running, or may have died in the middle of a record.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { OutboardError } from '../base/errors.js';

const magic = Buffer.from('OBTRACE1', 'latin1');
const version = 1;
const leastRecord = 64;
/** No larger file is read, because all of it is in memory meanwhile. */
const sizeMost = 1 << 30;

/** By their numbers in enum trace_kind. */
const kinds = [
  null,
  'call',
  'send',
  'wait',
  'receive',
  'attach',
  'take',
  'command',
  'held',
  'group',
  'use',
] as const;
export type Kind = NonNullable<(typeof kinds)[number]>;

/** What a, b and c are depends on the kind: enum trace_kind says it. */
export interface TraceEvent {
  kind: Kind;
  /** Nanoseconds after the file was opened, by the writer's clock; may be negative. */
  at: number;
  /** Nanoseconds; 0 for a moment. */
  duration: number;
  /** It had not ended when the file was read; `duration` is up to the last event there is. */
  open: boolean;
  /** The system's number of the thread. */
  thread: number;
  name: string;
  result: number;
  a: number;
  b: number;
  /** Of a command that was answered: the answer's time, like `at`. */
  c: number;
}

export interface Recording {
  file: string;
  role: 'guest' | 'server';
  /** The machine's CLOCK_MONOTONIC when the file was opened; all times here count from then. */
  base: bigint;
  /** Wall clock at that moment, nanoseconds since 1970. */
  realtime: bigint;
  /** Recordings with the same text here were made with the same clock; empty: not known. */
  clock: string;
  process: number;
  program: string;
  host: string;
  /** 0: none, or not known any more. */
  session: bigint;
  /** In order of time. */
  events: TraceEvent[];
  /** Events that are missing: overwritten by later ones, or given up. */
  lost: number;
}

export function readRecording(file: string): Recording {
  let bytes: Buffer;
  try {
    bytes = read(file);
  } catch (error) {
    throw new OutboardError('OB_TRACE_FILE', file, (error as Error).message);
  }
  return parseRecording(bytes, file);
}

/** The folder may contain a pipe that waits for a writer, or a file without an end: neither must hold up the reader. */
function read(file: string): Buffer {
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const about = fstatSync(fd);
    if (!about.isFile()) throw new Error('it is no regular file');
    if (about.size > sizeMost) throw new Error(`it has more than ${sizeMost >> 20} MiB`);
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function parseRecording(bytes: Buffer, file: string): Recording {
  const bad = (why: string) => new OutboardError('OB_TRACE_FILE', file, why);
  if (bytes.length < 4096 || !bytes.subarray(0, 8).equals(magic)) {
    throw bad('it is no trace of Outboard, or nothing has been written yet');
  }
  if (bytes.readUInt32LE(8) !== version) {
    throw bad(`it has version ${bytes.readUInt32LE(8)}, this reads version ${version}`);
  }
  const role = bytes.readUInt32LE(12);
  const [stringsAt = 0, stringsSize = 0, recordsAt = 0, count = 0, size = 0, head = 0, , used = 0] =
    Array.from({ length: 8 }, (_, i) => Number(bytes.readBigUInt64LE(16 + i * 8)));
  if (
    (role !== 1 && role !== 2) ||
    size < leastRecord ||
    size % 8 !== 0 ||
    stringsAt + stringsSize > bytes.length ||
    used > stringsSize ||
    recordsAt + count * size > bytes.length
  ) {
    throw bad('its header makes no sense: the file is damaged or was cut off');
  }
  const strings = readStrings(bytes.subarray(stringsAt, stringsAt + used));
  const base = bytes.readBigUInt64LE(104);
  const events: TraceEvent[] = [];
  let whole = 0;
  // Once round the ring, from the oldest.
  for (let i = 0; i < Math.min(head, count); i++) {
    const number = head <= count ? i + 1 : head - count + i + 1;
    const record = recordsAt + ((number - 1) % count) * size;
    const state = read64(bytes, record);
    if (state % 2 !== 0 || state / 2 !== number) continue;
    whole++;
    const event = readRecord(bytes, record, base, strings);
    if (event) events.push(event);
  }
  events.sort((one, other) => one.at - other.at || other.duration - one.duration);
  const last = events.reduce((most, e) => Math.max(most, e.at + (e.open ? 0 : e.duration)), 0);
  for (const event of events) if (event.open) event.duration = Math.max(last - event.at, 1);
  const text = (at: number) => bytes.toString('utf8', at, bytes.indexOf(0, at));
  return {
    file,
    role: role === 1 ? 'guest' : 'server',
    base,
    realtime: bytes.readBigUInt64LE(112),
    process: Number(bytes.readBigUInt64LE(88)),
    session: bytes.readBigUInt64LE(96),
    clock: text(120),
    host: text(184),
    program: text(248),
    events,
    lost: head - whole,
  };
}

function readStrings(bytes: Buffer): string[] {
  const strings = [''];
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = bytes.readUInt32LE(at);
    strings.push(bytes.toString('utf8', at + 4, at + 4 + length));
    at += 4 + Math.ceil(length / 4) * 4;
  }
  return strings;
}

function readRecord(bytes: Buffer, at: number, base: bigint, strings: string[]): TraceEvent | null {
  const kind = kinds[bytes.readUInt16LE(at + 24)];
  // A later release has written it.
  if (!kind) return null;
  const open =
    bytes.readUInt32LE(at + 16) === 0xffffffff && bytes.readUInt32LE(at + 20) === 0xffffffff;
  const c = read64(bytes, at + 56);
  return {
    kind,
    at: since(bytes, at + 8, base),
    duration: open ? Number.POSITIVE_INFINITY : read64(bytes, at + 16),
    open,
    thread: bytes.readUInt32LE(at + 28),
    name: strings[bytes.readUInt32LE(at + 32)] ?? '',
    result: bytes.readInt32LE(at + 36),
    a: read64(bytes, at + 40),
    b: read64(bytes, at + 48),
    c: kind === 'command' && c !== 0 ? since(bytes, at + 56, base) : c,
  };
}

function read64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at + 4) * 2 ** 32 + bytes.readUInt32LE(at);
}

/** Exact where it matters: a machine may have been up for long, a session has not. */
function since(bytes: Buffer, at: number, base: bigint): number {
  const high = bytes.readUInt32LE(at + 4) - Number(base >> 32n);
  return high * 2 ** 32 + (bytes.readUInt32LE(at) - Number(base & 0xffffffffn));
}
