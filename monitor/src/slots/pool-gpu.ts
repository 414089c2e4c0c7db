// One GPU of the pool: its places, its memory, and what placement and people see of it.
import type { DeviceSnapshot } from '../../../api-server/src/native.js';
import type { GpuState } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import { exclusiveProcess, type ServedDevice, uuidOf } from '../devices/devices.js';
import {
  type Beside,
  type BesideWanted,
  besideBytes,
  besideOf,
  sessionMemory,
} from '../devices/memory.js';
import { type MemoryRule, roomForSlot, usualMemory } from '../devices/memory-rule.js';
import { formatBytes } from '../options/values.js';
import { isFree, type Place } from './place.js';

/** How soon one that could not be made is tried again. */
const growPauseSeconds = 30;

export interface PoolGpuOptions {
  /** Slots from the start on, and how many there can be. */
  serversPerGpu: number;
  serversMost: number;
  /** What a session gets that does not say how much it wants. */
  memoryRule: MemoryRule;
  /** What each session may have beside the memory that it maps. */
  beside: BesideWanted;
}

/** What becomes of the sessions of a GPU that gets no new ones: they are moved, or waited for; null: it gets new ones. */
export type Draining = 'moves' | 'waits' | null;

/** What people are told of a GPU. */
export type GpuFacts = PoolGpu['facts'];

export class PoolGpu {
  readonly index: number;
  /** As the driver described it when it was looked for; absent: it was not. */
  readonly offered: ServedDevice | undefined;
  readonly places: Place[] = [];
  /** Where it is not known from the driver, empty until its first slot is warm. */
  uuid: string;
  /** What a session may have beside its memory. */
  beside: Beside = { pinned: 0n, modules: 0n, stacks: 0n };
  readonly #options: PoolGpuOptions;
  #snapshot: DeviceSnapshot | undefined;
  /** Whether its memory has been divided: until then it has none for sessions. */
  #measured = false;
  #memory = 0n;
  #contexts = 0n;
  /** Bytes of `#memory` that each slot takes that is made later. */
  #slotCost = 0n;
  /** On performance's clock: since when there is a free slot too many, and when one may be made again. */
  #spareSince: number | null = null;
  #growFrom = 0;

  constructor(index: number, offered: ServedDevice | undefined, options: PoolGpuOptions) {
    this.index = index;
    this.offered = offered;
    this.uuid = offered ? uuidOf(offered) : '';
    // In that mode one process at a time has contexts there.
    const alone = offered?.computeMode === exclusiveProcess;
    this.#options = alone ? { ...options, serversPerGpu: 1, serversMost: 1 } : options;
  }

  /** Why it is not used though its slots are warm: found when its memory was divided; null: nothing. */
  unfit: string | null = null;

  draining: Draining = null;

  /** Slots from the start on. */
  get serversPerGpu(): number {
    return this.#options.serversPerGpu;
  }

  /** How many slots there can be. */
  get slotsMost(): number {
    return this.#options.serversMost;
  }

  /** Whether all its slots are warm and free, and its memory has not been divided yet. */
  get awaitsMeasure(): boolean {
    const { places, serversPerGpu } = this;
    if (this.#measured || places.length < serversPerGpu) return false;
    return places.every(({ slot }) => slot.state === 'free');
  }

  /** Of one of its slots, which is warm. */
  set snapshot(snapshot: DeviceSnapshot) {
    this.#snapshot = snapshot;
    this.uuid = uuidOf(snapshot);
  }

  /**
   * How its memory is divided; asks its first slot. All are warm, and serve nobody yet. False: that slot's
   * process has ended meanwhile.
   */
  async measure(): Promise<boolean> {
    const slot = this.places[0]?.slot;
    const total = this.#snapshot?.totalMemory ?? 0n;
    const free = slot ? await slot.measure() : 0n;
    if (free === null) return false;
    // What they do not keep ready they let go of when they are asked, too.
    await Promise.all(this.places.slice(1).map((place) => place.slot.measure()));
    const slots = this.places.length;
    this.#contexts = total - free;
    this.beside = besideOf(total, threadsOf(this.#snapshot), this.#options.beside);
    this.#slotCost = this.#contexts / BigInt(slots) + besideBytes(this.beside);
    this.#memory = sessionMemory(free, this.beside, slots);
    // Whatever the rule says, the memory must be enough to give each slot some.
    const memory = this.#memory;
    if (usualMemory({ kind: 'auto' }, { memory, reserved: 0n, slots }) === 0n)
      throw new OutboardError('OB_DEVICE_SMALL', this.index, formatBytes(free), slots);
    this.#measured = true;
    return true;
  }

  /** It is not used, for this reason. */
  refuse(reason: string) {
    this.unfit = reason;
    this.#memory = 0n;
  }

  /** Whether one more slot is to be made: all are taken, and there is room for one. */
  get lacksSlot(): boolean {
    if (this.places.length >= this.#options.serversMost) return false;
    if (performance.now() < this.#growFrom) return false;
    const taken = ({ slot, reserved, retired }: Place) =>
      !retired &&
      slot.state !== 'starting' &&
      slot.state !== 'leaving' &&
      (reserved > 0n || slot.state === 'busy');
    if (!this.places.every(taken)) return false;
    return roomForSlot(this.#memory, this.#reservedBy(this.places), this.#slotCost);
  }

  /** One more slot could not be made: none is tried for a while. */
  growLater() {
    this.#growFrom = performance.now() + growPauseSeconds * 1000;
  }

  /** The last place, where it and another one have been free for so long; null: it is not, or may not go. */
  spare(seconds: number): Place | null {
    const last = this.places.at(-1);
    if (!last || this.places.length <= this.#options.serversPerGpu || last.retired) return null;
    if (!isFree(last) || this.places.filter(isFree).length < 2) {
      this.#spareSince = null;
      return null;
    }
    this.#spareSince ??= performance.now();
    return performance.now() - this.#spareSince < seconds * 1000 ? null : last;
  }

  /** The GPU as placement sees it. `counts`: which places it may choose. */
  state(counts: (place: Place) => boolean, places: readonly Place[] = this.places): GpuState {
    return {
      index: this.index,
      uuid: this.uuid,
      name: this.#name,
      healthy:
        this.#measured &&
        this.unfit === null &&
        this.draining === null &&
        places.some((place) => place.failures === 0),
      sessions: [],
      memory: this.#memory,
      reserved: this.#reservedBy(places),
      usual: this.#usualAmong(places),
      free: places.map(counts),
    };
  }

  /** The GPU as placement would see it if only these slots were taken. */
  stateWith(taken: readonly number[]): GpuState {
    // Slots that were made later would have ended by then, all but one that is free.
    const last = Math.max(this.#options.serversPerGpu - 1, ...taken);
    const places = this.places
      .slice(0, taken.length > last ? last + 2 : last + 1)
      .map((place, slot) => (taken.includes(slot) ? place : { ...place, reserved: 0n }));
    return this.state(({ reserved, failures }) => reserved === 0n && failures === 0, places);
  }

  /** What people are told of it. */
  get facts() {
    const { index, uuid, places, beside } = this;
    return {
      index,
      name: this.#name,
      uuid,
      pciBusId: this.#snapshot?.pciBusId ?? '',
      total: this.#snapshot?.totalMemory ?? 0n,
      memory: this.#memory,
      usual: this.#usualAmong(places),
      beside,
      /** Bytes that the contexts of all slots take. */
      contexts: (this.#contexts * BigInt(places.length)) / BigInt(this.#options.serversPerGpu),
      slots: places.map((place) => place.slot),
      /** Of its first warm slot; undefined until there was one. */
      snapshot: this.#snapshot,
      /** Why no session can be served here, whether or not it is being emptied; null: they can. */
      problem: this.#problem,
      draining: this.draining,
    };
  }

  get #problem(): string | null {
    const { places, unfit } = this;
    if (places.every(({ failures }) => failures > 0)) return places[0]?.problem ?? null;
    return unfit;
  }

  get #name(): string {
    return this.#snapshot?.name ?? this.offered?.name ?? '';
  }

  /** Bytes promised to sessions, or taken by slots that were made after the memory was measured. */
  #reservedBy(places: readonly Place[]): bigint {
    const extra = Math.max(0, places.length - this.#options.serversPerGpu);
    return places.reduce((sum, place) => sum + place.reserved, BigInt(extra) * this.#slotCost);
  }

  #usualAmong(places: readonly Place[]): bigint {
    const { serversPerGpu, serversMost, memoryRule } = this.#options;
    const slots = serversMost > serversPerGpu ? null : places.length;
    return usualMemory(memoryRule, {
      memory: this.#memory,
      reserved: this.#reservedBy(places),
      slots,
    });
  }
}

/** How many threads a GPU holds at once. */
function threadsOf(snapshot: DeviceSnapshot | undefined): bigint {
  const multiprocessors = 16; // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
  const threadsOfEach = 39; // CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
  const { attributes = [] } = snapshot ?? {};
  return BigInt(attributes[multiprocessors] ?? 0) * BigInt(attributes[threadsOfEach] ?? 0);
}
