// The control messages of proto/control.proto and the preface each stands behind: what a session
// begins with. Both processes of the server use it, and tests play the guest with it.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import protobuf from 'protobufjs';
import { root } from '../../bin/paths.mjs';

/** As in proto/wire/wire.h; a test compares. */
export const wire = {
  protocol: 2,
  magic: Buffer.from('OUTBOARD', 'latin1'),
  prefaceBytes: 16,
  controlMax: 65536,
  granule: 2n << 20n,
  /** GPUs that one program can have: a guest takes no more tickets (proto/control.options). */
  devicesMost: 8,
} as const;

export interface Hello {
  program: string;
  pid: number;
  host: string;
  guestVersion: string;
  /** 0: one. */
  devices: number;
  /** Bytes; 0: what a slot gives. */
  memory: bigint;
  /** Percent; 0: none asked. */
  shareRequest: number;
  shareLimit: number;
  token: string;
  /** Best first. */
  windowBases: bigint[];
  windowSize: bigint;
  /** Of the function; empty: the program's. */
  name: string;
  /** latency-strict or best-effort; empty: what its tenant usually gets. */
  sessionClass: string;
  /** Part of the names of its GPUs, in small or capital letters; empty: any. */
  gpuModel: string;
  /** W3C trace context; empty: none. */
  traceparent: string;
  /** No session is wanted, only a report; null: a session is. */
  query: DeviceQuery | null;
  /** Of a Welcome: it comes for another GPU of that session's program; empty: for itself. */
  ticket: string;
  /** Whether modules may be loaded for it before it asks. */
  expectsModules: boolean;
  /** Whether it goes by Welcome.granularity; else memory comes in pieces of 2 MiB for it. */
  takesGranularity: boolean;
  /** Whether it may be told unasked what was learnt of libraries. */
  takesLearnt: boolean;
  /** Whether it can come back when its connection is cut. */
  resumes: boolean;
  /** It comes back; null: it does not. */
  resume: Resume | null;
}

export interface Resume {
  session: bigint;
  /** Of its Welcome. */
  secret: Uint8Array;
  /** From 1 on; what comes late is not taken. */
  epoch: number;
  /** Bytes that the guest has of those sent to it. */
  received: bigint;
}

export interface DeviceQuery {
  /** Of the process that asks; 0: it has none. */
  session: bigint;
  /** UUIDs of 16 bytes that it was shown before. */
  shown: Uint8Array[];
  /** Whether it asks for a Room; absent: no. */
  room?: boolean;
  /** Whether it wants to know no more than the versions; absent: no. */
  versionOnly?: boolean;
}

export interface Queued {
  /** 1: next. */
  position: number;
  /** For the program's user; absent: nothing. */
  warning?: string;
}

export interface Refusal {
  code: string;
  sentence: string;
  remedy: string;
  /** CUresult. */
  result: number;
}

export interface Device {
  name: string;
  uuid: Uint8Array;
  /** Of an instance in MIG mode: that of its GPU; absent: it is a GPU. */
  gpuUuid?: Uint8Array | null;
  totalMemory: bigint;
  attributes: number[];
  limits: bigint[];
  leastPriority: number;
  greatestPriority: number;
  pciBusId: string;
  /** Devices whose memory its kernels may reach; absent: none. */
  peers?: Peer[];
}

export interface Peer {
  uuid: Uint8Array;
  performanceRank: number;
  nativeAtomics: boolean;
  /** CUatomicOperationCapability by CUatomicOperation. */
  atomics: number[];
}

export interface Welcome {
  session: bigint;
  driverVersion: number;
  devices: Device[];
  windowBase: bigint;
  windowSize: bigint;
  memoryLimit: bigint;
  serverVersion: string;
  /** One for each other GPU of the program, in order; absent: it has one GPU. */
  tickets?: string[];
  /** Uploads of so many bytes and more may be asked for by hash; absent, 0: none. */
  uploadCache?: bigint;
  /** Whether a guest on the same machine may ask for shared memory. */
  region?: boolean;
  /** Modules that are loaded before it asks; absent: none. */
  expected?: readonly ExpectedModule[];
  /** Bytes of pinned memory that kernels reach without its counting; absent, 0: none. */
  pinnedMemory?: bigint;
  /** Whether the guest may ask what the driver calls its results. */
  errorTexts?: boolean;
  /** Whether the guest may ask, near its limit, whether there is memory. */
  memoryRoom?: boolean;
  /** Whether the guest may end share names, and ask whether one stands. */
  shareEnds?: boolean;
  lateUploads?: boolean;
  /** That a stream takes; 0: any number. */
  streamOperations?: number;
  /** Bytes that sizes and addresses of memory are multiples of; absent, 0: 2 MiB. */
  granularity?: bigint;
  /** Version of cuBLAS whose calls are served, as 130002; absent, 0: none. */
  cublas?: number;
  /** Whether the server tells unasked what was learnt of libraries; absent: no. */
  learnt?: boolean;
  /** By which the guest comes back when its connection is cut; absent: it cannot. */
  resumeSecret?: Uint8Array;
  /** For how long. */
  resumeSeconds?: number;
}

export interface ExpectedModule {
  /** BLAKE2b-256 of the image. */
  hash: Uint8Array;
  /** Bytes of it. */
  size: bigint;
}

export interface Resumed {
  /** Bytes that the server has of those sent to it. */
  received: bigint;
}

export interface DeviceReport {
  serverVersion: string;
  driverVersion: number;
  /** NVIDIA's own number of its driver; empty: none, or not known. */
  nvidiaDriver: string;
  /** Of the server's NVML; empty: there is none. */
  nvmlVersion: string;
  devices: DeviceState[];
  processes: ProcessState[];
  /** Of what the query says was shown: those that are none of devices; absent: none. */
  others?: DeviceState[];
  /** Absent or null: it was not asked for. */
  room?: Room | null;
}

/** What a session like the Hello's would meet now. */
export interface Room {
  /** Empty: the server has none. */
  tenant: string;
  /** In the queue; 0: it would not wait. */
  position: number;
  /** Null: it would be taken. */
  refusal: Refusal | null;
  /** In the order of the report's. */
  devices: DeviceRoom[];
  /** What a session gets is decided by that does not ask: auto, 25%, 4 GiB. */
  memoryRule: string;
  /** What the server's devices are: software, nvidia, or library. */
  device: string;
  /** Whose cuBLAS the function had better call: guest or remote; absent or empty: the server does not say. */
  libraries?: string;
}

/** What one session could be given at once: nothing while no process is free for it. */
export interface DeviceRoom {
  /** Bytes. */
  memory: bigint;
  /** Percent that can be promised. */
  share: number;
  /** Processes that wait for somebody. */
  slots: number;
  /** Bytes that a session like this gets; 0: the server does not say. */
  session: bigint;
}

/** What the server's NVML or driver says; absent: nothing. */
export interface DeviceSensors {
  temperature?: number;
  temperatureSlowdown?: number;
  temperatureShutdown?: number;
  power?: number;
  powerLimit?: number;
  fanSpeed?: number;
  performanceState?: number;
  /** MHz by nvmlClockType_t; 0: not known. */
  clocks?: number[];
  maxClocks?: number[];
  brand?: number;
  pciDeviceId?: number;
  pciSubsystemId?: number;
  memoryBusWidth?: number;
}

export interface DeviceState extends DeviceSensors {
  name: string;
  uuid: Uint8Array;
  /** Of an instance in MIG mode: that of its GPU; absent: it is a GPU. */
  gpuUuid?: Uint8Array;
  pciBusId: string;
  computeMajor: number;
  computeMinor: number;
  memoryTotal: bigint;
  memoryUsed: bigint;
  /** Percent of the last second; absent: not measured. */
  busy?: number;
}

export interface ProcessState {
  session: bigint;
  /** Of the report's devices, by index; behind them come the others. */
  device: number;
  pid: number;
  host: string;
  program: string;
  memory: bigint;
  /** Percent of the last second; absent: not measured. */
  busy?: number;
}

export type Answer =
  | { queued: Queued }
  | { welcome: Welcome }
  | { refusal: Refusal }
  | { report: DeviceReport }
  | { resumed: Resumed };

const { root: types } = protobuf.parse(
  readFileSync(path.join(root, 'proto', 'control.proto'), 'utf8'),
);
const helloType = types.lookupType('outboard.Hello');
const answerType = types.lookupType('outboard.Answer');

function frame(message: Uint8Array): Buffer {
  if (message.length > wire.controlMax) {
    throw new Error(`a control message of ${message.length} bytes; the most is ${wire.controlMax}`);
  }
  return Buffer.concat([preface(wire.protocol, message.length), message]);
}

export function preface(version: number, length: number): Buffer {
  const bytes = Buffer.alloc(wire.prefaceBytes);
  wire.magic.copy(bytes);
  bytes.writeUInt32LE(version, 8);
  bytes.writeUInt32LE(length, 12);
  return bytes;
}

function encode(type: protobuf.Type, message: object): Uint8Array {
  return type.encode(type.fromObject(message)).finish();
}

function decode(type: protobuf.Type, bytes: Uint8Array): unknown {
  return type.toObject(type.decode(bytes), { longs: BigInt, defaults: true, arrays: true });
}

/** Preface and message. */
export function encodeHello(hello: Partial<Hello>): Buffer {
  return frame(encode(helloType, hello));
}

/** The message without its preface. Throws where the bytes are not a Hello. */
export function decodeHello(bytes: Uint8Array): Hello {
  return decode(helloType, bytes) as Hello;
}

/** Preface and message. */
export function encodeAnswer(answer: Answer): Buffer {
  return frame(encode(answerType, answer));
}

/** The message without its preface. */
export function decodeAnswer(bytes: Uint8Array): Answer {
  return decode(answerType, bytes) as Answer;
}
