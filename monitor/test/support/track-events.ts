// Reads what `outboard trace` writes without protobufjs: a walk of the wire format by hand, strict
// about every field, and a replay of the events as a viewer does it.
import { strict as assert } from 'node:assert';

type Kind = 'varint' | 'fixed64' | 'text' | 'message';
interface Shape {
  [field: number]: { name: string; kind: Kind; many?: boolean; of?: Shape };
}

const interned: Shape = {
  1: { name: 'iid', kind: 'varint' },
  2: { name: 'name', kind: 'text' },
};
const annotation: Shape = {
  1: { name: 'nameIid', kind: 'varint' },
  2: { name: 'bool', kind: 'varint' },
  3: { name: 'uint', kind: 'varint' },
  4: { name: 'int', kind: 'varint' },
  5: { name: 'double', kind: 'fixed64' },
  6: { name: 'string', kind: 'text' },
};
/** The numbers of Perfetto's own messages. */
const packet: Shape = {
  8: { name: 'timestamp', kind: 'varint' },
  10: { name: 'sequence', kind: 'varint' },
  13: { name: 'flags', kind: 'varint' },
  87: { name: 'first', kind: 'varint' },
  11: {
    name: 'event',
    kind: 'message',
    of: {
      3: { name: 'categories', kind: 'varint', many: true },
      4: { name: 'annotations', kind: 'message', many: true, of: annotation },
      9: { name: 'type', kind: 'varint' },
      10: { name: 'nameIid', kind: 'varint' },
      11: { name: 'track', kind: 'varint' },
      47: { name: 'from', kind: 'fixed64', many: true },
      48: { name: 'to', kind: 'fixed64', many: true },
    },
  },
  12: {
    name: 'interned',
    kind: 'message',
    of: {
      1: { name: 'categories', kind: 'message', many: true, of: interned },
      2: { name: 'names', kind: 'message', many: true, of: interned },
      3: { name: 'annotations', kind: 'message', many: true, of: interned },
    },
  },
  60: {
    name: 'descriptor',
    kind: 'message',
    of: {
      1: { name: 'uuid', kind: 'varint' },
      2: { name: 'name', kind: 'text' },
      3: {
        name: 'process',
        kind: 'message',
        of: { 1: { name: 'pid', kind: 'varint' }, 6: { name: 'name', kind: 'text' } },
      },
      4: {
        name: 'thread',
        kind: 'message',
        of: {
          1: { name: 'pid', kind: 'varint' },
          2: { name: 'tid', kind: 'varint' },
          5: { name: 'name', kind: 'text' },
        },
      },
      5: { name: 'parent', kind: 'varint' },
      11: { name: 'ordering', kind: 'varint' },
      12: { name: 'rank', kind: 'varint' },
    },
  },
};

// biome-ignore lint/suspicious/noExplicitAny: as the shape says
type Message = Record<string, any>;

function walk(bytes: Buffer, shape: Shape): Message {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      assert(at < bytes.length && shift < 70n, 'a number ends');
      const byte = bytes[at++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const message: Message = {};
  const put = (name: string, value: unknown, many: boolean | undefined) => {
    if (many) {
      message[name] ??= [];
      message[name].push(value);
    } else {
      assert(!(name in message), `${name} once`);
      message[name] = value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const field = shape[tag >> 3];
    assert(field, `field ${tag >> 3} is known`);
    const { name, kind, many, of } = field;
    const wire = tag & 7;
    if (wire === 2) {
      const length = Number(varint());
      assert(at + length <= bytes.length, `${name} ends within its message`);
      const part = bytes.subarray(at, at + length);
      at += length;
      // Numbers are not packed: Perfetto's reader would not find them.
      assert(kind === 'message' || kind === 'text', `${name} is not packed`);
      put(name, kind === 'message' ? walk(part, of as Shape) : part.toString('utf8'), many);
    } else if (wire === 1) {
      assert.equal(kind, 'fixed64', name);
      put(name, bytes.readBigUInt64LE(at), many);
      at += 8;
    } else {
      assert.equal(wire, 0, name);
      assert.equal(kind, 'varint', name);
      put(name, varint(), many);
    }
  }
  return message;
}

export interface Seen {
  track: string;
  process: string;
  name: string;
  category: string;
  at: number;
  /** Null: a moment. */
  end: number | null;
  depth: number;
  args: Record<string, unknown>;
  from: bigint[];
  to: bigint[];
}

/** Replays a trace; throws when anything in it is not as a viewer needs it. */
export function replay(bytes: Buffer): Seen[] {
  const trace = walk(bytes, { 1: { name: 'packets', kind: 'message', many: true, of: packet } });
  const names = new Map<bigint, string>();
  const categories = new Map<bigint, string>();
  const annotations = new Map<bigint, string>();
  const tracks = new Map<bigint, { name: string; process: string }>();
  const open = new Map<bigint, Seen[]>();
  const seen: Seen[] = [];
  const latest = new Map<bigint, bigint>();
  const packets: Message[] = trace['packets'] ?? [];
  assert(packets[0]?.['first'] === 1n && packets[0]?.['flags'] === 1n, 'a sequence begins');
  for (const one of packets) {
    assert.equal(one['sequence'], 1n);
    const { descriptor, event } = one;
    for (const [list, map] of [
      [one['interned']?.names, names],
      [one['interned']?.categories, categories],
      [one['interned']?.annotations, annotations],
    ] as const) {
      for (const { iid, name } of list ?? []) {
        assert(!map.has(iid), 'interned once');
        map.set(iid, name);
      }
    }
    if (descriptor) {
      const { uuid, name, process, thread, parent } = descriptor;
      assert(!tracks.has(uuid) && (parent === undefined || tracks.has(parent)));
      tracks.set(uuid, {
        name: name ?? thread?.name ?? process?.name,
        process: parent === undefined ? process.name : (tracks.get(parent)?.process ?? ''),
      });
    }
    if (!event) continue;
    assert.equal(one['flags'], 2n, 'it needs what was interned');
    const track = tracks.get(event.track);
    assert(track, 'its track is described before');
    const at = one['timestamp'] ?? 0n;
    assert(at >= (latest.get(event.track) ?? 0n), 'times of a track do not go back');
    latest.set(event.track, at);
    const stack = open.get(event.track) ?? [];
    open.set(event.track, stack);
    if (event.type === 2n) {
      const ended = stack.pop();
      assert(ended, 'what ends has begun');
      ended.end = Number(at);
      continue;
    }
    const name = names.get(event.nameIid);
    const category = categories.get(event.categories?.[0]);
    assert(name !== undefined && category !== undefined, 'names are known');
    const args: Record<string, unknown> = {};
    for (const { nameIid, ...value } of event.annotations ?? []) {
      const key = annotations.get(nameIid);
      assert(key !== undefined && Object.keys(value).length === 1);
      args[key] = Object.values(value)[0];
    }
    const [from, to] = [event.from ?? [], event.to ?? []];
    const depth = stack.length;
    const moment = event.type === 3n;
    const end = null;
    const one_ = { ...track, track: track.name, name, category, at: Number(at), end, depth };
    const slice = { ...one_, args, from, to };
    seen.push(slice);
    if (!moment) stack.push(slice);
  }
  for (const stack of open.values()) assert.equal(stack.length, 0, 'what begins ends');
  return seen;
}
