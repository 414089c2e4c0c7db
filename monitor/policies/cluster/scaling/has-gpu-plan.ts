// What HAS-GPU's scaling may do with the instances of one function, until it is done: nothing is decided here.
import type { LedgerView } from '../ledger.js';
import type { Parameters } from '../policy.js';
import { type Resources, whole } from '../resources.js';
import type { ClusterState, Effect } from '../state.js';
import { latencyOf, type Timings, timedSms } from '../timings.js';
import type { Names } from './has-gpu.js';

interface Instance {
  id: number;
  device: number;
  resources: Resources;
  /** Requests a second; null: nothing is known. */
  capacity: number | null;
  /** As it was; null: it is new. */
  before: Resources | null;
  ends: boolean;
}

export class Plan {
  readonly #ledger: LedgerView;
  readonly #name: string;
  readonly #batch: number;
  readonly #memory: number;
  readonly #timings: Timings;
  readonly #parameters: Parameters<Names>;
  readonly #instances: Instance[] = [];
  #next: number;

  constructor(
    { ledger, functions }: ClusterState,
    name: string,
    timings: Timings,
    parameters: Parameters<Names>,
    next: number,
  ) {
    this.#ledger = ledger;
    this.#name = name;
    this.#timings = timings;
    this.#parameters = parameters;
    this.#next = next;
    const about = functions.get(name);
    this.#batch = about?.batch ?? 1;
    this.#memory = about?.resources.memory ?? 0;
    for (const id of ledger.of(name)) {
      const [part] = ledger.entry(id)?.parts ?? [];
      if (!part) continue;
      const { device, resources } = part;
      const capacity = this.#capacity(resources.sm, resources.time);
      this.#instances.push({ id, device, resources, capacity, before: resources, ends: false });
    }
  }

  get count(): number {
    return this.#instances.length;
  }

  get next(): number {
    return this.#next;
  }

  /** Requests a second of all together; null: of none of them anything is known. */
  get capacity(): number | null {
    const known = this.#instances.flatMap(({ capacity }) => capacity ?? []);
    return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
  }

  /** As the authors have it, half a batch waits for the other half, and what was never measured is 0. */
  #capacity(sm: number, time: number): number | null {
    const { overhead, authors } = this.#parameters;
    const asked = { name: this.#name, batch: this.#batch, sm, time };
    const latency = latencyOf(this.#timings, asked, authors >= 1);
    if (latency === null) return authors >= 1 ? 0 : null;
    const served = authors >= 1 ? (this.#batch + 1) / 2 : this.#batch;
    return (1000 * served) / (latency + overhead);
  }

  /** Gives it so many more requests a second, as far as there is room. */
  grow(wanted: number) {
    let need = wanted;
    const order = [...this.#instances].sort(
      (one, other) => other.resources.sm - one.resources.sm || one.id - other.id,
    );
    for (const instance of order) {
      if (need <= 0) return;
      need -= this.#lengthen(instance, need);
    }
    for (const device of this.#byOccupation()) {
      if (need <= 0) return;
      need -= this.#add(device, need);
    }
    for (const device of this.#ledger.unused) {
      if (need <= 0) return;
      need -= this.#add(device, need);
    }
  }

  /** Takes steps of time until the gain is enough; returns it. */
  #lengthen(instance: Instance, need: number): number {
    const { step } = this.#parameters;
    const { sm, time } = instance.resources;
    const free = this.#free(instance.device, sm);
    const before = instance.capacity ?? 0;
    let gain = 0;
    let taken = 0;
    for (let more = step; more <= free && gain < need; more += step) {
      const capacity = this.#capacity(sm, time + more);
      if (capacity === null) continue;
      gain = capacity - before;
      taken = more;
    }
    if (taken === 0) return 0;
    instance.resources = { ...instance.resources, time: time + taken };
    instance.capacity = before + gain;
    return gain;
  }

  /** Thousandths of time that nobody has in the row of a device: its instances with as many SMs. */
  #free(device: number, sm: number): number {
    return whole - (this.#rows(device).get(sm) ?? 0);
  }

  /** By part of SMs: thousandths of time that are taken. */
  #rows(device: number): Map<number, number> {
    const rows = new Map<number, number>();
    const add = ({ sm, time }: Resources) => rows.set(sm, (rows.get(sm) ?? 0) + time);
    for (const id of this.#ledger.on(device)) {
      const entry = this.#ledger.entry(id);
      if (entry?.name === this.#name) continue;
      for (const part of entry?.parts ?? []) if (part.device === device) add(part.resources);
    }
    for (const one of this.#instances) if (one.device === device && !one.ends) add(one.resources);
    return rows;
  }

  /** SMs times time, as a part of the device. */
  #occupation(device: number): number {
    let sum = 0;
    for (const [sm, time] of this.#rows(device)) sum += (sm / whole) * (time / whole);
    return sum;
  }

  #byOccupation(): number[] {
    return this.#ledger.used
      .map((device) => ({ device, part: this.#occupation(device) }))
      .filter(({ part }) => part < this.#parameters.occupied)
      .sort((one, other) => one.part - other.part || one.device - other.device)
      .map(({ device }) => device);
  }

  /** Starts an instance there that serves as much as is needed with the least of the device; returns its capacity. */
  #add(device: number, need: number): number {
    const { step, rows: most } = this.#parameters;
    const rows = this.#rows(device);
    const left = whole - [...rows.keys()].reduce((sum, sm) => sum + sm, 0);
    const resources = { sm: 0, smLimit: 0, time: 0, memory: this.#memory };
    const endless = { sm: Number.POSITIVE_INFINITY, smLimit: Number.POSITIVE_INFINITY };
    const count = this.#instances.filter(
      (one) => one.before === null && one.device === device,
    ).length;
    const all = { ...resources, memory: (count + 1) * this.#memory };
    if (!this.#ledger.fits(device, all, endless)) return 0;
    let best: { sm: number; time: number; capacity: number } | null = null;
    for (const sm of timedSms(this.#timings, this.#name, this.#batch)) {
      if (!rows.has(sm) && (rows.size >= most || sm > left)) continue;
      const free = whole - (rows.get(sm) ?? 0);
      for (let time = step; time <= free; time += step) {
        const capacity = this.#capacity(sm, time);
        if (!capacity) continue;
        const found = { sm, time, capacity };
        if (best === null || isBetter(found, best, need)) best = found;
      }
    }
    if (!best) return 0;
    const { sm, time, capacity } = best;
    this.#instances.push({
      ...{ id: this.#next++, device, capacity, before: null, ends: false },
      resources: { ...resources, sm, smLimit: sm, time },
    });
    return capacity;
  }

  /** Takes so many requests a second away, the last instance excepted. `over`: as the authors do, one step too much. */
  shrink(wanted: number, over: boolean) {
    let need = wanted;
    const order = [...this.#instances].sort(
      (one, other) => one.resources.sm - other.resources.sm || one.id - other.id,
    );
    for (const instance of order) {
      if (need <= 0) return;
      need -= this.#shorten(instance, need, over);
    }
    for (const instance of order) {
      const capacity = instance.capacity ?? 0;
      const left = this.#instances.filter(({ ends }) => !ends).length;
      if (left <= 1 || instance.resources.sm > whole / 2 || capacity > need) continue;
      instance.ends = true;
      need -= capacity;
    }
  }

  #shorten(instance: Instance, need: number, over: boolean): number {
    const { step } = this.#parameters;
    const { sm, time } = instance.resources;
    const before = instance.capacity ?? 0;
    let loss = 0;
    let left = time;
    for (let to = time - step; to > 0 && loss < need; to -= step) {
      const capacity = this.#capacity(sm, to);
      if (capacity === null || (!over && before - capacity > need)) break;
      loss = before - capacity;
      left = to;
    }
    if (left === time) return 0;
    instance.resources = { ...instance.resources, time: left };
    instance.capacity = before - loss;
    return loss;
  }

  /** What has to be done; nothing for what is as it was. */
  effects(text: string): Effect[] {
    const effects: Effect[] = [];
    for (const { id, device, resources, before, ends, capacity } of this.#instances) {
      const reason = { text, figures: { capacity: capacity ?? 0 } };
      if (ends) effects.push({ kind: 'end', instance: id, reason });
      else if (before === null) {
        const parts = [{ device, resources }];
        effects.push({ kind: 'place', instance: id, name: this.#name, parts, reason });
      } else if (before.time !== resources.time) {
        effects.push({ kind: 'quota', instance: id, resources, reason });
      }
    }
    return effects;
  }
}

/** Of those that serve what is needed the one with the least of the device; else the one that serves most. */
function isBetter(
  one: { sm: number; time: number; capacity: number },
  other: { sm: number; time: number; capacity: number },
  need: number,
): boolean {
  const [enough, otherEnough] = [one.capacity >= need, other.capacity >= need];
  if (enough !== otherEnough) return enough;
  if (!enough) return one.capacity > other.capacity;
  return one.sm * one.time < other.sm * other.time;
}
