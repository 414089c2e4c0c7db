// PROTEAN's Algorithm 1: best-effort batches fill the small slices, strict ones go where they are slowed down least.
import type { LedgerView } from '../ledger.js';
import type { ClusterPolicy } from '../policy.js';
import { eta, type SliceTable, slicedOf, sliceOf } from '../slowdown.js';
import type { BatchState, ClusterState, Effect, FunctionState } from '../state.js';

export interface ProteanMemory {
  table: SliceTable;
  /** Batches that wait for a slice, in order of coming. */
  batches: readonly BatchState[];
}

export const protean: ClusterPolicy<ProteanMemory, never> = {
  name: 'protean-slices',
  kind: 'placement',
  summary: 'best-effort batches fill small slices, strict ones go where they are slowed down least',
  source: { paper: 'PROTEAN', section: 'Algorithm 1, Eq. 1' },
  parameters: {},
  needs: { queue: ['protean'] },
  start: () => ({ table: {}, batches: [] }),
  decide: ({ state, events, memory }) => {
    let { table } = memory;
    let batches = [...memory.batches];
    for (const event of events) {
      if (event.kind === 'sliced') {
        const { name, slice, bandwidth, slowdown } = event;
        const { profile } = sliceOf(slice);
        table = { ...table, [name]: { ...table[name], [profile]: { bandwidth, slowdown } } };
      } else if (event.kind === 'batch ready') {
        batches.push(event.batch);
      } else if (event.kind === 'acknowledged' && event.effect.kind === 'dispatch') {
        // What could not be carried out waits again; what was is not ours any more.
        const { batch } = event.effect;
        if (event.failed === null) batches = batches.filter(({ id }) => id !== batch);
      }
    }
    const effects = distribute(state, table, batches);
    return { effects, memory: { table, batches } };
  },
};

/** What is free on a device while a decision is made. */
interface Room {
  device: number;
  memory: number;
  /** Bandwidth in use, with what this decision has put there. */
  used: number;
  /** Of its free memory, what best-effort batches are expected to take: 0 to 1. */
  tag: number;
}

function distribute(
  state: ClusterState,
  table: SliceTable,
  batches: readonly BatchState[],
): Effect[] {
  const { ledger, functions } = state;
  const rooms = ascending(ledger).map((device) => roomOf(ledger, table, device));
  const strict = batches.filter((batch) => batch.class === 'strict');
  const others = batches.filter((batch) => batch.class !== 'strict');
  let expected = others.reduce((sum, { name }) => sum + memoryOf(functions.get(name)), 0);
  for (const room of rooms) {
    if (expected <= 0) break;
    room.tag = room.memory > 0 ? Math.min(1, expected / room.memory) : 1;
    expected = Math.max(0, expected - room.memory);
  }
  const effects: Effect[] = [];
  const send = (
    batch: BatchState,
    room: Room,
    text: string,
    figures: Record<string, number> = {},
  ) => {
    room.memory -= memoryOf(functions.get(batch.name));
    room.used += slicedOf(table, batch.name, ledger.devices[room.device]?.slice ?? null).bandwidth;
    const { device } = room;
    effects.push({ kind: 'dispatch', batch: batch.id, device, reason: { text, figures } });
  };
  for (const batch of strict) {
    const memory = memoryOf(functions.get(batch.name));
    const fitting = rooms.filter((room) => room.memory >= memory);
    const free = fitting.filter(({ tag }) => tag < 1);
    const cost = (room: Room) => {
      const slice = ledger.devices[room.device]?.slice ?? null;
      const expected = room.tag * meanBandwidth(table, others, slice, room, functions);
      return eta(slicedOf(table, batch.name, slice), room.used + expected);
    };
    // Where best-effort batches are expected everywhere, strict ones go where it is best all the same.
    const best = least(free.length > 0 ? free : fitting, cost);
    if (best) send(batch, best, 'where it is slowed down least', { eta: cost(best) });
  }
  for (const batch of others) {
    const memory = memoryOf(functions.get(batch.name));
    const room = rooms.find((one) => one.memory >= memory);
    if (room) send(batch, room, 'the smallest slice with room');
  }
  return effects;
}

function memoryOf(about: FunctionState | undefined): number {
  return about?.resources.memory ?? 0;
}

/** The smallest first; equal ones by index. */
function ascending({ devices }: LedgerView): number[] {
  const size = (device: number) => {
    const { sevenths, eighths } = sliceOf(devices[device]?.slice ?? null);
    return 10 * sevenths + eighths;
  };
  return [...devices.keys()].sort((one, other) => size(one) - size(other) || one - other);
}

function roomOf(ledger: LedgerView, table: SliceTable, device: number): Room {
  const { memory, slice } = ledger.devices[device] as { memory: number; slice: string | null };
  const nothing = { sm: 0, smLimit: 0, time: 0, memory: 0 };
  const endless = { sm: Number.POSITIVE_INFINITY, smLimit: Number.POSITIVE_INFINITY };
  if (!ledger.fits(device, nothing, endless)) return { device, memory: -1, used: 0, tag: 1 };
  let used = 0;
  for (const instance of ledger.on(device)) {
    used += slicedOf(table, ledger.entry(instance)?.name ?? '', slice).bandwidth;
  }
  return { device, memory: memory - (ledger.memory[device] as number), used, tag: 0 };
}

/** Of the best-effort batches that fit there. */
function meanBandwidth(
  table: SliceTable,
  batches: readonly BatchState[],
  slice: string | null,
  room: Room,
  functions: ReadonlyMap<string, FunctionState>,
): number {
  const fitting = batches.filter(({ name }) => memoryOf(functions.get(name)) <= room.memory);
  if (fitting.length === 0) return 0;
  const sum = fitting.reduce((sum, { name }) => sum + slicedOf(table, name, slice).bandwidth, 0);
  return sum / fitting.length;
}

/** Of equals the last, which is the larger slice. */
function least(rooms: readonly Room[], cost: (room: Room) => number): Room | null {
  let best: Room | null = null;
  let lowest = Number.POSITIVE_INFINITY;
  for (const room of rooms) {
    const value = cost(room);
    if (value > lowest) continue;
    lowest = value;
    best = room;
  }
  return best;
}
