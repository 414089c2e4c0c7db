// Recordings of a guest and of its server on one time axis: processes, tracks, slices that nest,
// and which slice led to which.
import { kernelName } from '../base/kernel-name.js';
import { type ClockMap, compareClocks, Finder } from './clocks.js';
import type { Recording, TraceEvent } from './recording.js';

export type Value = string | number | boolean;

export interface Slice {
  /** Nanoseconds on the axis, from 0. */
  at: number;
  /** Null: a moment. */
  duration: number | null;
  name: string;
  category: string;
  args: Record<string, Value>;
  /** What leads from here, and what leads here; each number is one of both. */
  from: number[];
  to: number[];
}

export interface Track {
  /** From 1. */
  id: number;
  process: 'guest' | 'server';
  name: string;
  /** Of a thread of the program. */
  thread: number | null;
  /** In order; any two nest or lie apart. */
  slices: Slice[];
}

export interface Process {
  kind: 'guest' | 'server';
  id: number;
  name: string;
}

export interface Timeline {
  processes: Process[];
  tracks: Track[];
  clocks: ClockMap | null;
  /** What a reader should know of the whole. */
  facts: Record<string, Value>;
}

const mostFlows = 64;

export function makeTimeline(guest: Recording | null, server: Recording | null): Timeline {
  const clocks = guest && server ? compareClocks(guest, server) : null;
  const builder = new Builder();
  if (guest) addGuest(builder, guest);
  if (server) addServer(builder, server, (at) => (clocks ? clocks.toGuest(at) : at));
  if (guest && server) addFlows(builder);
  const tracks = builder.finish();
  const processes: Process[] = [];
  if (guest) processes.push({ kind: 'guest', id: guest.process, name: guest.program });
  // Where both run on one machine, their processes differ; else the number says nothing here.
  if (server) {
    const id = server.process === guest?.process ? server.process + 1 : server.process;
    processes.push({ kind: 'server', id, name: 'outboard server' });
  }
  return { processes, tracks, clocks, facts: factsOf(guest, server, clocks) };
}

function factsOf(guest: Recording | null, server: Recording | null, clocks: ClockMap | null) {
  const facts: Record<string, Value> = {};
  const first = guest ?? server;
  if (first) facts['began'] = new Date(Number(first.realtime / 1_000_000n)).toISOString();
  const session = (server?.session || guest?.session) ?? 0n;
  if (session) facts['session'] = session.toString();
  if (guest) {
    facts['guest.host'] = guest.host;
    facts['guest.events'] = guest.events.length;
    facts['guest.lost'] = guest.lost;
  }
  if (server) {
    facts['server.host'] = server.host;
    facts['server.events'] = server.events.length;
    facts['server.lost'] = server.lost;
  }
  if (clocks && guest && server) {
    facts['clocks'] = clocks.method;
    facts['clocks.ahead_ns'] = Math.round(clocks.ahead + Number(server.base - guest.base));
    facts['clocks.within_ns'] = Math.ceil(clocks.within);
  }
  return facts;
}

// ---- tracks ------------------------------------------------------------------------------------

/** Slices of one kind, which may overlap: then they are laid onto several tracks. */
class Row {
  readonly slices: Slice[] = [];
  constructor(
    readonly process: 'guest' | 'server',
    readonly name: string,
    readonly thread: number | null,
  ) {}
}

class Builder {
  readonly #rows = new Map<string, Row>();
  /** Slices that commands of these numbers lead from, or to. */
  readonly calls: { first: number; last: number; slice: Slice }[] = [];
  readonly waits: { sequence: number; slice: Slice }[] = [];
  readonly commands = new Map<number, Slice>();
  readonly groups: { first: number; last: number; slice: Slice }[] = [];

  add(
    of: { process: 'guest' | 'server'; name: string; thread?: number },
    slice: Omit<Slice, 'from' | 'to'>,
  ): Slice {
    const key = `${of.process} ${of.name}`;
    let row = this.#rows.get(key);
    if (!row) {
      row = new Row(of.process, of.name, of.thread ?? null);
      this.#rows.set(key, row);
    }
    const whole = { ...slice, from: [], to: [] };
    row.slices.push(whole);
    return whole;
  }

  /** All tracks, in the order they were first used; the axis begins with the first slice. */
  finish(): Track[] {
    let begin = Number.POSITIVE_INFINITY;
    for (const { slices } of this.#rows.values()) {
      for (const { at } of slices) begin = Math.min(begin, at);
    }
    const tracks: Track[] = [];
    for (const { process, name, thread, slices } of this.#rows.values()) {
      for (const slice of slices) slice.at -= begin;
      for (const [index, own] of layOut(slices).entries()) {
        const id = tracks.length + 1;
        const label = index === 0 ? name : `${name} (${index + 1})`;
        tracks.push({ id, process, name: label, thread: index === 0 ? thread : null, slices: own });
      }
    }
    return tracks;
  }
}

/** On as few tracks as are needed for slices to nest. */
export function layOut(slices: Slice[]): Slice[][] {
  const ends = (slice: Slice) => slice.at + (slice.duration ?? 0);
  slices.sort((one, other) => one.at - other.at || ends(other) - ends(one));
  const tracks: { slices: Slice[]; open: number[] }[] = [];
  for (const slice of slices) {
    const end = ends(slice);
    const fits = tracks.find(({ open }) => {
      while (open.length > 0 && (open.at(-1) as number) <= slice.at) open.pop();
      return open.length === 0 || end <= (open.at(-1) as number);
    });
    const track = fits ?? { slices: [], open: [] };
    if (!fits) tracks.push(track);
    track.slices.push(slice);
    if (slice.duration) track.open.push(end);
  }
  return tracks.map((track) => track.slices);
}

// ---- the guest ---------------------------------------------------------------------------------

function addGuest(builder: Builder, guest: Recording) {
  for (const event of guest.events) {
    const { kind, at, name, thread } = event;
    const own = {
      process: 'guest',
      name: thread === guest.process ? 'main thread' : `thread ${thread}`,
      thread,
    } as const;
    const lasts = { at, duration: event.duration, name, args: argsOf(event) };
    switch (kind) {
      case 'call': {
        if (event.result !== 0) lasts.args['result'] = event.result;
        const slice = builder.add(own, { ...lasts, category: 'cuda' });
        if (event.a !== 0) builder.calls.push({ first: event.a, last: event.b, slice });
        break;
      }
      case 'wait': {
        lasts.args['sequence'] = event.b;
        const named = { ...lasts, name: `wait: ${name}`, category: 'wait' };
        builder.waits.push({ sequence: event.b, slice: builder.add(own, named) });
        break;
      }
      case 'attach': {
        if (name === 'queued') lasts.args['position'] = event.a;
        if (name === 'welcome') lasts.args['session'] = event.a;
        builder.add(own, { ...lasts, duration: event.duration || null, category: 'attach' });
        break;
      }
      case 'send': {
        const args = { bytes: event.a, commands: event.c - event.b + 1, first: event.b };
        const out = { process: 'guest', name: 'wire: out' } as const;
        builder.add(out, { ...lasts, name: 'batch', category: 'wire', args });
        break;
      }
      case 'receive': {
        const args: Record<string, Value> = { bytes: event.a };
        if (event.c !== 0) args['sequence'] = event.c;
        const into = { process: 'guest', name: 'wire: in' } as const;
        builder.add(into, { at, duration: null, name, category: 'wire', args });
      }
    }
  }
}

function argsOf(event: TraceEvent): Record<string, Value> {
  return event.open ? { unfinished: true } : {};
}

// ---- the server --------------------------------------------------------------------------------

function addServer(builder: Builder, server: Recording, axis: (at: number) => number) {
  const uses = new Map<number, TraceEvent[]>();
  for (const event of server.events) {
    if (event.kind !== 'use') continue;
    const others = uses.get(event.a);
    if (others) others.push(event);
    else uses.set(event.a, [event]);
  }
  const streams = new Map<number, string>();
  const threads = new Map<number, string>();
  const row = (name: string) => ({ process: 'server' as const, name });
  for (const event of server.events) {
    const { kind, name } = event;
    const args = argsOf(event);
    const at = axis(event.at);
    const duration = axis(event.at + event.duration) - at;
    switch (kind) {
      case 'attach':
        if (name === 'device clock') args['within_ns'] = event.a;
        builder.add(row('queue'), {
          ...{ at, name, args, category: 'attach' },
          duration: event.duration ? duration : null,
        });
        break;
      case 'take': {
        const taken = { commands: event.a, first: event.b, last: event.c };
        const named = { at, duration, name: 'commands', category: 'executor', args: taken };
        builder.add(row('executor'), named);
        break;
      }
      case 'command': {
        args['sequence'] = event.a;
        if (event.b !== 0) args['bytes'] = event.b;
        const thread = entry(threads, event.thread, (n) => `executor thread ${n}`);
        const named = { at, duration, name, category: 'executor', args };
        builder.commands.set(event.a, builder.add(row(thread), named));
        break;
      }
      case 'held': {
        args['group'] = event.a;
        args['predicted_ns'] = event.c;
        const stream = streamName(streams, event.b);
        const named = { at, duration, name: `held: ${stream}`, category: 'gate', args };
        builder.add(row('gate'), named);
        break;
      }
      case 'group': {
        const own = uses.get(event.a) ?? [];
        const last = event.c + event.result;
        args['group'] = event.a;
        for (const use of own) args[use.name] = `${use.b} × ${use.c} blocks`;
        if (event.c !== 0) args['first'] = event.c;
        const names = own.map((use) => kernelName(use.name));
        const named = { at, duration, name: labelOf(names), category: 'kernel', args };
        const slice = builder.add(row(`kernels: ${streamName(streams, event.b)}`), named);
        if (event.c !== 0) builder.groups.push({ first: event.c, last, slice });
      }
    }
  }
}

function labelOf(names: string[]): string {
  if (names.length === 0) return 'kernels';
  const shown = names.slice(0, 3).join(', ');
  return names.length > 3 ? `${shown}, and ${names.length - 3} more` : shown;
}

function entry(map: Map<number, string>, key: number, make: (n: number) => string): string {
  const name = map.get(key) ?? make(map.size + 1);
  map.set(key, name);
  return name;
}

/** Streams are known by addresses here, which say nothing to a person. */
function streamName(streams: Map<number, string>, stream: number): string {
  if (stream <= 1) return 'default stream';
  return entry(streams, stream, (n) => `stream ${n}`);
}

// ---- what led to what --------------------------------------------------------------------------

function addFlows(builder: Builder) {
  for (const { sequence, slice } of builder.waits) {
    const command = builder.commands.get(sequence);
    if (command) link(slice, command, sequence * 2);
  }
  const launches = builder.calls.filter(({ slice }) => slice.name.startsWith('cuLaunch'));
  const finder = new Finder(launches);
  for (const { first, last, slice } of builder.groups) {
    let found = 0;
    for (let sequence = first; sequence <= last && found < mostFlows; sequence++) {
      const launch = finder.of(sequence);
      if (!launch) continue;
      found++;
      link(launch.slice, slice, sequence * 2 + 1);
    }
  }
}

function link(from: Slice, to: Slice, number: number) {
  from.from.push(number);
  to.to.push(number);
}
