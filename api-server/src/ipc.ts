// What the monitor and an API server process say to each other over their channel (channel.ts;
// bigint and bytes pass as they are: message.ts). Connections go beside it, through a socket of their own.
//
//   monitor                          API server process
//   open                      ->                         once, after the start
//                             <-     ready | failed      the device is open, its context warm
//   measure                   ->
//                             <-     measured            how much memory is free now
//   offer + the socket        ->                         both processes hold the connection now
//                             <-     prepared | declined
//   begin                     ->                         the monitor has let go of the connection
//   resume + a socket         ->                         the guest of a session has come back after a cut
//                             <-     used                a module of the running session, once for each
//                             <-     away                its guest was cut off, or is back: for each cut
//                             <-     closing             the guest has gone, or the session is to end
//                             <-     ended               free again, or about to exit, or to be killed
//   end                       ->                         ends the session; `ended` follows
//   offer + a link            ->                         the session of another process is to move here
//                             <-     prepared | declined
//   begin                     ->
//                             <-     arrived             from now on it is here; or `ended`
//   move + the link           ->                         to the process that has the session
//                             <-     moved | stays       `ended` follows `moved`
//   ping                      ->                         at any time: a process that hangs is killed
//                             <-     pong                with the running session's counters
//   kernels                   ->                         at any time
//                             <-     kernels             what the running session's kernels have cost
//   nvml                      ->                         at any time
//                             <-     nvml                what the machine's own NVML says of the device
//   stop                      ->                         ends the session, if any, and the process
//
// Nothing is written to the connection before `begin`, so a client whose process dies before that
// can still be given to another one.
import type { ExpectedModule } from './control.js';
import type {
  Away,
  CounterName,
  DeviceOptions,
  DeviceSnapshot,
  KernelTime,
  NvmlFacts,
  SessionEnd,
  SessionTrace,
} from './native.js';

/** Where the process finds its ends, behind stdin, stdout and stderr. */
export const slotFds = { channel: 3, connections: 4, quotaPage: 5, turnPage: 6 } as const;

/** What a process has ready while it waits: the device opened, with its context; and a handle of cuBLAS on that. */
export type Warm = 'none' | 'context' | 'handles';

/** The device to open. Its window is where it is by default, until a session wants another. */
export interface Open extends Omit<DeviceOptions, 'windowBase' | 'windowSize' | 'warmHandles'> {
  type: 'open';
  /** What there is before a session asks. */
  warm: Warm;
  /** Where executor.node is. */
  build: string;
}

/** A session that a process is offered, to be prepared for it or declined. */
export interface SessionOffer {
  type: 'offer';
  session: bigint;
  memoryLimit: bigint;
  /** Beside it, for pinned memory that kernels reach, for modules and for stacks of kernels. */
  pinnedLimit: bigint;
  moduleLimit: bigint;
  stackLimit: bigint;
  /** Whose it is; empty: nobody's in particular. */
  tenant: string;
  /** The program's sessions on this machine, where it has several; 0: it is alone. */
  group: bigint;
  /** Modules to load before the guest asks. */
  expected: readonly ExpectedModule[];
  /** What earlier sessions of its function have learnt of libraries; empty: nothing. */
  learnt: Uint8Array;
  /** Whether what it uploads is kept, and may be asked for by hash. */
  uploadCache: boolean;
  /** What the guest said in its Hello. */
  windowBases: bigint[];
  windowSize: bigint;
  takesGranularity: boolean;
  /** Bytes that came behind the Hello. */
  leftover: Uint8Array;
  /** Of a connection by TLS: where it is, and what has come and was not opened; null: it is none. */
  tls: { state: Uint8Array; unopened: Uint8Array } | null;
  /** Whether copies and fills are held back and measured like kernels. */
  gated: { copies: boolean; sets: boolean };
  /** Whether what is not held back is measured. False: what it costs the device is not known. */
  measured: boolean;
  /** How long a launch may take, and what the guest is told of one that takes longer; null: for ever. */
  mostKernel: { seconds: number; sentence: string } | null;
  /** For the program's other GPUs: passed on in the Welcome. Empty: it has this one. */
  tickets: readonly string[];
  /** Null: nothing is recorded. */
  trace: SessionTrace | null;
  /** Whether it moves here from another process, to which the connection leads. Its window is the only choice. */
  arrives: boolean;
  /** By which its guest may come back after a cut, and for how long; null: it may not. */
  comeback: { secret: Uint8Array; seconds: number } | null;
}

/** Another connection for a running session, in place of one that was cut. */
export interface SessionResume {
  type: 'resume';
  session: bigint;
  epoch: number;
  /** Bytes that the guest has of those sent to it. */
  received: bigint;
  /** As in the offer. */
  tls: SessionOffer['tls'];
}

/** The offer of a session that is nobody's and may have nothing. Who cares for a part of it changes that. */
export const emptyOffer: SessionOffer = {
  type: 'offer',
  session: 0n,
  memoryLimit: 0n,
  pinnedLimit: 0n,
  moduleLimit: 0n,
  stackLimit: 0n,
  tenant: '',
  group: 0n,
  expected: [],
  learnt: new Uint8Array(),
  uploadCache: false,
  windowBases: [],
  windowSize: 0n,
  takesGranularity: true,
  leftover: new Uint8Array(),
  tls: null,
  gated: { copies: false, sets: false },
  measured: true,
  mostKernel: null,
  tickets: [],
  trace: null,
  arrives: false,
  comeback: null,
};

export type ToSlot =
  | Open
  | SessionOffer
  | SessionResume
  | { type: 'measure' }
  | { type: 'begin' }
  | { type: 'ping' }
  | { type: 'kernels' }
  | { type: 'nvml'; library: string; uuid: string }
  | { type: 'move' }
  | { type: 'end'; message: string }
  | { type: 'stop'; message: string };

export type Counters = Record<CounterName, bigint>;

export type FromSlot =
  | { type: 'ready'; snapshot: DeviceSnapshot }
  | { type: 'failed'; code: string | null; message: string }
  | { type: 'measured'; freeMemory: bigint }
  | { type: 'pong'; counters: Counters | null }
  | { type: 'kernels'; kernels: KernelTime[] }
  | { type: 'nvml'; facts: NvmlFacts | null }
  | { type: 'prepared'; windowBase: bigint; windowSize: bigint }
  | { type: 'arrived' }
  | { type: 'moved'; stoppedNs: bigint }
  | { type: 'stays'; why: string }
  | { type: 'declined'; code: string | null; message: string }
  | { type: 'used'; session: bigint; module: ExpectedModule }
  | { type: 'away'; away: Away | null }
  | { type: 'closing' }
  | { type: 'ended'; end: SessionEnd; counters: Counters };
