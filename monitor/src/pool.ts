// All slots of the server: GPUs times servers per GPU. A process that ends is replaced in the
// background, at once if it ever worked, with growing pauses if it cannot even open its device.
import { type DeviceSnapshot, loadNative, type Native } from '../../api-server/src/native.js';
import type { CacheFolder } from './cache-folder.js';
import type { Driver } from './devices.js';
import { formatUuid } from './devices.js';
import { OutboardError } from './errors.js';
import type { Log } from './log.js';
import { sessionMemory } from './memory.js';
import { Slot, type SlotEvents } from './slot.js';
import type { GpuState, Placement } from './state.js';

const leastPause = 100;
const mostPause = 30_000;
/** Failures in a row of a place after which its next success is no longer waited for. */
const hopelessAfter = 3;

export interface PoolOptions {
  build: string;
  driver: Driver;
  serversPerGpu: number;
  /** A process that gives no sign of life for so long is killed. */
  hangSeconds: number;
  /** Where the processes keep modules and uploads on disk; absent or null: nowhere. */
  modules?: CacheFolder | null;
  uploads?: CacheFolder | null;
}

const watchSeconds = 1;

/** Where a process is, and after it the next one. */
interface Place {
  slot: Slot;
  /** Bytes; 0: it is nobody's. */
  reserved: bigint;
  /** Processes in a row that could not open the device. */
  failures: number;
  problem: string;
  pause: NodeJS.Timeout | undefined;
}

interface Gpu {
  places: Place[];
  memory: bigint;
  usual: bigint;
  contexts: bigint;
  uuid: string;
  snapshot: DeviceSnapshot | undefined;
}

export interface PoolEvents extends Omit<SlotEvents, 'onFailed'> {
  /** A process has been started for the slot. */
  onStarted(slot: Slot): void;
}

export class Pool {
  readonly #options: PoolOptions;
  /** Only for token pages: the monitor itself never opens a device. */
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
    for (let gpu = 0; gpu < driver.gpus; gpu++) {
      const places = Array.from({ length: serversPerGpu }, (_, index) => this.#place(gpu, index));
      this.#gpus.push({
        places,
        memory: 0n,
        usual: 0n,
        contexts: 0n,
        uuid: '',
        snapshot: undefined,
      });
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
  }

  #places(): Place[] {
    return this.#gpus.flatMap((gpu) => gpu.places);
  }

  /** Of everything that has a state; for placement. */
  get state(): GpuState[] {
    return this.#gpus.map(({ places, memory, usual, uuid, snapshot }, index) => ({
      index,
      uuid,
      name: snapshot?.name ?? '',
      healthy: places.some((place) => place.failures === 0),
      sessions: [],
      memory,
      reserved: places.reduce((sum, place) => sum + place.reserved, 0n),
      usual,
      free: places.map(({ slot, reserved }) => slot.state === 'free' && reserved === 0n),
    }));
  }

  /** Empty until its first slot is warm. */
  uuid(gpu: number): string {
    return this.#gpus[gpu]?.uuid ?? '';
  }

  /** Of each GPU, for people. */
  get devices() {
    return this.#gpus.map(({ snapshot, uuid, memory, usual, places, contexts }, index) => ({
      index,
      name: snapshot?.name ?? '',
      uuid,
      pciBusId: snapshot?.pciBusId ?? '',
      total: snapshot?.totalMemory ?? 0n,
      memory,
      usual,
      /** Bytes that the contexts of all slots take. */
      contexts,
      slots: places.map((place) => place.slot),
      /** Of its first warm slot; undefined until there was one. */
      snapshot,
      problem: places.every((place) => place.failures > 0) ? (places[0]?.problem ?? null) : null,
    }));
  }

  /** Why no slot will be free, however long one waits; null while there is hope. */
  get hopeless(): string | null {
    const places = this.#places();
    return places.every((place) => place.failures >= hopelessAfter)
      ? (places[0]?.problem ?? '')
      : null;
  }

  /** From here on nothing else is placed there, also when its process is replaced. */
  reserve({ gpu, slot, memory }: Placement) {
    this.#at(gpu, slot).reserved = memory;
  }

  release({ gpu, slot }: Placement) {
    this.#at(gpu, slot).reserved = 0n;
  }

  /** What is there now. */
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
    return { slot, reserved: 0n, failures: 0, problem: '', pause: undefined };
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
    const options = { gpu, index, build, library, env, native: this.#native, modules, uploads };
    const slot = new Slot(options, events, this.#log);
    this.#events.onStarted(slot);
    return slot;
  }

  #ready(slot: Slot) {
    const place = this.#at(slot.gpu, slot.index);
    place.failures = 0;
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
    if (!slot.snapshot) {
      place.failures++;
      place.problem ||= `its process ended (${how}) while opening the device`;
    }
    this.#events.onExit(slot, how);
    if (this.#stopping) return this.#checkGone();
    if (this.#starting) {
      const problem = place.problem || `its process ended (${how})`;
      return this.#starting.failed(new OutboardError('OB_DEVICE_OPEN', slot.gpu, problem));
    }
    const again = () => {
      place.slot = this.#spawn(slot.gpu, slot.index);
    };
    if (place.failures === 0) {
      slot.log.info(`${how}: replaced`);
      return again();
    }
    const pause = Math.min(mostPause, leastPause * 2 ** place.failures);
    slot.log.error(`${how}: tried again in ${pause / 1000} seconds`);
    place.pause = setTimeout(again, pause);
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
    Object.assign(gpu, sessionMemory(free, total, slots), { contexts: total - free });
    if (gpu.usual === 0n) throw new OutboardError('OB_DEVICE_SMALL', index, free, slots);
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
