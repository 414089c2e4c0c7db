// Writes a timeline as Perfetto reads it: TrackEvent packets, names interned (proto/track_event.proto).
import path from 'node:path';
import protobuf from 'protobufjs';
import { root } from '../../../bin/paths.mjs';
import type { Slice, Timeline, Track, Value } from './timeline.js';

/** Read when it is wanted: the other commands need none of it. */
export function traceTypes() {
  const file = path.join(root, 'proto', 'track_event.proto');
  const found = protobuf.loadSync(file);
  const type = (name: string) => found.lookupType(`outboard.track_event.${name}`);
  return { Trace: type('Trace'), TracePacket: type('TracePacket') };
}

const sequenceId = 1;
const flags = { cleared: 1, needed: 2 } as const;
const types = { begin: 1, end: 2, moment: 3 } as const;
const byRank = 3;
/** Bytes that are kept before they are passed on. */
const chunk = 1 << 20;

/** In pieces, in order. */
export function* perfettoTrace(timeline: Timeline): Generator<Uint8Array> {
  const packets = new Packets();
  packets.begin();
  const uuids = { guest: 1, server: 2 };
  timeline.processes.forEach(({ kind, id, name }) => {
    packets.track({
      uuid: uuids[kind],
      process: { pid: id, processName: name },
      childOrdering: byRank,
    });
  });
  for (const { id, process, name, thread } of timeline.tracks) {
    const pid = timeline.processes.find(({ kind }) => kind === process)?.id ?? 0;
    packets.track({
      uuid: uuidOf(id),
      parentUuid: uuids[process],
      siblingOrderRank: id,
      ...(thread === null ? { name } : { thread: { pid, tid: thread, threadName: name } }),
    });
  }
  const first = timeline.processes[0];
  if (first) packets.moment(0, uuids[first.kind], 'trace', 'trace', timeline.facts);
  for (const { at, track, slice, type } of inOrder(timeline.tracks)) {
    packets.event(at, type, uuidOf(track.id), slice);
    if (packets.size >= chunk) yield packets.take();
  }
  yield packets.take();
}

/** 1 and 2 are the processes. */
function uuidOf(track: number): number {
  return track + 2;
}

interface Edge {
  at: number;
  track: Track;
  slice: Slice;
  type: number;
}

/** All beginnings and ends by time; those of one track in an order in which they nest. */
export function inOrder(tracks: Track[]): Edge[] {
  const edges = tracks.flatMap((track) => edgesOf(track));
  // Sorting is stable: what happens at one time on one track keeps its order.
  return edges.sort((one, other) => one.at - other.at);
}

function edgesOf(track: Track): Edge[] {
  const edges: Edge[] = [];
  const open: { end: number; slice: Slice }[] = [];
  const endBefore = (at: number) => {
    for (let last = open.at(-1); last && last.end <= at; last = open.at(-1)) {
      open.pop();
      edges.push({ at: last.end, track, slice: last.slice, type: types.end });
    }
  };
  for (const slice of track.slices) {
    const at = Math.round(slice.at);
    endBefore(at);
    if (slice.duration === null) {
      edges.push({ at, track, slice, type: types.moment });
      continue;
    }
    edges.push({ at, track, slice, type: types.begin });
    // Rounding must not let it out of what it lies in.
    const within = open.at(-1)?.end ?? Number.POSITIVE_INFINITY;
    open.push({ end: Math.min(Math.round(slice.at + slice.duration), within), slice });
  }
  endBefore(Number.POSITIVE_INFINITY);
  return edges;
}

type Interned = { iid: number; name: string };

/** Names that have been told, by what they are the names of. */
class Interner {
  readonly #known = new Map<string, number>();
  new: Interned[] = [];

  of(name: string): number {
    let iid = this.#known.get(name);
    if (iid === undefined) {
      iid = this.#known.size + 1;
      this.#known.set(name, iid);
      this.new.push({ iid, name });
    }
    return iid;
  }

  take(): Interned[] {
    const taken = this.new;
    this.new = [];
    return taken;
  }
}

class Packets {
  readonly #type = traceTypes().TracePacket;
  #writer = protobuf.Writer.create();
  readonly #names = new Interner();
  readonly #categories = new Interner();
  readonly #arguments = new Interner();

  get size(): number {
    return this.#writer.len;
  }

  take(): Uint8Array {
    const bytes = this.#writer.finish();
    this.#writer = protobuf.Writer.create();
    return bytes;
  }

  /** Field 1 of Trace, once more. */
  #put(packet: object) {
    this.#writer.uint32((1 << 3) | 2);
    this.#type
      .encode({ trustedPacketSequenceId: sequenceId, ...packet }, this.#writer.fork())
      .ldelim();
  }

  begin() {
    this.#put({ firstPacketOnSequence: true, sequenceFlags: flags.cleared });
  }

  track(trackDescriptor: object) {
    this.#put({ trackDescriptor });
  }

  moment(
    at: number,
    trackUuid: number,
    name: string,
    category: string,
    args: Record<string, Value>,
  ) {
    const slice = { at, duration: null, name, category, args, from: [], to: [] };
    this.event(at, types.moment, trackUuid, slice);
  }

  event(at: number, type: number, trackUuid: number, slice: Slice) {
    const trackEvent: Record<string, unknown> = { type, trackUuid };
    if (type !== types.end) {
      trackEvent['nameIid'] = this.#names.of(slice.name);
      trackEvent['categoryIids'] = [this.#categories.of(slice.category)];
      trackEvent['debugAnnotations'] = Object.entries(slice.args).map(([name, value]) => ({
        nameIid: this.#arguments.of(name),
        ...annotation(value),
      }));
      trackEvent['flowIds'] = slice.from;
      trackEvent['terminatingFlowIds'] = slice.to;
    }
    const internedData = this.#interned();
    const sequenceFlags = flags.needed;
    this.#put({ timestamp: at, sequenceFlags, trackEvent, ...(internedData && { internedData }) });
  }

  #interned() {
    const eventNames = this.#names.take();
    const eventCategories = this.#categories.take();
    const debugAnnotationNames = this.#arguments.take();
    if (eventNames.length + eventCategories.length + debugAnnotationNames.length === 0) return null;
    return { eventNames, eventCategories, debugAnnotationNames };
  }
}

function annotation(value: Value) {
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'string') return { stringValue: value };
  if (!Number.isSafeInteger(value)) return { doubleValue: value };
  return value < 0 ? { intValue: value } : { uintValue: value };
}
