// One session in an API server process, from the arrival of the connection to its end.
import { writeSync } from 'node:fs';
import { type ExpectedModule, encodeAnswer } from './control.js';
import type { Counters, SessionOffer, SessionResume } from './ipc.js';
import {
  type Away,
  counterNames,
  type DeviceHandle,
  type DeviceSnapshot,
  type KernelTime,
  kernelNameMost,
  type Native,
  type SessionEnd,
  type SessionHandle,
  type SessionTrace,
} from './native.js';
import { version } from './version.js';
import { type Window, windowChoices } from './window.js';

/** A refusal that the guest is to be told; the code is one of the monitor's error table. */
class Declined extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** A guest's connection, as the monitor has handed it over. */
export interface Connection {
  readonly fd: number;
  close(): void;
}

/** Uploads of so many bytes are worth asking for by hash: below, the round trip is. */
const uploadCacheFrom = 4n << 20n;

/** What memory comes in for guests that do not ask: WIRE_GRANULE of proto/wire/wire.h. */
const usualGranularity = 2n << 20n;
/** Of a session that has done nothing. */
const nothingUsed = { modules: [], learnt: new Uint8Array() };

/** Who hears of a session that has begun. */
export interface SessionEvents {
  /** It has used a module; perhaps after `onEnd`, as they come from different threads. */
  onUsed(session: bigint, module: ExpectedModule): void;
  /** Its guest was cut off, and for how long it is waited for; null: it is back. Perhaps after `onEnd`, too. */
  onAway(away: Away | null): void;
  /**
   * Its guest has gone, or it is to end. Not where it could not begin; perhaps after `onEnd`, as that comes by another
   * way.
   */
  onClosing(): void;
  /** It has moved here. */
  onArrived(): void;
  /** Called once, later, also where it could not begin. */
  onEnd(end: SessionEnd, counters: Counters): void;
}

export class SlotSession {
  readonly #native: Native;
  readonly #device: DeviceHandle;
  readonly #offer: SessionOffer;
  readonly #connection: Connection;
  #welcome: Buffer | undefined;
  #memoryLimit = 0n;
  #pinnedLimit = 0n;
  /** Where its memory lies. */
  window: Window = { base: 0n, size: 0n };
  #running: SessionHandle | undefined;
  #counters: BigUint64Array | undefined;

  constructor(native: Native, device: DeviceHandle, offer: SessionOffer, connection: Connection) {
    this.#native = native;
    this.#device = device;
    this.#offer = offer;
    this.#connection = connection;
  }

  /**
   * Chooses the window and makes the Welcome: everything that can fail for a reason that the guest is to be
   * told. Nothing is sent yet. Throws; an error with a `code` of the monitor's table is told as that.
   */
  prepare() {
    const snapshot = this.#native.snapshot(this.#device);
    this.#checkGranularity(snapshot.granularity);
    const window = this.#placeWindow(snapshot);
    this.window = window;
    const {
      session,
      memoryLimit,
      pinnedLimit,
      group,
      tickets,
      uploadCache,
      expected,
      learnt,
      comeback,
    } = this.#offer;
    const whole = (bytes: bigint) => bytes - (bytes % snapshot.granularity);
    this.#memoryLimit = whole(memoryLimit < window.size ? memoryLimit : window.size);
    this.#pinnedLimit = whole(pinnedLimit);
    const { attributes, limits, peers, driverVersion, ...device } = snapshot;
    this.#welcome = encodeAnswer({
      welcome: {
        session,
        driverVersion,
        // What a program may have is all that there is for it: it sizes itself by this.
        devices: [
          {
            ...device,
            totalMemory: this.#memoryLimit,
            attributes: [...attributes],
            limits: [...limits],
            peers: group === 0n ? [] : peers,
          },
        ],
        windowBase: window.base,
        windowSize: window.size,
        memoryLimit: this.#memoryLimit,
        serverVersion: version,
        tickets: [...tickets],
        uploadCache: uploadCache ? uploadCacheFrom : 0n,
        region: true,
        expected,
        pinnedMemory: this.#pinnedLimit,
        errorTexts: true,
        memoryRoom: true,
        shareEnds: true,
        lateUploads: true,
        streamOperations: snapshot.streamOperations,
        granularity: snapshot.granularity,
        cublas: snapshot.cublas,
        learnt: learnt.length > 0,
        ...(comeback ? { resumeSecret: comeback.secret, resumeSeconds: comeback.seconds } : {}),
      },
    });
  }

  #checkGranularity(granularity: bigint) {
    if (granularity === usualGranularity || this.#offer.takesGranularity) return;
    throw new Declined(
      'OB_GRANULARITY',
      `memory of this server's GPU comes in pieces of ${granularity >> 10n} KiB, which the guest library is too old for`,
    );
  }

  #placeWindow(snapshot: DeviceSnapshot): Window {
    const reserved = { base: snapshot.windowBase, size: snapshot.windowSize };
    const tried: string[] = [];
    const { arrives, windowBases, windowSize } = this.#offer;
    const choices = arrives
      ? windowBases.map((base) => ({ base, size: windowSize }))
      : windowChoices(reserved, this.#offer);
    for (const window of choices) {
      if (window.base === reserved.base && window.size <= reserved.size) return window;
      try {
        this.#native.moveWindow(this.#device, window.base, window.size);
        return window;
      } catch (error) {
        tried.push(`0x${window.base.toString(16)} (${(error as Error).message})`);
      }
    }
    throw new Declined(
      'OB_WINDOW',
      `no range of addresses can be held for device memory by guest and server alike; tried ${tried.join(', ')}`,
    );
  }

  /** Sends the Welcome and gives the connection to the executor, after `prepare` has succeeded. */
  begin({ onUsed, onAway, onClosing, onArrived, onEnd }: SessionEvents) {
    const { fd } = this.#connection;
    const welcomed = process.hrtime.bigint();
    let tls: SessionOffer['tls'] = null;
    try {
      if (!this.#offer.arrives) tls = this.#sendWelcome(fd, this.#welcome ?? Buffer.alloc(0));
    } catch (error) {
      this.#connection.close();
      const message = `the guest did not take the Welcome: ${(error as Error).message}`;
      const end: SessionEnd = { reason: 'closed', message, reusable: true, ...nothingUsed };
      queueMicrotask(() => onEnd(end, count(undefined)));
      return;
    }
    try {
      this.#running = this.#native.startSession(this.#device, {
        fd,
        leftover: this.#offer.leftover,
        tls,
        session: this.#offer.session,
        memoryLimit: this.#memoryLimit,
        pinnedLimit: this.#pinnedLimit,
        moduleLimit: this.#offer.moduleLimit,
        stackLimit: this.#offer.stackLimit,
        tenant: this.#offer.tenant,
        group: this.#offer.group,
        uploadCache: this.#offer.uploadCache,
        expected: this.#offer.expected,
        learnt: this.#offer.learnt,
        gated: this.#offer.gated,
        measured: this.#offer.measured,
        mostKernel: this.#offer.mostKernel,
        trace: this.#trace(welcomed),
        graceSeconds: this.#offer.comeback?.seconds ?? 0,
        onUsed: (module) => onUsed(this.#offer.session, module),
        onAway,
        onClosing,
        arrives: this.#offer.arrives,
        onArrived,
        onEnd: (end) => onEnd(end, count(this.#counters)),
      });
      this.#counters = this.#native.counters(this.#running);
    } catch (error) {
      const message = `the executor did not start: ${(error as Error).message}`;
      const end: SessionEnd = { reason: 'device', message, reusable: false, ...nothingUsed };
      queueMicrotask(() => onEnd(end, count(undefined)));
    } finally {
      tls?.state.fill(0);
      // The executor has a duplicate. This one must go, or the guest would never see the end.
      this.#connection.close();
    }
  }

  /** Throws where it cannot. Returns how a connection by TLS goes on behind it. */
  #sendWelcome(fd: number, welcome: Buffer): SessionOffer['tls'] {
    const given = this.#offer.tls;
    if (!given) {
      writeAll(fd, welcome);
      return null;
    }
    const { tls } = this.#native;
    const connection = tls?.restore(given.state);
    given.state.fill(0);
    if (!tls || !connection) throw new Error('its keys make no sense');
    try {
      writeAll(fd, tls.seal(connection, welcome, false));
      const state = tls.save(connection);
      if (!state) throw new Error('its connection by TLS has ended');
      return { state, unopened: given.unopened };
    } finally {
      tls.end(connection);
    }
  }

  #trace(welcomed: bigint): SessionTrace | null {
    const { trace } = this.#offer;
    if (!trace) return null;
    const placed = trace.marks.at(-1)?.to ?? welcomed;
    const handover = { name: 'handover', from: placed, to: welcomed };
    const welcome = { name: 'welcome', from: welcomed, to: process.hrtime.bigint() };
    return { ...trace, marks: [...trace.marks, handover, welcome] };
  }

  /**
   * Moves it to the process to which `link` leads, which is closed here. Of one that does not run it is said that it
   * stays.
   */
  move(link: Connection, onDone: (moved: boolean, why: string, stoppedNs: bigint) => void) {
    try {
      if (this.#running) this.#native.moveSession(this.#running, link.fd, onDone);
      else onDone(false, 'it does not run', 0n);
    } finally {
      link.close();
    }
  }

  /** As they are now; null before it runs. */
  counters(): Counters | null {
    return this.#counters ? count(this.#counters) : null;
  }

  /** What its kernels have cost, so far. */
  kernelTimes(): KernelTime[] {
    const times = this.#running ? this.#native.kernelTimes(this.#running) : [];
    return times.map(({ name, ...cost }) => ({ name: cut(name), ...cost }));
  }

  /** Lets go of a connection that was never begun; the monitor still has it. */
  cancel() {
    this.#connection.close();
  }

  /** The guest is back, on another connection, which is the executor's where this returns true. */
  resume({ session, epoch, received, tls }: SessionResume, fd: number): boolean {
    if (!this.#running || session !== this.#offer.session) return false;
    try {
      return this.#native.resumeSession(this.#running, fd, received, BigInt(epoch), tls);
    } catch {
      return false; // its keys make no sense
    } finally {
      tls?.state.fill(0);
    }
  }

  /** Ends a running session and returns true: `onEnd` follows. False when none is running. */
  stop(message: string): boolean {
    if (!this.#running) {
      this.cancel();
      return false;
    }
    this.#native.stopSession(this.#running, message);
    return true;
  }
}

/**
 * A few kilobytes at most, on a connection that has carried next to nothing: they fit into the
 * socket's buffer unless the guest has stopped reading altogether, which is an error (EAGAIN).
 */
function writeAll(fd: number, bytes: Uint8Array) {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}

function count(view: BigUint64Array | undefined): Counters {
  return Object.fromEntries(
    counterNames.map((name, index) => [name, view?.[index] ?? 0n]),
  ) as Counters;
}

/** What is no letter takes up to six bytes of a message, which has room for as many names as there are. */
function cut(name: string): string {
  const start = name.slice(0, kernelNameMost);
  const fits = Buffer.byteLength(JSON.stringify(start)) <= 2 * kernelNameMost;
  return fits ? start : start.slice(0, kernelNameMost / 4);
}
