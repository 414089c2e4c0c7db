// All slots of the server: GPUs times servers per GPU. A process that ends is replaced in the
// background, at once if it ever worked, with growing pauses if it cannot even open its device.
import type { Warm } from '../../../api-server/src/ipc.js';
import { loadNative, type Native } from '../../../api-server/src/native.js';
import type { GpuState, Placement } from '../../policies/state.js';
import { type ErrorCode, OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import type { Driver } from '../devices/devices.js';
import { imageMemory, machineMemory } from '../devices/image-memory.js';
import type { Beside, BesideWanted } from '../devices/memory.js';
import type { MemoryRule } from '../devices/memory-rule.js';
import type { CacheFolder } from './cache-folder.js';
import { isComing, isFor, isFree, isOf, type Place } from './place.js';
import { type Draining, type GpuFacts, PoolGpu } from './pool-gpu.js';
import type { Sandbox } from './sandbox.js';
import { Slot, type SlotEvents } from './slot.js';
import { TurnPage } from './turn-page.js';

const leastPause = 100;
const mostPause = 30_000;
/** After so many failures in a row nobody waits any longer for a process in a place. */
const hopelessAfter = 3;

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
  /** The folder of cuBLAS and cuBLASLt for sessions that call those whole; absent, null: none. */
  libraries?: string | null;
  /** What slots have ready while they wait; handles unless said. */
  warm?: Warm;
  /** Where the processes keep modules and uploads on disk; absent or null: nowhere. */
  modules?: CacheFolder | null;
  uploads?: CacheFolder | null;
  /** The sandbox that the processes are started in; absent or null: none. */
  sandbox?: Sandbox | null;
}

/** As many as SOFTWARE_DEVICE_PLACE has. */
const softwarePlaces = 16;
const watchSeconds = 1;
/** For a process that is not needed any more. */
const endSeconds = 10;

/** For which other GPUs are served without this one, also at the start. */
const bearable: readonly ErrorCode[] = ['OB_DEVICE_HELD', 'OB_DEVICE_GONE', 'OB_DEVICE_PROHIBITED'];

export interface PoolEvents extends Omit<SlotEvents, 'onFailed'> {
  /** A process has been started for the slot. */
  onStarted(slot: Slot): void;
  /** A GPU has come that was not there at the start. Throws an OutboardError where it cannot be used. */
  onLate(gpu: GpuFacts): void;
  /** Its process has ended, because it was not needed any more. */
  onRetired(slot: Slot): void;
  /** A process could not even be started; it is tried again. */
  onUnable(): void;
}

export class Pool {
  readonly #options: PoolOptions;
  /** For pages and sockets: the monitor itself never opens a device. */
  readonly native: Native;
  /** By GPU, of those that have slots. */
  readonly #turnPages: TurnPage[] = [];
  readonly #log: Log;
  readonly #events: PoolEvents;
  readonly #gpus: PoolGpu[] = [];
  #watch: NodeJS.Timeout | undefined;
  #stopping = false;
  #starting: { ready: () => void; failed: (error: Error) => void } | undefined;
  #allGone: (() => void) | undefined;
  /** Places whose next process somebody waits for. */
  readonly #awaited = new Map<Place, (slot: Slot | null) => void>();
  /** The first reason for which a GPU could not be opened. */
  #unusable: OutboardError | undefined;

  constructor(options: PoolOptions, events: PoolEvents, log: Log) {
    this.#options = options;
    this.native = loadNative(options.build);
    this.#events = events;
    this.#log = log;
  }

  /** Resolves when every slot is warm. Throws when one cannot be opened; call stop() then. */
  async start() {
    const { driver, serversPerGpu, memoryRule, beside } = this.#options;
    const options = { serversPerGpu, serversMost: this.#most, memoryRule, beside };
    for (let index = 0; index < driver.gpus; index++) {
      const gpu = new PoolGpu(index, driver.offered[index], options);
      this.#gpus.push(gpu);
      // One by one: where one cannot be started, stop() finds the others.
      while (gpu.places.length < gpu.serversPerGpu)
        gpu.places.push(this.#place(index, gpu.places.length));
    }
    this.#watch = setInterval(() => this.#watchAll(), watchSeconds * 1000);
    await new Promise<void>((resolve, reject) => {
      let asked = false;
      const ready = () => {
        if (asked) return;
        asked = true;
        this.#measureAll().then(resolve, reject);
      };
      this.#starting = { ready, failed: reject };
    });
    this.#starting = undefined;
    // Those that have come in the meantime.
    for (const gpu of this.#gpus) {
      const [first] = gpu.places;
      if (first && gpu.awaitsMeasure) this.#comeLate(gpu, first.slot);
    }
  }

  #watchAll() {
    for (const { slot } of this.#places()) slot.watch(this.#options.hangSeconds);
    if (this.#starting || this.#stopping) return;
    for (const gpu of this.#gpus) {
      this.#grow(gpu);
      this.#shrink(gpu);
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
  #grow(gpu: PoolGpu) {
    if (!gpu.lacksSlot) return;
    const { index, places } = gpu;
    this.#log.info({ gpu: index, slots: places.length + 1 }, 'all slots are taken: one more');
    try {
      places.push(this.#place(index, places.length));
    } catch (error) {
      gpu.growLater();
      this.#log.warn({ gpu: index, ...asLogged(error) }, (error as Error).message);
    }
  }

  /** The last slot ends, where more than one has been free for long. */
  #shrink(gpu: PoolGpu) {
    const last = gpu.spare(this.#options.slotIdleSeconds ?? 60);
    if (!last) return;
    const left = gpu.places.length - 1;
    this.#log.info({ gpu: gpu.index, slots: left }, 'a slot is not needed any more');
    last.retired = true;
    last.slot.stop('it is not needed any more', endSeconds);
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
    return this.#gpus.map((gpu, index) => gpu.stateWith(taken[index] ?? []));
  }

  #states(counts: (place: Place) => boolean): GpuState[] {
    return this.#gpus.map((gpu) => gpu.state(counts));
  }

  /** Empty until its first slot is warm. */
  uuid(gpu: number): string {
    return this.#gpus[gpu]?.uuid ?? '';
  }

  /** How many GPUs there are, which are numbered from 0. */
  get count(): number {
    return this.#gpus.length;
  }

  /** Nobody new is placed on the GPU, and its sessions leave it or are waited for; null: it serves again. */
  drain(gpu: number, how: Draining) {
    const found = this.#gpus[gpu];
    if (found) found.draining = how;
  }

  /** The GPUs, by index, that their sessions are to leave. */
  get leaving(): ReadonlySet<number> {
    const found = this.#gpus.filter(({ draining }) => draining === 'moves');
    return new Set(found.map(({ index }) => index));
  }

  /** What people are told of each GPU. */
  get devices() {
    return this.#gpus.map((gpu) => gpu.facts);
  }

  /** What a session there may have beside its memory. */
  beside(gpu: number): Beside {
    return this.#gpus[gpu]?.beside ?? { pinned: 0n, modules: 0n, stacks: 0n };
  }

  /** How many sessions the GPU may serve at a time. */
  slotsMost(gpu: number): number {
    return this.#gpus[gpu]?.slotsMost ?? this.#most;
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

  /**
   * Makes a process ready for a session that moves from `from`, in a place on that GPU that nobody has, and reserves
   * that: a fresh one, whose memory gets the same addresses. Null: there is no such place. Resolves when it is
   * warm; to null where it cannot be started.
   */
  freshFor(
    from: Slot,
    gpu: number,
    memory: bigint,
  ): { placement: Placement; warm: Promise<Slot | null> } | null {
    const place = this.#gpus[gpu]?.places.find((one) => isFree(one) && one.slot !== from);
    if (!place) return null;
    const { slot } = place;
    const placement = { gpu, slot: slot.index, memory };
    this.reserve(placement);
    if (slot.served === 0 && slot.addresses === from.addresses)
      return { placement, warm: Promise.resolve(slot) };
    place.addresses = from.addresses;
    const warm = new Promise<Slot | null>((resolve) => {
      this.#awaited.set(place, resolve);
    });
    slot.renew('a session moves here');
    return { placement, warm };
  }

  /** A place that was reserved for a session that does not move there. */
  giveBack(placement: Placement) {
    this.release(placement);
    this.#settleAddresses(this.slot(placement));
  }

  /** Its session is over: who comes next finds a process whose memory has the addresses of its own GPU. */
  #settleAddresses(slot: Slot) {
    const place = this.#at(slot.gpu, slot.index);
    if (place.addresses === slot.gpu) return;
    place.addresses = slot.gpu;
    if (slot.state === 'free') slot.renew('the session that had moved here is over');
  }

  /** The longest that one of the processes took until it was warm. */
  get startSeconds(): number {
    return Math.max(0, ...this.#places().map(({ slot }) => slot.startSeconds ?? 0));
  }

  /** Reserves a slot and its memory until `release`, also across the replacement of its process. */
  reserve({ gpu, slot, memory }: Placement) {
    this.#at(gpu, slot).reserved = memory;
    const there = this.#gpus[gpu];
    if (there) this.#grow(there);
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
      this.#allGone = () => {
        for (const turns of this.#turnPages.splice(0)) turns.close();
        resolve();
      };
      this.#checkGone();
    });
  }

  kill() {
    for (const { slot } of this.#places()) slot.kill();
  }

  #place(gpu: number, index: number): Place {
    const slot = this.#spawn(gpu, index);
    const none = { pause: undefined, retired: false, comingFor: null, bearable: false };
    return { slot, addresses: gpu, reserved: 0n, failures: 0, problem: '', ...none };
  }

  #imageBytes(): bigint {
    const { driver, serversMost, serversPerGpu, imageMemory: wanted } = this.#options;
    return wanted ?? imageMemory(machineMemory(), driver.gpus * (serversMost ?? serversPerGpu));
  }

  #spawn(gpu: number, index: number, addresses = gpu): Slot {
    const { build, driver, modules = null, uploads = null } = this.#options;
    const events = {
      ...this.#events,
      onReady: (slot: Slot) => this.#ready(slot),
      onEnded: (...ended: Parameters<SlotEvents['onEnded']>) => {
        this.#settleAddresses(ended[0]);
        this.#events.onEnded(...ended);
      },
      onFailed: (slot: Slot, code: string | null, message: string) =>
        this.#failed(slot, code, message),
      onExit: (slot: Slot, how: string) => this.#exited(slot, how),
    };
    const { library } = driver;
    const { ordinal = gpu, uuid = null, visible = null } = this.#gpus[gpu]?.offered ?? {};
    const env = { ...driver.env };
    if (visible !== null) env['CUDA_VISIBLE_DEVICES'] = visible;
    // A program with several GPUs has a session on each: what lies on one of them has no address of another.
    if (driver.kind === 'software' && addresses < softwarePlaces)
      env['SOFTWARE_DEVICE_PLACE'] = `${addresses}`;
    const device = { library, env, ordinal, uuid: uuid && Uint8Array.from(uuid) };
    const native = this.native;
    const { sandbox = null } = this.#options;
    const kept = { modules, uploads, imageBytes: this.#imageBytes() };
    const { libraries = null, warm = 'handles' } = this.#options;
    this.#turnPages[gpu] ??= new TurnPage(native);
    const turns = this.#turnPages[gpu];
    const options = {
      gpu,
      index,
      addresses,
      build,
      ...device,
      sandbox,
      native,
      turns,
      libraries,
      warm,
      ...kept,
    };
    const slot = new Slot(options, events, this.#log);
    this.#events.onStarted(slot);
    return slot;
  }

  #ready(slot: Slot) {
    const place = this.#at(slot.gpu, slot.index);
    place.failures = 0;
    place.problem = '';
    place.bearable = false;
    place.comingFor = null;
    slot.log.debug('ready');
    const gpu = this.#gpus[slot.gpu];
    if (gpu && slot.snapshot) gpu.snapshot = slot.snapshot;
    const awaited = this.#awaited.get(place);
    this.#awaited.delete(place);
    if (awaited) return awaited(slot);
    if (this.#starting) return this.#checkStarted();
    if (gpu?.awaitsMeasure) return this.#comeLate(gpu, slot);
    // What it has taken is known: it lets go of what it does not keep ready.
    if (this.#options.warm === 'none') void slot.measure();
    this.#events.onReady(slot);
  }

  /** All that will be warm for now are: those whose GPU another process has are not waited for. */
  #checkStarted() {
    const settled = this.#places().every(({ slot, failures }) => failures > 0 || isWarm(slot));
    if (!settled) return;
    const warm = this.#gpus.some(({ awaitsMeasure }) => awaitsMeasure);
    if (warm) this.#starting?.ready();
    else this.#starting?.failed(this.#unusable ?? new OutboardError('OB_INTERNAL', 'no GPU'));
  }

  async #comeLate(gpu: PoolGpu, slot: Slot) {
    if (await this.#measureLate(gpu)) this.#events.onReady(slot);
  }

  /** A GPU has come that could not be opened at the start. False: it has gone again. */
  async #measureLate(gpu: PoolGpu): Promise<boolean> {
    try {
      if (!(await gpu.measure())) return false;
      this.#events.onLate(gpu.facts);
      gpu.unfit = null;
      this.#log.info({ gpu: gpu.index, uuid: gpu.uuid }, 'the GPU is there now');
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      gpu.refuse(error.message);
      this.#log.error({ gpu: gpu.index, ...asLogged(error) }, error.message);
    }
    return true;
  }

  #failed(slot: Slot, code: string | null, message: string) {
    const opened = openingError(slot, code, message);
    const place = this.#at(slot.gpu, slot.index);
    place.bearable = bearable.includes(opened.code);
    const atFirst = this.#gpus[slot.gpu]?.serversPerGpu ?? this.#options.serversPerGpu;
    const worked =
      this.#starting === undefined && this.uuid(slot.gpu) !== '' && slot.index < atFirst;
    // What lacks only memory is there, and others on it have not lost it.
    const lost = worked && opened.code !== 'OB_DEVICE_FULL';
    const error =
      lost && !place.bearable
        ? new OutboardError('OB_GPU_LOST', slot.gpu, message.replace(/\.$/, ''))
        : opened;
    place.problem = error.message;
    const { remedy } = error;
    slot.log.error({ code: error.code, remedy }, error.message);
    this.#unusable ??= error;
    if (!place.bearable) this.#starting?.failed(error);
    if (lost) this.#lookAtOthers(slot);
  }

  /** Whether processes that wait for sessions still have the GPU, which one could not open: those that do not, end. */
  #lookAtOthers({ gpu }: Slot) {
    for (const { slot } of this.#gpus[gpu]?.places ?? [])
      if (slot.state === 'free') void slot.measure();
  }

  #exited(slot: Slot, how: string) {
    const place = this.#at(slot.gpu, slot.index);
    const gpu = this.#gpus[slot.gpu];
    // A slot that was to be one more and whose process cannot start lacks memory.
    const atFirst = gpu?.serversPerGpu ?? this.#options.serversPerGpu;
    const failed = !slot.snapshot && !this.#starting && slot.index >= atFirst;
    // A place that is reserved stays, and gets another process.
    const given = place.retired || (failed && place.reserved === 0n);
    if (gpu && !this.#stopping && given && gpu.places.at(-1) === place) {
      gpu.places.pop();
      if (failed) gpu.growLater();
      if (failed) slot.log.warn(`${how}: the GPU has no room for one more slot`);
      this.#events.onRetired(slot);
      return;
    }
    if (!slot.snapshot || this.#stopping) {
      this.#awaited.get(place)?.(null);
      this.#awaited.delete(place);
      place.addresses = slot.gpu;
    }
    place.comingFor ??= slot.tenant;
    if (!slot.snapshot) {
      place.failures++;
      place.comingFor = null;
      place.problem ||= `its process ended (${how}) while opening the device`;
    }
    this.#events.onExit(slot, how);
    if (this.#stopping) return this.#checkGone();
    if (this.#starting && place.bearable) {
      this.#replaceLater(place, how);
      return this.#checkStarted();
    }
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
      place.slot = this.#spawn(gpu, index, place.addresses);
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

  /** One after another: each GPU is asked by its first slot. Where that ends, so does the start. */
  async #measureAll() {
    for (const gpu of this.#gpus) if (gpu.awaitsMeasure) await gpu.measure();
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

const isWarm = ({ state }: Slot) => state === 'free';

/** In the words of the table, which know the GPU's number; other sentences are the executor's. */
function openingError(slot: Slot, code: string | null, message: string): OutboardError {
  switch (code) {
    case 'OB_DEVICE_HELD':
      return new OutboardError(code, slot.gpu);
    case 'OB_DEVICE_PROHIBITED':
      return new OutboardError(code, `GPU ${slot.gpu}`);
    case 'OB_DEVICE_GONE':
    case 'OB_DEVICE_FULL':
      return new OutboardError(code, slot.gpu, message);
    default:
      return (
        OutboardError.relayed(code, message) ??
        new OutboardError('OB_DEVICE_OPEN', slot.gpu, message)
      );
  }
}

function asLogged(error: unknown): object {
  return error instanceof OutboardError
    ? { code: error.code, remedy: error.remedy }
    : { err: error };
}
