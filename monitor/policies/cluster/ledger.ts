// Who has what, on every device of a cluster: the one book for what is reserved, starts, runs and moves, so that nothing
// is promised twice whoever decides. Sums are kept, not made: a reader does not go through the instances.
import { type Bounds, checkResources, type Device, type Resources } from './resources.js';

/** moving: it has its old place as well, until it has arrived. */
export type Holding = 'reserved' | 'starting' | 'running' | 'moving';

/** What one instance has on one device. */
export interface Part {
  /** By index in the ledger. */
  device: number;
  resources: Resources;
}

export interface Entry {
  /** Number of the instance. */
  instance: number;
  /** Its function's name. */
  name: string;
  how: Holding;
  parts: readonly Part[];
}

/** What policies see of it. */
export interface LedgerView {
  readonly devices: readonly Device[];
  /** By device: sums of what is promised. */
  readonly sm: Int32Array;
  readonly smLimit: Int32Array;
  readonly memory: Int32Array;
  /** Devices with an instance, in the order in which they got their first one. */
  readonly used: readonly number[];
  /** Devices without one; those that were used before come last, in the order in which they became free. */
  readonly unused: readonly number[];
  /** By node: its devices, and how many of them have an instance. */
  readonly nodes: readonly (readonly number[])[];
  readonly usedOf: Int32Array;
  /** Whether so much more can be promised there: memory always, SMs within the bounds; never on a device that is gone. */
  fits(device: number, resources: Resources, bounds: Bounds): boolean;
  entry(instance: number): Entry | undefined;
  /** Numbers of the instances there, in the order in which they came. */
  on(device: number): ReadonlySet<number>;
  /** Numbers of a function's instances. */
  of(name: string): ReadonlySet<number>;
}

const nobody: ReadonlySet<number> = new Set();

export class Ledger implements LedgerView {
  readonly devices: readonly Device[];
  readonly sm: Int32Array;
  readonly smLimit: Int32Array;
  readonly memory: Int32Array;
  readonly used: number[] = [];
  readonly unused: number[];
  readonly nodes: number[][] = [];
  readonly usedOf: Int32Array;
  readonly #entries = new Map<number, Entry>();
  readonly #on: Set<number>[];
  readonly #of = new Map<string, Set<number>>();
  /** What each device has; -1: it is gone, and not even nothing fits. */
  readonly #room: Int32Array;

  constructor(devices: readonly Device[]) {
    this.devices = devices;
    this.sm = new Int32Array(devices.length);
    this.smLimit = new Int32Array(devices.length);
    this.memory = new Int32Array(devices.length);
    this.#room = Int32Array.from(devices, ({ memory }) => memory);
    this.unused = [...devices.keys()];
    this.#on = devices.map(() => new Set());
    for (const [index, { node }] of devices.entries()) {
      let ofNode = this.nodes[node];
      if (!ofNode) {
        ofNode = [];
        this.nodes[node] = ofNode;
      }
      ofNode.push(index);
    }
    this.usedOf = new Int32Array(this.nodes.length);
  }

  fits(device: number, { sm, smLimit, memory }: Resources, bounds: Bounds): boolean {
    return (
      (this.sm[device] as number) + sm <= bounds.sm &&
      (this.smLimit[device] as number) + smLimit <= bounds.smLimit &&
      (this.memory[device] as number) + memory <= (this.#room[device] as number)
    );
  }

  entry(instance: number): Entry | undefined {
    return this.#entries.get(instance);
  }

  on(device: number): ReadonlySet<number> {
    return this.#on[device] ?? nobody;
  }

  of(name: string): ReadonlySet<number> {
    return this.#of.get(name) ?? nobody;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Enters an instance that is not there yet, on all its devices or, where it throws, on none. */
  claim(entry: Entry) {
    const { instance, name, parts } = entry;
    if (this.#entries.has(instance)) throw new Error(`instance ${instance} has its place already`);
    this.#check(parts);
    for (const part of parts) this.#add(instance, part);
    this.#entries.set(instance, entry);
    let ofFunction = this.#of.get(name);
    if (!ofFunction) {
      ofFunction = new Set();
      this.#of.set(name, ofFunction);
    }
    ofFunction.add(instance);
  }

  /** It starts, or runs. Throws where the instance is not known, or moves: that ends with `arrived`. */
  become(instance: number, how: 'starting' | 'running') {
    const entry = this.#known(instance);
    if (entry.how === 'moving') throw new Error(`instance ${instance} moves`);
    this.#entries.set(instance, { ...entry, how });
  }

  /** Its quota changes where it is; the number of parts stays. */
  resize(instance: number, resources: Resources) {
    const entry = this.#known(instance);
    checkResources(resources);
    const parts = entry.parts.map(({ device }) => ({ device, resources }));
    for (const [index, { device }] of parts.entries()) {
      const before = (entry.parts[index] as Part).resources;
      this.#sum(device, before, -1);
      this.#sum(device, resources, 1);
    }
    this.#entries.set(instance, { ...entry, parts });
  }

  /** It goes elsewhere, and counts in both places until it has arrived. */
  move(instance: number, parts: readonly Part[]) {
    const entry = this.#known(instance);
    if (entry.how === 'moving') throw new Error(`instance ${instance} moves already`);
    this.#check(parts);
    const there = new Set(entry.parts.map(({ device }) => device));
    const twice = parts.find(({ device }) => there.has(device));
    if (twice) throw new Error(`instance ${instance} is on device ${twice.device} already`);
    for (const part of parts) this.#add(instance, part);
    this.#entries.set(instance, { ...entry, how: 'moving', parts: [...entry.parts, ...parts] });
  }

  /** It has arrived on those devices, and gives all others back. */
  arrived(instance: number, devices: ReadonlySet<number>) {
    const entry = this.#known(instance);
    const stays = entry.parts.filter(({ device }) => devices.has(device));
    if (entry.how !== 'moving' || stays.length === 0) {
      throw new Error(`instance ${instance} does not move there`);
    }
    for (const part of entry.parts) if (!devices.has(part.device)) this.#remove(instance, part);
    this.#entries.set(instance, { ...entry, how: 'running', parts: stays });
  }

  /** Returns what it had; undefined: nothing, it is not known. */
  release(instance: number): Entry | undefined {
    const entry = this.#entries.get(instance);
    if (!entry) return undefined;
    for (const part of entry.parts) this.#remove(instance, part);
    this.#entries.delete(instance);
    this.#of.get(entry.name)?.delete(instance);
    return entry;
  }

  /** A device vanishes: nothing fits there, and its instances have lost all their places. Returns their numbers. */
  lose(device: number): number[] {
    if (!this.devices[device]) throw new RangeError(`there is no device ${device}`);
    this.#room[device] = -1;
    const lost = [...this.on(device)];
    for (const instance of lost) this.release(instance);
    return lost;
  }

  /** It is there again, empty. */
  regain(device: number) {
    this.#room[device] = this.devices[device]?.memory ?? -1;
  }

  #known(instance: number): Entry {
    const entry = this.#entries.get(instance);
    if (!entry) throw new Error(`there is no instance ${instance}`);
    return entry;
  }

  #check(parts: readonly Part[]) {
    const seen = new Set<number>();
    for (const { device, resources } of parts) {
      if (!this.devices[device]) throw new RangeError(`there is no device ${device}`);
      if (seen.has(device)) throw new Error(`device ${device} is named twice`);
      seen.add(device);
      checkResources(resources);
    }
    if (seen.size === 0) throw new Error('an instance has at least one device');
  }

  #add(instance: number, { device, resources }: Part) {
    const there = this.#on[device] as Set<number>;
    if (there.size === 0) {
      this.unused.splice(this.unused.indexOf(device), 1);
      this.used.push(device);
      this.#usedOf(device, 1);
    }
    there.add(instance);
    this.#sum(device, resources, 1);
  }

  #remove(instance: number, { device, resources }: Part) {
    const there = this.#on[device] as Set<number>;
    there.delete(instance);
    this.#sum(device, resources, -1);
    if (there.size > 0) return;
    this.used.splice(this.used.indexOf(device), 1);
    this.unused.push(device);
    this.#usedOf(device, -1);
  }

  #usedOf(device: number, sign: 1 | -1) {
    const { node } = this.devices[device] as Device;
    this.usedOf[node] = (this.usedOf[node] as number) + sign;
  }

  #sum(device: number, { sm, smLimit, memory }: Resources, sign: 1 | -1) {
    this.sm[device] = (this.sm[device] as number) + sign * sm;
    this.smLimit[device] = (this.smLimit[device] as number) + sign * smLimit;
    this.memory[device] = (this.memory[device] as number) + sign * memory;
  }
}
