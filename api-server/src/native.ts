// The whole border between TypeScript and the executor (C++): nothing else loads the addon. Plain
// data crosses, null stands for "none", every property is always there. No call here is on the data
// path: the executor owns the socket from startSession to the end.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { hindrances } from '../generated/hindrances.js';
import type { DeviceSensors, ExpectedModule, Peer } from './control.js';

/** One device of the driver library, opened: context retained, window reserved. Opaque. */
export type DeviceHandle = { readonly __device: unique symbol };
/** A session being served by the executor. Opaque. */
export type SessionHandle = { readonly __session: unique symbol };

export interface DeviceOptions {
  /** Path or name for dlopen: a libcuda.so.1. */
  library: string;
  /** Device ordinal in that library. */
  ordinal: number;
  /** 16 bytes: the device that is meant, whatever its ordinal has become; null: that of the ordinal. An
   * instance in MIG mode has that of the instance. */
  uuid: Uint8Array | null;
  /** Where the device window is wanted; null: WIRE_WINDOW_BASE. */
  windowBase: bigint | null;
  /** Bytes of the window; null: WIRE_WINDOW_SIZE, or less where the driver refuses that much. */
  windowSize: bigint | null;
  /** The slot's quota page, inherited from the monitor; null: nothing is ever held back. The caller
   * may close it afterwards. */
  quotaPageFd: number | null;
  /** The turn page of the GPU's slots, in the same way, and which of them this is; null: there is no other. */
  turnPageFd: number | null;
  slot: number;
  /** Where images of modules are kept on disk; null: nowhere. */
  moduleFolder: string | null;
  /** Bytes of them at most. */
  moduleBytes: bigint;
  /** Where uploads are kept on disk, those of each tenant by themselves; null: nowhere. */
  uploadFolder: string | null;
  /** Bytes of them at most, of each tenant. */
  uploadBytes: bigint;
  /** Of the host's memory, for images of a session's modules, and as much for those that are kept
   * for later sessions; null: a gibibyte. */
  imageBytes: bigint | null;
  /** The folder of cuBLAS and cuBLASLt, for sessions that call those whole; empty: where the dynamic linker
   * finds them; null: sessions get none. */
  libraries: string | null;
  /** Whether a handle of theirs is made ready before a session asks for one. */
  warmHandles: boolean;
}

/** What the Welcome tells a guest about the device. */
export interface DeviceSnapshot {
  name: string;
  /** 16 bytes. */
  uuid: Uint8Array;
  /** Of an instance in MIG mode: the UUID of its GPU, zeros where it is not known; null: it is a GPU. */
  gpuUuid: Uint8Array | null;
  /** Bytes. */
  totalMemory: bigint;
  /** Bytes free when the snapshot was taken. */
  freeMemory: bigint;
  /** Values by CUdevice_attribute; index 0 unused; attributes the driver refuses are 0. */
  attributes: Int32Array;
  /** Values by CUlimit; limits the driver refuses are 2 ** 64 - 1. */
  limits: BigUint64Array;
  leastPriority: number;
  greatestPriority: number;
  pciBusId: string;
  /** The driver's other devices whose memory its kernels may reach. */
  peers: Peer[];
  /** 13000 is CUDA 13.0. */
  driverVersion: number;
  windowBase: bigint;
  windowSize: bigint;
  /** That a stream takes before the driver keeps who puts one more there waiting; 0: any number. */
  streamOperations: number;
  /** Bytes that sizes and addresses of memory are multiples of: a power of two. */
  granularity: bigint;
  /** Version of cuBLAS that sessions may call, as 130002; 0: none. */
  cublas: number;
}

/** Something that was before the executor's session: nanoseconds of CLOCK_MONOTONIC, which is what
 * process.hrtime.bigint() tells; a moment, where both are the same. */
export interface TraceMark {
  name: string;
  from: bigint;
  to: bigint;
}

/** Where a session's trace is recorded (proto/wire/trace_ring.h). */
export interface SessionTrace {
  file: string;
  /** Bytes of events that it keeps; null: 64 MiB. */
  size: bigint | null;
  marks: TraceMark[];
}

/** A guest whose connection was cut: for how long, and for how long it is waited for still, in whole milliseconds. */
export interface Away {
  passedMs: number;
  leftMs: number;
}

export interface SessionOptions {
  /** A connected stream socket. The executor takes its own duplicate; the caller closes this one. */
  fd: number;
  /** Bytes already read from the socket behind the Hello. */
  leftover: Uint8Array;
  /** Of a connection by TLS, behind the Welcome: its state (TlsNative.save) and what was not opened; null: it is none. */
  tls: { state: Uint8Array; unopened: Uint8Array } | null;
  session: bigint;
  /** Bytes of device memory the session may map. */
  memoryLimit: bigint;
  /** Beside it: of pinned memory that kernels reach, before the rest counts towards the limit; for
   * code and variables of modules; and for stacks of kernels, before the rest counts. */
  pinnedLimit: bigint;
  moduleLimit: bigint;
  stackLimit: bigint;
  /** Whose it is: with sessions of the same tenant it may share memory. Empty: nobody's in
   * particular. */
  tenant: string;
  /** Which of the machine's programs it is of, where that has a session on several devices: those
   * may lend each other memory. 0: it is alone. */
  group: bigint;
  /** Whether it may ask for uploads by hash, where the device keeps any. */
  uploadCache: boolean;
  /** Modules to load at once, which the guest has been told of. */
  expected: readonly ExpectedModule[];
  /** What earlier sessions of the function have learnt of libraries, of which it has been told that it comes; empty:
   * nothing. */
  learnt: Uint8Array;
  /** How long a launch may take; one that takes longer ends the session, and the guest is told the
   * sentence and the kernel's name. Null: for ever. */
  mostKernel: { seconds: number; sentence: string } | null;
  /** Whether copies and fills are held back and measured like kernels. */
  gated: { copies: boolean; sets: boolean };
  /** Whether what is not held back is measured. */
  measured: boolean;
  /** How long its guest may be away after a cut; 0: it may not. */
  graceSeconds: number;
  /** Null: nothing is recorded. A file that cannot be written is a line in the log. */
  trace: SessionTrace | null;
  /** Called for each module that it uses, once. */
  onUsed: (module: ExpectedModule) => void;
  /** Called when the guest's connection was cut, when it is waited for for longer or shorter than was said, and, with
   * null, when it is back. */
  onAway: (away: Away | null) => void;
  /** Called once, when the guest has gone or the session is to end: what it has is given back from now on. */
  onClosing: () => void;
  /** The connection leads to a session in another process, which moves here: with its first byte comes the
   * guest's. Called once it is here. */
  arrives: boolean;
  onArrived: () => void;
  /** Called once, when the session is over and everything it owned is released and scrubbed. */
  onEnd: (end: SessionEnd) => void;
}

export interface SessionEnd {
  /** 'moved': it goes on in another process; 'closed': the guest went away; 'violation': it sent what it must not; 'device': the context is
   * beyond repair; 'stopped': stopSession; 'limit': a launch has taken longer than it may. */
  reason: 'closed' | 'violation' | 'device' | 'stopped' | 'limit' | 'moved';
  /** One sentence for the log. */
  message: string;
  /** Whether the device context is clean and may serve another session. */
  reusable: boolean;
  /** Modules that it used, as its program's next session may expect them. */
  modules: ExpectedModule[];
  /** What it and those before it have learnt of libraries, for the next one; empty: it has called none. */
  learnt: Uint8Array;
}

/** Bytes of that, at most (learnt_calls.h of the executor). */
export const learntMost = 24 << 10;

/**
 * Counters of a session, in the order they lie in memory as 64-bit numbers. The buffer is the
 * executor's own memory: reading it costs no call.
 */
export const counterNames = [
  'commands',
  'roundTrips',
  'bytesIn',
  'bytesOut',
  'launches',
  'uploads',
  'downloads',
  'memoryMapped',
  'memoryMappedPeak',
  'modules',
  'faults',
  'violations',
  'moduleMemory',
  'cachedUploads',
  'cachedBytes',
  'pinnedMemory',
  'hindrances',
  'librariesRefused',
] as const;
export type CounterName = (typeof counterNames)[number];

/** What keeps a session from going on on another GPU, by the counter `hindrances` (docs/moving.md). */
export function hindrancesOf(bits: bigint): string[] {
  return hindrances.filter((_, bit) => (bits >> BigInt(bit)) & 1n).map(({ name }) => name);
}

/** Kernels that are told of, and characters of a name that leaves the process. */
export const kernelsMost = 100;
export const kernelNameMost = 16 << 10;

/** What launches of one kernel have cost. */
export interface KernelTime {
  /** As the module has it, mangled; `[copy]` and `[set]` for what is gated beside kernels. */
  name: string;
  launches: bigint;
  blocks: bigint;
  /** Of the device's time: of all launches but those that are `unmeasured`. */
  ns: bigint;
  /** Launches whose cost nobody has measured. */
  unmeasured: bigint;
}

/** What the machine's own NVML says of a device. */
export interface NvmlFacts {
  /** NVIDIA's own number of its driver. */
  nvidiaDriver: string;
  nvmlVersion: string;
  sensors: DeviceSensors;
}

/** A device as its driver describes it. Memory is in bytes. */
export interface OfferedDevice {
  name: string;
  pciBusId: string;
  uuid: number[];
  /** Of an instance in MIG mode: the UUID of its GPU, zeros where it is not known; null: it is a GPU. */
  gpuUuid: number[] | null;
  /** CUcomputemode. */
  computeMode: number;
  computeCapability: string;
  multiprocessors: number;
  clockKilohertz: number;
  memory: number;
}

/** A GPU of the machine as its NVML has it, whatever a process sees by CUDA. */
export interface MachineGpu {
  /** GPU-... */
  uuid: string;
  /** Whether it is in MIG mode: then only its instances are devices of CUDA. */
  mig: boolean;
  /** UUIDs of those that there are: MIG-... */
  instances: string[];
}

/** What a server shows to its guests (tls/). Opaque. */
export type TlsServer = { readonly __tlsServer: unique symbol };
/** One connection by TLS. Opaque. */
export type TlsConnection = { readonly __tlsConnection: unique symbol };

/** TLS 1.3 of a server: bytes in, bytes out. What fails is a number of tls/include/outboard_tls.h; 0: nothing. */
export interface TlsNative {
  /** Files in PEM; without `ca` guests are not asked for a certificate. A number: what is wrong with them. */
  server(files: { cert: Uint8Array; key: Uint8Array; ca: Uint8Array | null }): TlsServer | number;
  accept(server: TlsServer): TlsConnection;
  /** One step of a handshake, with all that has come and was not used, which is changed. `out` is to be sent, also
   * after a failure. */
  shake(
    connection: TlsConnection,
    bytes: Uint8Array,
  ): { used: number; out: Uint8Array; done: boolean; failure: number };
  /** The guest's certificate, in DER, and what there is to say against it; null: it showed none. */
  shown(connection: TlsConnection): { certificate: Uint8Array; judgement: number } | null;
  /** Where the connection is, by which another process goes on with it; null: it has ended. */
  save(connection: TlsConnection): Uint8Array | null;
  /** Null: that is no state. */
  restore(state: Uint8Array): TlsConnection | null;
  /** Opens the whole records in `bytes`, which is changed. */
  open(
    connection: TlsConnection,
    bytes: Uint8Array,
  ): { data: Uint8Array; used: number; failure: number };
  /** `last`: and says that no more is sent. Throws where nothing can be sent any more. */
  seal(connection: TlsConnection, bytes: Uint8Array, last: boolean): Uint8Array;
  /** Forgets its keys. It cannot be used any more. */
  end(connection: TlsConnection): void;
}

export interface Native {
  /** Null where the addon was built without TLS. */
  tls: TlsNative | null;
  /** Throws an Error whose `code` is an OB_ code (errors.ts) and whose message says what to do. */
  openDevice(options: DeviceOptions): DeviceHandle;
  snapshot(device: DeviceHandle): DeviceSnapshot;
  closeDevice(device: DeviceHandle): void;
  /** Moves the window; only between sessions. Throws when the driver cannot. */
  moveWindow(device: DeviceHandle, base: bigint, size: bigint): void;
  /** One at a time per device. Standard output of the process is the executor's from openDevice on. */
  startSession(device: DeviceHandle, options: SessionOptions): SessionHandle;
  /** Hands in another connection of its guest, after a cut, that has `received` bytes; it is the
   * executor's where this returns true. */
  resumeSession(
    session: SessionHandle,
    fd: number,
    received: bigint,
    epoch: bigint,
    tls: SessionOptions['tls'],
  ): boolean;
  /** Ends the session from the server's side: the guest is told why. onEnd follows. */
  stopSession(session: SessionHandle, message: string): void;
  /** Moves the session to another process: `link` leads to a session there that arrives; the caller closes it.
   * `onDone` is called once; `why` is the end of a sentence, where it has not moved; `stoppedNs`: for how
   * long its commands were not carried out. */
  moveSession(
    session: SessionHandle,
    link: number,
    onDone: (moved: boolean, why: string, stoppedNs: bigint) => void,
  ): void;
  /** A view over the live counters (counterNames), valid as long as the buffer is held. */
  counters(session: SessionHandle): BigUint64Array;
  /** The dearest kernels of a session, at most kernelsMost, dearest first; also after its end. What was
   * measured: launches of the last milliseconds may be missing. */
  kernelTimes(session: SessionHandle): KernelTime[];
  /** What a driver library offers, asked without opening a device. */
  offeredDevices(library: string): OfferedDevice[];
  /** Null where there is no such library. What instances there are is asked once: NVML does not notice
   * while it is open that some are destroyed. */
  machineGpus(library: string): MachineGpu[] | null;
  /** Null where there is no such library, or it does not know the device (GPU-..., MIG-...). */
  nvmlFacts(library: string, uuid: string): NvmlFacts | null;

  /** As sd_notify(3): tells systemd's socket (NOTIFY_SOCKET) something; false when it cannot be told. */
  notify(socket: string, message: string): boolean;

  /** Both ends of a socket that has no name: of messages, by which connections are handed over, or of
   * bytes. The caller closes them. */
  socketPair(kind: 'messages' | 'bytes'): { here: number; there: number };
  /** Whether the other end can receive it; false, too, where that one takes none. Never waits. */
  sendDescriptor(end: number, descriptor: number): boolean;
  /** The next one, the caller's to close; null where none has come. */
  receiveDescriptor(end: number): number | null;

  /** Whether processes that are started from now on map memory from a third of the address space up, instead of from its
   * top down as programs that are served do, whose memory the addresses of modules' variables must not meet. False: the
   * kernel, or a filter of system calls, has it otherwise. */
  mapFromBelow(on: boolean): boolean;

  /** A new page in a memory file; quota-page.ts says what is in it. The caller closes `fd`, once
   * every process that is to inherit it has started. */
  createQuotaPage(): { fd: number; buffer: ArrayBuffer };
  /** The page in an inherited memory file; `fd` stays the caller's. */
  openQuotaPage(fd: number): ArrayBuffer;
  /** After what may open the gate: counts up the wake word and wakes who waits on it. */
  wakeQuotaPage(buffer: ArrayBuffer): void;
  /** A new page in a memory file, by which the slots of a GPU take turns. The caller closes `fd`, once
   * every process that is to inherit it has started. */
  createTurnPage(): { fd: number; buffer: ArrayBuffer };
  /** The slot's process has ended: it waits for no turn, and has none. */
  leaveTurns(buffer: ArrayBuffer, slot: number): void;
}

/** Loads the addon from the build folder; the error says what was tried and what to do. */
export function loadNative(buildFolder: string): Native {
  const file = path.join(buildFolder, 'api-server', 'executor.node');
  if (!existsSync(file)) {
    throw new Error(`the executor is not built: ${file} does not exist. Run \`npm run build\`.`);
  }
  return createRequire(import.meta.url)(file) as Native;
}
