// One slot's API server process, seen from the monitor: started, warm, busy, ended. Another one
// takes its place when it has ended (pool.ts).
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { Channel } from '../../../api-server/src/channel.js';
import type { ExpectedModule } from '../../../api-server/src/control.js';
import {
  type Counters,
  type FromSlot,
  type SessionOffer,
  type SessionResume,
  slotFds,
  type ToSlot,
  type Warm,
} from '../../../api-server/src/ipc.js';
import { longestMessage, usualMessage } from '../../../api-server/src/message.js';
import type {
  Away,
  DeviceSnapshot,
  KernelTime,
  Native,
  NvmlFacts,
  SessionEnd,
} from '../../../api-server/src/native.js';
import { QuotaPage } from '../../../api-server/src/quota-page.js';
import type { SocketHandle } from '../../../api-server/src/socket-handle.js';
import { programs } from '../../../bin/paths.mjs';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import { type Usage, usageOf } from '../base/usage.js';
import type { CacheFolder } from './cache-folder.js';
import type { Sandbox } from './sandbox.js';
import { SlotLog } from './slot-log.js';
import { asWord } from './slot-word.js';
import type { TurnPage } from './turn-page.js';
import { mostModules } from './usual-modules.js';

const main = path.join(programs, 'api-server', 'src', 'main.js');

/** How long a process that should end by itself may take before it is killed. */
const endSeconds = 10;
/** How long a session that is told to end may take before its process is killed. */
const stopSeconds = 3;
/**
 * How long a session may take to end once its guest has gone: the executor waits ten seconds for its work and as long
 * for the rest.
 */
const closingSeconds = 60;
/** How long a process may take to start: opening a device takes seconds, and meanwhile it answers nothing. */
const startSeconds = 120;
/**
 * How often a process may say of each connection whether its guest is away: it says that it was cut, that this was by
 * silence, and that another one came, and may cross itself.
 */
const tellsOfCut = 8;
/** So long after the end of a process what it has said may come, where others have its pipe open. */
const lastWordSeconds = 1;

export interface SlotOptions {
  gpu: number;
  index: number;
  /** Slot.addresses. */
  addresses: number;
  build: string;
  library: string;
  /** The device, among those that the process sees. */
  ordinal: number;
  uuid: Uint8Array | null;
  env: NodeJS.ProcessEnv;
  /** The sandbox that the process is started in; null: none. */
  sandbox: Sandbox | null;
  native: Native;
  /** Where modules and uploads are kept on disk; null: nowhere. */
  modules: CacheFolder | null;
  uploads: CacheFolder | null;
  /** Of all slots of the GPU. */
  turns: TurnPage;
  /** Of the machine's memory, for images of modules. */
  imageBytes: bigint;
  /** The folder of the libraries that sessions may call whole; null: none. */
  libraries: string | null;
  warm: Warm;
}

export interface SlotEvents {
  /** The device is open and the context warm. */
  onReady(slot: Slot): void;
  /** The device cannot be opened; `onExit` follows. */
  onFailed(slot: Slot, code: string | null, message: string): void;
  /** The process is ready for the session that was offered: `begin` may be called. */
  onPrepared(slot: Slot): void;
  /** The process cannot take the session that was offered; the slot is free again. */
  onDeclined(slot: Slot, code: string | null, message: string): void;
  /** Its session, which may be over by now, has used a module that the program's next one may expect. */
  onUsed(slot: Slot, session: bigint, module: ExpectedModule): void;
  /** The guest of its session has gone, or that is to end: what it has is being given back. */
  onClosing(slot: Slot): void;
  /** The session that it was offered to take over from another process is here. */
  onArrived(slot: Slot): void;
  /** Its session was to move: it is another process's now, and has stood still for so long; or it stays, and why. */
  onMoved(slot: Slot, stoppedMs: number): void;
  onStays(slot: Slot, why: string): void;
  /** The session is over. The slot is free again, or `onExit` follows. */
  onEnded(slot: Slot, end: SessionEnd, counters: Counters): void;
  /** Last of all. */
  onExit(slot: Slot, how: string): void;
}

/** What a slot costs while it waits, measured. */
interface Idle {
  since: number;
  begin: Usage;
}

export class Slot {
  readonly gpu: number;
  readonly index: number;
  /** Of the first context's memory, on the software device: of this number's own (SOFTWARE_DEVICE_PLACE). */
  readonly addresses: number;
  readonly log: Log;
  /** leaving: it has been told to end, and a process that has served nobody takes its place. */
  state: 'starting' | 'free' | 'busy' | 'leaving' | 'ended' = 'starting';
  /** Whose sessions it has served; null: nobody's. */
  tenant: string | null = null;
  snapshot: DeviceSnapshot | undefined;
  /** From the start of the process until its context was warm. */
  startSeconds: number | null = null;
  /** Sessions it has served. */
  served = 0;
  /** Where its session has its memory, once it is prepared. */
  window = { base: 0n, size: 0n };
  /** Of the session that runs in it, a second old at most. */
  counters: Counters | null = null;
  /** Since when its session's guest is away, whose connection was cut, and until when it is waited for; null: it is not. */
  away: { since: Date; until: Date } | null = null;
  /** Through it the quota policy tells the gate of the process what may start. A new process has a new one. */
  readonly quotaPage: QuotaPage;
  readonly #turnPage: TurnPage;
  readonly #native: Native;
  readonly #begun = performance.now();
  #idle: Idle | undefined;
  #pinged: number | undefined;
  #suspected = false;
  /** Where memory is short; false: this system does not let us say so. */
  #diesFirst = false;
  #unruly = false;
  #hung = false;
  #spoiled = false;
  #senseless = false;
  #failed = false;
  readonly #child: ChildProcess;
  readonly #channel: Channel;
  /** The monitor's end of the socket through which the process gets connections. Nothing is read from it. */
  readonly #connections: number;
  readonly #log: SlotLog;
  readonly #events: SlotEvents;
  /** What it may say of its session next. */
  #next: 'prepared' | 'ended' | null = null;
  /** Whether it may say that its session has arrived, and whether that it has moved or stays. */
  #mayArrive = false;
  #mayMove = false;
  /** Whether it has said that its session is closing. */
  #closing = false;
  /** How often it may still say whether its session's guest is away. */
  #mayTellAway = 0;
  /** How many modules it has told of, of the session that it served last. */
  #used = 0;
  /** What it was asked to measure and has not said yet. */
  #measuring: Promise<bigint | null> | null = null;
  #measured: ((free: bigint | null) => void) | null = null;
  #kernels: ((kernels: KernelTime[]) => void)[] = [];
  #looking: (() => void)[] = [];
  #nvml: ((facts: NvmlFacts | null) => void)[] = [];
  /** How the process has ended; null: it has not. */
  #how: string | null = null;
  #lastWord: NodeJS.Timeout | undefined;
  /** Whether nothing comes from it any more. */
  #isSilent = false;
  /** Kills it, then. */
  #timer: NodeJS.Timeout | undefined;
  #killedAt = 0;

  constructor(options: SlotOptions, events: SlotEvents, log: Log) {
    const { gpu, index, build, library, ordinal, uuid, native, modules, uploads, imageBytes } =
      options;
    this.gpu = gpu;
    this.index = index;
    this.addresses = options.addresses;
    this.#events = events;
    this.#turnPage = options.turns;
    this.#native = native;
    const { quotaPage, connections, child } = startProcess(options, log);
    this.quotaPage = quotaPage;
    this.#connections = connections;
    this.#child = child;
    if (this.#child.pid !== undefined) this.#diesFirst = diesFirst(this.#child.pid);
    this.log = log.child({ slot: `${gpu}.${index}`, slotPid: this.#child.pid });
    this.#child.once('error', (error) => this.#exited(error.message));
    this.#child.once('exit', (code, signal) => {
      this.#how = signal ? `killed by ${signal}` : `exit code ${code}`;
      // What it has said last may come after that.
      if (this.#isSilent) this.#exited(this.#how);
      else this.#lastWord = setTimeout(() => this.#exited(this.#how ?? ''), lastWordSeconds * 1000);
    });
    const [, , stderr, channel] = this.#child.stdio;
    this.#log = new SlotLog(stderr as Readable, this.log);
    this.#channel = new Channel(channel as Duplex, {
      onMessage: (message, bytes) => this.#receive(asWord(message), bytes),
      most: () => (this.#hasMuchToSay ? longestMessage : usualMessage),
      onOver: (wrong) => this.#gone(wrong),
    });
    const kept = {
      moduleFolder: modules?.folder ?? null,
      moduleBytes: modules?.bytes ?? 0n,
      uploadFolder: uploads?.folder ?? null,
      uploadBytes: uploads?.bytes ?? 0n,
      imageBytes,
      libraries: options.libraries,
      warm: options.warm,
    };
    this.#send({
      type: 'open',
      build,
      library,
      ordinal,
      uuid,
      quotaPageFd: slotFds.quotaPage,
      turnPageFd: slotFds.turnPage,
      slot: index,
      ...kept,
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** What the process takes now; `idleCpu` is processor seconds per second since it is free. */
  usage(): { memory: number | null; idleCpu: number | null } {
    const now = this.pid === undefined ? null : usageOf(this.pid);
    const seconds = this.#idle ? (performance.now() - this.#idle.since) / 1000 : 0;
    const idleCpu = now && this.#idle && seconds >= 1 ? now.cpu - this.#idle.begin.cpu : null;
    return {
      memory: now?.memory ?? null,
      idleCpu: idleCpu === null ? null : idleCpu / seconds,
    };
  }

  /**
   * Asks the process for a sign of life, and kills it when it has not given one for so long. Every
   * state is watched: one that starts, one that waits, one that serves.
   */
  watch(hangSeconds: number) {
    if (this.state === 'ended' || this.state === 'leaving' || this.#hung) return;
    if (this.#diesFirst && this.pid !== undefined && diesLater(this.pid)) {
      this.#diesFirst = false;
      this.#unruly = true;
      this.log.error(
        'the API server process has changed that it goes first where memory is short: killed',
      );
      return this.kill();
    }
    const now = performance.now();
    if (this.state === 'starting') {
      if (now - this.#begun > startSeconds * 1000) this.#hang('has not opened its device', now);
      return;
    }
    if (this.#pinged === undefined) {
      this.#pinged = now;
      this.#send({ type: 'ping' });
    } else if (now - this.#pinged > hangSeconds * 1000) {
      // Where this process was late itself, the answer may have come and not been read.
      if (this.#suspected) this.#hang('hangs', this.#pinged);
      this.#suspected = true;
    }
  }

  #hang(what: string, since: number) {
    this.#hung = true;
    const seconds = Math.round((performance.now() - since) / 1000);
    this.log.error({ seconds }, `the API server process ${what}: killed`);
    this.kill();
  }

  /** Bytes of the GPU that are free now; null when the process ends before it answers. Asks once at a time. */
  measure(): Promise<bigint | null> {
    if (this.state === 'ended') return Promise.resolve(null);
    this.#measuring ??= new Promise((resolve) => {
      this.#measured = resolve;
      this.#send({ type: 'measure' });
    });
    return this.#measuring;
  }

  /** Resolves when `counters` are as they are now, or the process has ended. */
  look(): Promise<void> {
    return new Promise((resolve) => {
      if (this.state === 'ended') return resolve();
      this.#looking.push(resolve);
      if (this.#pinged !== undefined) return;
      this.#pinged = performance.now();
      this.#send({ type: 'ping' });
    });
  }

  /** What the kernels of its session have cost; nothing when the process ends meanwhile. */
  kernels(): Promise<KernelTime[]> {
    return new Promise((resolve) => {
      if (this.state === 'ended') return resolve([]);
      this.#kernels.push(resolve);
      this.#send({ type: 'kernels' });
    });
  }

  /** What the machine's own NVML says of its device; null when the process ends meanwhile. */
  nvml(library: string, uuid: string): Promise<NvmlFacts | null> {
    return new Promise((resolve) => {
      if (this.state !== 'free' && this.state !== 'busy') return resolve(null);
      this.#nvml.push(resolve);
      this.#send({ type: 'nvml', library, uuid });
    });
  }

  /** Ends the session that has begun, and tells its guest `message`: `onEnded` or `onExit` follows soon. */
  end(message: string) {
    if (this.state !== 'busy') return;
    this.#send({ type: 'end', message });
    this.#killAfter(stopSeconds);
  }

  /** Ends the session, if any, and the process, by force after `seconds`. */
  stop(message: string, seconds: number) {
    if (this.state === 'ended') return;
    if (this.state === 'leaving') this.state = 'free';
    this.#send({ type: 'stop', message });
    this.#killAfter(seconds);
  }

  /** Ends the process, because its place is wanted for another tenant than it has served, or for `why`. */
  renew(why = 'another tenant comes') {
    this.#renewedWhy = why;
    this.state = 'leaving';
    this.#send({ type: 'stop', message: '' });
    this.#killAfter(stopSeconds);
  }

  /** Whether the process has ended because of `renew`. */
  renewed = false;
  #renewedWhy = '';

  /** Ends the process at once, by force: `onExit` follows. */
  kill() {
    this.#child.kill('SIGKILL');
  }

  /**
   * Offers a session to the process, which has to be free: sends it the offer and a descriptor of the
   * client's connection. `onPrepared`, `onDeclined` or, where the process ends, `onExit` follows.
   */
  offer(offer: SessionOffer, handle: Pick<SocketHandle, 'fd'>) {
    this.state = 'busy';
    this.#idle = undefined;
    this.counters = null;
    this.served++;
    this.tenant = offer.tenant;
    const whose = this.tenant === '' ? {} : { tenant: this.tenant };
    this.#log.log = this.log.child({ session: Number(offer.session), ...whose });
    this.#next = 'prepared';
    this.#mayArrive = offer.arrives;
    this.#mayMove = false;
    this.away = null;
    this.#mayTellAway = offer.comeback ? tellsOfCut : 0;
    this.#used = 0;
    if (!this.#native.sendDescriptor(this.#connections, handle.fd)) {
      // It has ended, of which 'exit' tells; or it takes none, and is of no use.
      this.log.error('the API server process takes no connection: killed');
      return this.kill();
    }
    this.#send(offer);
  }

  /** Tells a prepared process to begin: the monitor has let go of the connection. `onEnded` or `onExit` follows. */
  begin() {
    this.#next = 'ended';
    this.#closing = false;
    this.#send({ type: 'begin' });
  }

  /**
   * Has its session, which has begun, move to the process to which `link` leads, the caller's to close. `onMoved`,
   * `onStays` or, where the process or the session ends, nothing of that follows. False: it cannot be told.
   */
  move(link: number): boolean {
    if (this.state !== 'busy' || this.#next !== 'ended' || this.#mayMove) return false;
    if (!this.#native.sendDescriptor(this.#connections, link)) return false;
    this.#mayMove = true;
    this.#send({ type: 'move' });
    return true;
  }

  /** Hands the process another connection of its session's guest. False: it takes none. */
  resume(resume: SessionResume, handle: SocketHandle): boolean {
    if (this.state !== 'busy' || this.#next !== 'ended') return false;
    if (!this.#native.sendDescriptor(this.#connections, handle.fd)) return false;
    this.#mayTellAway += tellsOfCut;
    this.#send(resume);
    return true;
  }

  /** Throws where the process was not asked for this, so that it cannot send well-formed messages for ever. */
  #receive(message: FromSlot, bytes: number) {
    const mayBeLong = message.type === 'ready' || message.type === 'kernels';
    if (bytes > usualMessage.bytes && !mayBeLong)
      throw new Error(`'${message.type}' has ${bytes} bytes`);
    switch (message.type) {
      case 'ready':
        this.#expects(this.state === 'starting' && !this.#failed, message);
        this.snapshot = message.snapshot;
        this.startSeconds = (performance.now() - this.#begun) / 1000;
        this.#free();
        return this.#events.onReady(this);
      case 'failed':
        this.#expects(this.state === 'starting' && !this.#failed, message);
        this.#failed = true;
        this.#killAfter(endSeconds);
        return this.#events.onFailed(this, message.code, message.message);
      case 'measured':
        this.#expects(this.#measured !== null, message);
        return this.#tellMeasured(message.freeMemory);
      case 'pong':
        this.#expects(this.#pinged !== undefined, message);
        this.#pinged = undefined;
        this.#suspected = false;
        if (message.counters) this.counters = message.counters;
        for (const resolve of this.#looking.splice(0)) resolve();
        return;
      case 'kernels':
        return this.#asker(this.#kernels, message)(message.kernels);
      case 'nvml':
        return this.#asker(this.#nvml, message)(message.facts);
      case 'prepared':
        this.#expects(this.#next === 'prepared', message);
        this.#next = null;
        this.window = { base: message.windowBase, size: message.windowSize };
        return this.#events.onPrepared(this);
      case 'declined':
        this.#expects(this.#next === 'prepared', message);
        this.#free();
        return this.#events.onDeclined(this, message.code, message.message);
      case 'used':
        this.#expects(this.served > 0 && this.#used < mostModules, message);
        this.#used++;
        return this.#events.onUsed(this, message.session, message.module);
      case 'away':
        this.#expects(this.#next === 'ended' && this.#mayTellAway > 0, message);
        this.#mayTellAway--;
        this.away = message.away && fromNow(message.away);
        return;
      case 'closing':
        this.#expects(this.#next === 'ended' && !this.#closing, message);
        this.#closing = true;
        this.#killAfter(closingSeconds);
        return this.#events.onClosing(this);
      case 'arrived':
        this.#expects(this.#next === 'ended' && this.#mayArrive, message);
        this.#mayArrive = false;
        return this.#events.onArrived(this);
      case 'moved':
        this.#expects(this.#mayMove, message);
        this.#mayMove = false;
        return this.#events.onMoved(this, Number(message.stoppedNs) / 1e6);
      case 'stays':
        this.#expects(this.#mayMove, message);
        this.#mayMove = false;
        return this.#events.onStays(this, message.why);
      case 'ended':
        this.#expects(this.#next === 'ended', message);
        this.#next = null;
        this.away = null;
        this.counters = message.counters;
        this.#spare();
        if (message.end.reusable) {
          this.#free();
        } else {
          this.#spoiled = true;
          this.kill();
        }
        return this.#events.onEnded(this, message.end, message.counters);
    }
  }

  /** While a long message is read, nobody else is served: only `ready` and `kernels` may be long. */
  get #hasMuchToSay(): boolean {
    return this.state === 'starting' || this.#kernels.length > 0;
  }

  #expects(asked: boolean, { type }: FromSlot) {
    if (!asked) throw new Error(`'${type}' was not asked for`);
  }

  #asker<T>(waiting: T[], message: FromSlot): T {
    const first = waiting.shift();
    if (first === undefined) throw new Error(`'${message.type}' was not asked for`);
    return first;
  }

  #tellMeasured(free: bigint | null) {
    this.#measured?.(free);
    this.#measured = null;
    this.#measuring = null;
  }

  #free() {
    this.state = 'free';
    this.#next = null;
    this.#log.log = this.log;
    const begin = this.pid === undefined ? null : usageOf(this.pid);
    this.#idle = begin ? { since: performance.now(), begin } : undefined;
  }

  #send(message: ToSlot) {
    // An error here means that the process is gone, of which 'exit' tells.
    this.#channel.send(message, (error) => {
      if (error) this.log.debug({ err: error }, `cannot send ${message.type}`);
    });
  }

  /** The channel is closed; `wrong`: what made no sense in it. The process is killed, all others go on. */
  #gone(wrong: Error | null) {
    if (wrong) {
      this.log.error({ err: wrong }, 'what the process says makes no sense: it is ended');
      this.#senseless = true;
    }
    this.#isSilent = true;
    if (this.#how === null) this.kill();
    else this.#exited(this.#how);
  }

  /** Unless it is killed before that anyhow. */
  #killAfter(seconds: number) {
    const at = performance.now() + seconds * 1000;
    if (this.#timer && this.#killedAt <= at) return;
    this.#spare();
    this.#killedAt = at;
    this.#timer = setTimeout(() => {
      this.log.warn('does not end by itself: killed');
      this.kill();
    }, seconds * 1000);
  }

  #spare() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #exited(how: string) {
    if (this.state === 'ended') return;
    clearTimeout(this.#lastWord);
    this.#spare();
    this.renewed = this.state === 'leaving';
    this.state = 'ended';
    this.#turnPage.leave(this.index);
    if (this.quotaPage.fd !== null) closeSync(this.quotaPage.fd);
    closeSync(this.#connections);
    this.#channel.close();
    this.#log.end();
    if (this.#senseless) how = 'what it said makes no sense';
    else if (this.#unruly) how = 'it had put itself behind others where memory is short';
    else if (this.#hung) how = 'it hung';
    else if (this.renewed) how = this.#renewedWhy;
    else if (this.#spoiled) how = 'its session left what only a new process is without';
    this.#tellMeasured(null);
    for (const resolve of this.#looking.splice(0)) resolve();
    for (const resolve of this.#kernels.splice(0)) resolve([]);
    for (const resolve of this.#nvml.splice(0)) resolve(null);
    this.#events.onExit(this, how);
  }
}

function fromNow({ passedMs, leftMs }: Away) {
  const now = Date.now();
  return { since: new Date(now - passedMs), until: new Date(now + leftMs) };
}

const diesFirstScore = 500;

/** Where the machine's memory runs out, the kernel ends this process before the server, which replaces it. */
function diesFirst(pid: number): boolean {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, `${diesFirstScore}`);
    return true;
  } catch {
    // It has ended already, or this system does not know that.
    return false;
  }
}

/** Whether it has taken that back, as one can that a tenant has taken over, where the server is not root. */
function diesLater(pid: number): boolean {
  try {
    return Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8')) < diesFirstScore;
  } catch {
    return false;
  }
}

/** Said once. */
let saidLayout = false;

function mappedFromBelow<T>(native: Native, log: Log, start: () => T): T {
  if (!native.mapFromBelow(true) && !saidLayout) {
    saidLayout = true;
    log.warn(
      'slots have the usual layout of addresses, as personality(2) is refused here: variables of modules may lie where a program has memory of its own, and calls that take addresses of both take it for the variable',
    );
  }
  try {
    return start();
  } finally {
    native.mapFromBelow(false);
  }
}

/** Throws OB_SLOT_START, with nothing left open. */
function startProcess({ gpu, index, env, sandbox, native, turns }: SlotOptions, log: Log) {
  const opened: number[] = [];
  try {
    const quotaPage = QuotaPage.create(native);
    if (quotaPage.fd !== null) opened.push(quotaPage.fd);
    const { here, there } = native.socketPair('messages');
    opened.push(here, there);
    const [command, before] = sandbox ? [sandbox.command, sandbox.args] : [process.execPath, []];
    const start = () =>
      // In the order of slotFds.
      spawn(command, [...before, '--enable-source-maps', main], {
        env,
        stdio: ['ignore', 'ignore', 'pipe', 'pipe', there, quotaPage.fd, turns.fd],
      });
    const child = mappedFromBelow(native, log, start);
    // Where no descriptors are left, the child has no pipes, and its `error` event comes only later.
    if (!child.stdio) {
      child.once('error', () => {});
      throw new Error('no descriptors are left for its pipes');
    }
    closeSync(there);
    return { quotaPage, connections: here, child };
  } catch (error) {
    for (const fd of opened) closeSync(fd);
    throw new OutboardError('OB_SLOT_START', `${gpu}.${index}`, (error as Error).message);
  }
}
