// All slots of the server: GPUs times servers per GPU. A process that ends is replaced in the
// background, at once if it ever worked, with growing pauses if it cannot even open its device.
import { type DeviceSnapshot, loadNative, type Native } from '../../../api-server/src/native.js';
import type { GpuState, Placement } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { Driver } from '../devices/devices.js';
import { formatUuid } from '../devices/devices.js';
import { imageMemory, machineMemory } from '../devices/image-memory.js';
import { type Beside, type BesideWanted, besideOf, sessionMemory } from '../devices/memory.js';
import { type MemoryRule, roomForSlot, usualMemory } from '../devices/memory-rule.js';
import { formatBytes } from '../options/values.js';
import type { CacheFolder } from './cache-folder.js';
import { isComing, isFor, isFree, isOf, type Place } from './place.js';
import type { Sandbox } from './sandbox.js';
import { Slot, type SlotEvents } from './slot.js';

const leastPause = 100;
const mostPause = 30_000;
/** After so many failures in a row nobody waits any longer for a process in a place. */
const hopelessAfter = 3;
/** How soon one that could not be made is tried again. */
const growPauseSeconds = 30;

export interface PoolOptions {
  build: string;
  driver: Driver;
  serversPerGpu: number;
  /**
   * Where all slots are taken and memory is left, another one is made, up to so many. So one is kept
   * free. Absent: there are never more than at first.
   */
  serversMost?: number;
  /** A slot made later ends when it and another one have been free for so long. */
  slotIdleSeconds?: number;
  /** A process that gives no sign of life for so long is killed. */
  hangSeconds: number;
  /** What a session gets that does not say how much it wants. */
  memoryRule: MemoryRule;
  /** What each session may have beside the memory that it maps. */
  beside: BesideWanted;
  /** Of the host's memory, for images of modules in each process; absent: what suits the machine. */
  imageMemory?: bigint | null;
  /** Where the processes keep modules and uploads on disk; absent or null: nowhere. */
  modules?: CacheFolder | null;
  uploads?: CacheFolder | null;
  /** The sandbox that the processes are started in; absent or null: none. */
  sandbox?: Sandbox | null;
}

const watchSeconds = 1;
/** For a process that is not needed any more. */
const endSeconds = 10;

interface Gpu {
  places: Place[];
  memory: bigint;
  beside: Beside;
  contexts: bigint;
  /** Bytes of `memory` that each slot takes that is made later. */
  slotCost: bigint;
  /** On performance's clock: since when there is a free slot too many, and when one may be made again. */
  spareSince: number | null;
  growFrom: number;
  uuid: string;
  snapshot: DeviceSnapshot | undefined;
}

export interface PoolEvents extends Omit<SlotEvents, 'onFailed'> {
  /** A process has been started for the slot. */
  onStarted(slot: Slot): void;
  /** Its process has ended, because it was not needed any more. */
  onRetired(slot: Slot): void;
  /** A process could not even be started; it is tried again. */
  onUnable(): void;
}

export class Pool {
  readonly #options: PoolOptions;
  /** Only for quota pages: the monitor itself never opens a device. */
  readonly #native: Native;
  readonly #log: Log;
  readonly #events: PoolEvents;
  readonly #gpus: Gpu[] = [];
  #watch: NodeJS.Timeout | undefined;
  #stopping = false;
  #starting: { ready: () => void; failed: (error: Error) => void } | undefined;
  #allGone: (() => void) | undefined;

  constructor(options: PoolOptions, events: PoolEvents, log: Log) {
    this.#options = options;
    this.#native = loadNative(options.build);
    this.#events = events;
    this.#log = log;
  }

  /** Resolves when every slot is warm. Throws when one cannot be opened; call stop() then. */
  async start() {
    const { driver, serversPerGpu } = this.#options;
    for (let index = 0; index < driver.gpus; index++) {
      const gpu: Gpu = {
        places: [],
        memory: 0n,
        beside: { pinned: 0n, modules: 0n },
        contexts: 0n,
        slotCost: 0n,
        spareSince: null,
        growFrom: 0,
        uuid: '',
        snapshot: undefined,
      };
      this.#gpus.push(gpu);
      // One by one: where one cannot be started, stop() finds the others.
      while (gpu.places.length < serversPerGpu)
        gpu.places.push(this.#place(index, gpu.places.length));
    }
    this.#watch = setInterval(() => this.#watchAll(), watchSeconds * 1000);
    await new Promise<void>((resolve, reject) => {
      const ready = () => this.#measureAll().then(resolve, reject);
      this.#starting = { ready, failed: reject };
    });
    this.#starting = undefined;
  }

  #watchAll() {
    for (const { slot } of this.#places()) slot.watch(this.#options.hangSeconds);
    if (this.#starting || this.#stopping) return;
    for (const index of this.#gpus.keys()) {
      this.#grow(index);
      this.#shrink(index);
    }
  }

  get #most(): number {
    const { serversPerGpu, serversMost = serversPerGpu } = this.#options;
    return serversMost;
  }

  get #grows(): boolean {
    return this.#most > this.#options.serversPerGpu;
  }

  /** Whether a session that does not say how much memory it wants gets half of what is left. */
  get halves(): boolean {
    return this.#grows && this.#options.memoryRule.kind === 'auto';
  }

  /** One more slot, where all are taken and somebody could use it. */
  #grow(index: number) {
    const gpu = this.#gpus[index];
    if (!gpu || gpu.places.length >= this.#most || performance.now() < gpu.growFrom) return;
    const taken = ({ slot, reserved, retired }: Place) =>
      !retired &&
      slot.state !== 'starting' &&
      slot.state !== 'leaving' &&
      (reserved > 0n || slot.state === 'busy');
    if (!gpu.places.every(taken)) return;
    if (!roomForSlot(gpu.memory, this.#reservedOf(gpu), gpu.slotCost)) return;
    this.#log.info({ gpu: index, slots: gpu.places.length + 1 }, 'all slots are taken: one more');
    try {
      gpu.places.push(this.#place(index, gpu.places.length));
    } catch (error) {
      gpu.growFrom = performance.now() + growPauseSeconds * 1000;
      this.#log.warn({ gpu: index, ...asLogged(error) }, (error as Error).message);
    }
  }

  /** The last slot ends, where more than one has been free for long. */
  #shrink(index: number) {
    const gpu = this.#gpus[index];
    const last = gpu?.places.at(-1);
    if (!gpu || !last || gpu.places.length <= this.#options.serversPerGpu) return;
    const free = gpu.places.filter(isFree);
    if (last.retired) return;
    if (!isFree(last) || free.length < 2) {
      gpu.spareSince = null;
      return;
    }
    gpu.spareSince ??= performance.now();
    const { slotIdleSeconds = 60 } = this.#options;
    if (performance.now() - gpu.spareSince < slotIdleSeconds * 1000) return;
    this.#log.info({ gpu: index, slots: gpu.places.length - 1 }, 'a slot is not needed any more');
    last.retired = true;
    last.slot.stop('it is not needed any more', endSeconds);
  }

  /** Bytes promised to sessions, or taken by slots that were made after the memory was measured. */
  #reservedOf({ places, slotCost }: Gpu): bigint {
    const extra = Math.max(0, places.length - this.#options.serversPerGpu);
    return places.reduce((sum, place) => sum + place.reserved, BigInt(extra) * slotCost);
  }

  #usualOf(gpu: Gpu): bigint {
    const slots = this.#grows ? null : gpu.places.length;
    const reserved = this.#reservedOf(gpu);
    return usualMemory(this.#options.memoryRule, { memory: gpu.memory, reserved, slots });
  }

  #places(): Place[] {
    return this.#gpus.flatMap((gpu) => gpu.places);
  }

  /** The GPUs as placement sees them. */
  get state(): GpuState[] {
    return this.#states(isFree);
  }

  /**
   * The GPUs as placement sees them for one tenant, where a process serves one tenant only. It gets the
   * processes that have served it first: if it took others, other tenants would have to wait for new ones.
   */
  stateFor(tenant: string): GpuState[] {
    return this.#states((place) => {
      const own = this.#gpus[place.slot.gpu]?.places.some(
        (one) => isFree(one) && isOf(one, tenant),
      );
      return isFree(place) && (isOf(place, tenant) || (!own && place.slot.tenant === null));
    });
  }

  /** The same, with processes that are being made new because of that tenant. */
  stateComing(tenant: string): GpuState[] {
    return this.#states(
      (place) => (isFree(place) && isFor(place.slot, tenant)) || isComing(place, tenant),
    );
  }

  /** The same as it may soon be for anybody: with processes that are being made new, or can be. */
  get stateRenewed(): GpuState[] {
    return this.#states((place) => isFree(place) || isComing(place));
  }

  /** How many slots have no process yet, because one is being made new for this tenant or after it. */
  comingFor(tenant: string): number {
    return this.#places().filter((place) => isComing(place, tenant)).length;
  }

  /** The GPUs as placement would see them if only these slots, listed by GPU, were taken. */
  stateWith(taken: readonly (readonly number[])[]): GpuState[] {
    return this.#gpus.map((gpu, index) => {
      const kept = taken[index] ?? [];
      // Slots that were made later would have ended by then, all but one that is free.
      const last = Math.max(this.#options.serversPerGpu - 1, ...kept);
      const places = gpu.places
        .slice(0, kept.length > last ? last + 2 : last + 1)
        .map((place, slot) => (kept.includes(slot) ? place : { ...place, reserved: 0n }));
      return this.#state({ ...gpu, places }, index, ({ reserved, failures }) => {
        return reserved === 0n && failures === 0;
      });
    });
  }

  #states(counts: (place: Place) => boolean): GpuState[] {
    return this.#gpus.map((gpu, index) => this.#state(gpu, index, counts));
  }

  #state(gpu: Gpu, index: number, counts: (place: Place) => boolean): GpuState {
    return {
      index,
      uuid: gpu.uuid,
      name: gpu.snapshot?.name ?? '',
      healthy: gpu.places.some((place) => place.failures === 0),
      sessions: [],
      memory: gpu.memory,
      reserved: this.#reservedOf(gpu),
      usual: this.#usualOf(gpu),
      free: gpu.places.map(counts),
    };
  }

  /** Empty until its first slot is warm. */
  uuid(gpu: number): string {
    return this.#gpus[gpu]?.uuid ?? '';
  }

  /** What people are told of each GPU. */
  get devices() {
    return this.#gpus.map((gpu, index) => ({
      index,
      name: gpu.snapshot?.name ?? '',
      uuid: gpu.uuid,
      pciBusId: gpu.snapshot?.pciBusId ?? '',
      total: gpu.snapshot?.totalMemory ?? 0n,
      memory: gpu.memory,
      usual: this.#usualOf(gpu),
      beside: gpu.beside,
      /** Bytes that the contexts of all slots take. */
      contexts: (gpu.contexts * BigInt(gpu.places.length)) / BigInt(this.#options.serversPerGpu),
      slots: gpu.places.map((place) => place.slot),
      /** Of its first warm slot; undefined until there was one. */
      snapshot: gpu.snapshot,
      problem: gpu.places.every((place) => place.failures > 0)
        ? (gpu.places[0]?.problem ?? null)
        : null,
    }));
  }

  /** What a session there may have beside its memory. */
  beside(gpu: number): Beside {
    return this.#gpus[gpu]?.beside ?? { pinned: 0n, modules: 0n };
  }

  /** Why no slot will be free, however long one waits; null while there is hope. */
  get hopeless(): string | null {
    const places = this.#places();
    return places.every((place) => place.failures >= hopelessAfter)
      ? (places[0]?.problem ?? '')
      : null;
  }

  /** Ends a free process that has served another tenant than this one; a new one takes its place. */
  renew(placement: Placement, tenant: string) {
    const place = this.#at(placement.gpu, placement.slot);
    const { slot } = place;
    if (!isFree(place) || isFor(slot, tenant)) return;
    place.comingFor = tenant;
    slot.log.debug({ tenant: slot.tenant, next: tenant }, 'made new for another tenant');
    slot.renew();
  }

  /** The longest that one of the processes took until it was warm. */
  get startSeconds(): number {
    return Math.max(0, ...this.#places().map(({ slot }) => slot.startSeconds ?? 0));
  }

  /** Reserves a slot and its memory until `release`, also across the replacement of its process. */
  reserve({ gpu, slot, memory }: Placement) {
    this.#at(gpu, slot).reserved = memory;
    this.#grow(gpu);
  }

  release({ gpu, slot }: Placement) {
    this.#at(gpu, slot).reserved = 0n;
  }

  /** The process that is there now. */
  slot({ gpu, slot }: Placement): Slot {
    return this.#at(gpu, slot).slot;
  }

  /** Ends all sessions and processes; by force those that take longer than `seconds`. */
  stop(message: string, seconds: number): Promise<void> {
    this.#stopping = true;
    this.#starting?.failed(new OutboardError('OB_SHUTDOWN'));
    this.#starting = undefined;
    const places = this.#places();
    for (const place of places) {
      clearTimeout(place.pause);
      place.slot.stop(message, seconds);
    }
    return new Promise((resolve) => {
      this.#allGone = resolve;
      this.#checkGone();
    });
  }

  kill() {
    for (const { slot } of this.#places()) slot.kill();
  }

  #place(gpu: number, index: number): Place {
    const slot = this.#spawn(gpu, index);
    const none = { pause: undefined, retired: false, comingFor: null };
    return { slot, reserved: 0n, failures: 0, problem: '', ...none };
  }

  #imageBytes(): bigint {
    const { driver, serversMost, serversPerGpu, imageMemory: wanted } = this.#options;
    return wanted ?? imageMemory(machineMemory(), driver.gpus * (serversMost ?? serversPerGpu));
  }

  #spawn(gpu: number, index: number): Slot {
    const { build, driver, modules = null, uploads = null } = this.#options;
    const events = {
      ...this.#events,
      onReady: (slot: Slot) => this.#ready(slot),
      onFailed: (slot: Slot, code: string | null, message: string) =>
        this.#failed(slot, code, message),
      onExit: (slot: Slot, how: string) => this.#exited(slot, how),
    };
    const { library, env } = driver;
    const native = this.#native;
    const { sandbox = null } = this.#options;
    const kept = { modules, uploads, imageBytes: this.#imageBytes() };
    const options = { gpu, index, build, library, env, sandbox, native, ...kept };
    const slot = new Slot(options, events, this.#log);
    this.#events.onStarted(slot);
    return slot;
  }

  #ready(slot: Slot) {
    const place = this.#at(slot.gpu, slot.index);
    place.failures = 0;
    place.problem = '';
    place.comingFor = null;
    slot.log.debug('ready');
    const gpu = this.#gpus[slot.gpu];
    if (gpu && slot.snapshot) {
      gpu.snapshot = slot.snapshot;
      gpu.uuid = formatUuid(slot.snapshot.uuid);
    }
    if (this.#starting) {
      const all = this.#gpus.every((gpu) => gpu.places.every(({ slot }) => slot.state === 'free'));
      if (all) this.#starting.ready();
      return;
    }
    this.#events.onReady(slot);
  }

  #failed(slot: Slot, code: string | null, message: string) {
    const error =
      OutboardError.relayed(code, message) ??
      new OutboardError('OB_DEVICE_OPEN', slot.gpu, message);
    this.#at(slot.gpu, slot.index).problem = error.message;
    slot.log.error({ code: error.code }, error.message);
    this.#starting?.failed(error);
  }

  #exited(slot: Slot, how: string) {
    const place = this.#at(slot.gpu, slot.index);
    const gpu = this.#gpus[slot.gpu];
    // A slot that was to be one more and whose process cannot start lacks memory.
    const failed = !slot.snapshot && !this.#starting && slot.index >= this.#options.serversPerGpu;
    // A place that is reserved stays, and gets another process.
    const given = place.retired || (failed && place.reserved === 0n);
    if (gpu && !this.#stopping && given && gpu.places.at(-1) === place) {
      gpu.places.pop();
      if (failed) gpu.growFrom = performance.now() + growPauseSeconds * 1000;
      if (failed) slot.log.warn(`${how}: the GPU has no room for one more slot`);
      this.#events.onRetired(slot);
      return;
    }
    place.comingFor ??= slot.tenant;
    if (!slot.snapshot) {
      place.failures++;
      place.comingFor = null;
      place.problem ||= `its process ended (${how}) while opening the device`;
    }
    this.#events.onExit(slot, how);
    if (this.#stopping) return this.#checkGone();
    if (this.#starting) {
      const problem = place.problem || `its process ended (${how})`;
      return this.#starting.failed(new OutboardError('OB_DEVICE_OPEN', slot.gpu, problem));
    }
    if (place.failures === 0) {
      slot.log.info(`${how}: replaced`);
      return this.#replace(place);
    }
    this.#replaceLater(place, how);
  }

  #replace(place: Place) {
    const { gpu, index, log } = place.slot;
    try {
      place.slot = this.#spawn(gpu, index);
    } catch (error) {
      // Descriptors, processes or memory have run out; later there may be some again.
      place.failures++;
      place.comingFor = null;
      place.problem = (error as Error).message;
      log.error(asLogged(error), place.problem);
      this.#replaceLater(place, 'not started');
      this.#events.onUnable();
    }
  }

  #replaceLater(place: Place, how: string) {
    const pause = Math.min(mostPause, leastPause * 2 ** place.failures);
    place.slot.log.error(`${how}: tried again in ${pause / 1000} seconds`);
    place.pause = setTimeout(() => this.#replace(place), pause);
  }

  /** One after another: each GPU is asked by its first slot. */
  async #measureAll() {
    for (const [index, gpu] of this.#gpus.entries()) await this.#measure(index, gpu);
  }

  async #measure(index: number, gpu: Gpu) {
    const slot = gpu.places[0]?.slot;
    const total = gpu.snapshot?.totalMemory ?? 0n;
    const free = slot ? await slot.measure() : 0n;
    const slots = gpu.places.length;
    const contexts = total - free;
    gpu.beside = besideOf(total, this.#options.beside);
    const slotCost = contexts / BigInt(slots) + gpu.beside.pinned + gpu.beside.modules;
    const memory = sessionMemory(free, gpu.beside, slots);
    Object.assign(gpu, { memory, contexts, slotCost });
    // Whatever the rule says, the memory must be enough to give each slot some.
    if (usualMemory({ kind: 'auto' }, { memory, reserved: 0n, slots }) === 0n)
      throw new OutboardError('OB_DEVICE_SMALL', index, formatBytes(free), slots);
  }

  #checkGone() {
    if (!this.#places().every(({ slot }) => slot.state === 'ended')) return;
    clearInterval(this.#watch);
    this.#allGone?.();
  }

  #at(gpu: number, index: number): Place {
    const place = this.#gpus[gpu]?.places[index];
    if (!place) throw new Error(`no slot ${gpu}.${index}`);
    return place;
  }
}

function asLogged(error: unknown): object {
  return error instanceof OutboardError
    ? { code: error.code, remedy: error.remedy }
    : { err: error };
}
