// The page of shared memory between the monitor's quota policies and the gate of one slot. Its layout
// is that of api-server/executor/gate/quota_page.h; both sides see what the other writes at once, without
// a call.
import type { Native } from './native.js';

/** What a quota token is: nothing is held back; nanoseconds of the device's time; blocks of launched
 * grids; nanoseconds of wall time between launches. */
const quotaModes = ['open', 'device-time', 'blocks', 'host-time'] as const;
export type QuotaMode = (typeof quotaModes)[number];

/** For `limit`: there is none. */
export const noLimit = (1n << 64n) - 1n;

const magic = 0x324e454b4f54424fn; // 'OBTOKEN2'
const words = {
  magic: 0,
  mode: 1,
  limit: 2,
  session: 4,
  unit: 5,
  counted: 6,
  queued: 7,
  charged: 8,
  deviceNs: 9,
  blocks: 10,
  launches: 11,
  gateWaits: 12,
  gateWaitNs: 13,
  held: 14,
  inflightNs: 15,
  givenBack: 16,
} as const;

/** What the executor has written; counted since the session began. */
export interface QuotaCounts {
  /** Being served; 0: none. */
  session: bigint;
  /** Whose the counts below are: they stay until the next one begins. */
  counted: bigint;
  /** The mode in whose unit `charged` is (device-time when the mode is open). When that changes in
   * the middle of a session, `charged` begins at 0 again: at the next launch, not at once. */
  unit: QuotaMode;
  /** Quota tokens used: what has started, at its predicted cost, corrected once it is measured. */
  charged: bigint;
  /** Measured time of the device. */
  deviceNs: bigint;
  blocks: bigint;
  launches: bigint;
  /** Times that work which was ready waited for quota tokens, and for how long. */
  gateWaits: bigint;
  gateWaitNs: bigint;
  /** Launches that have not started: for want of quota tokens, or in turn. */
  held: bigint;
  /** Predicted cost of what has started and has not ended. */
  inflightNs: bigint;
  /** Whether work that may start waits for another slot's turn to be over: 1, else 0. */
  queued: bigint;
  /** Quota tokens that were charged, as predicted, and were not used. A limit counts them as used. */
  givenBack: bigint;
}

/** Before anything has begun. */
export const noCounts: QuotaCounts = {
  session: 0n,
  counted: 0n,
  unit: 'device-time',
  charged: 0n,
  deviceNs: 0n,
  blocks: 0n,
  launches: 0n,
  gateWaits: 0n,
  gateWaitNs: 0n,
  held: 0n,
  inflightNs: 0n,
  queued: 0n,
  givenBack: 0n,
};

export class QuotaPage {
  /** Of a page made here: for the slot's process to inherit. */
  readonly fd: number | null;
  readonly #native: Pick<Native, 'wakeQuotaPage'>;
  readonly #buffer: ArrayBuffer;
  readonly #words: BigUint64Array;

  private constructor(
    native: Pick<Native, 'wakeQuotaPage'>,
    buffer: ArrayBuffer,
    fd: number | null,
  ) {
    this.#native = native;
    this.#buffer = buffer;
    this.#words = new BigUint64Array(buffer);
    this.fd = fd;
    if (this.#words[words.magic] !== magic) throw new Error('this is no quota page');
  }

  /** A new page: open, without a limit. The caller closes `fd` once the slot's process runs. */
  static create(native: Native): QuotaPage {
    const { fd, buffer } = native.createQuotaPage();
    return new QuotaPage(native, buffer, fd);
  }

  /** The page behind an inherited descriptor, which stays the caller's. */
  static open(native: Native, fd: number): QuotaPage {
    return new QuotaPage(native, native.openQuotaPage(fd), null);
  }

  get mode(): QuotaMode {
    return quotaModes[Number(this.#read('mode'))] ?? 'open';
  }

  get limit(): bigint {
    return this.#read('limit');
  }

  /** In effect at the next launch; what is held and may start now starts now. */
  set(mode: QuotaMode, limit: bigint) {
    const open = mode !== this.mode || limit > this.limit;
    // A new mode with the old limit could hold nothing, or everything, for a moment: at first, the
    // limit that is sure to hold.
    if (mode !== this.mode) this.#write('limit', 0n);
    this.#write('mode', BigInt(quotaModes.indexOf(mode)));
    this.#write('limit', limit);
    if (open) this.#native.wakeQuotaPage(this.#buffer);
  }

  /** Work may start while less than this is charged and given back. */
  setLimit(limit: bigint) {
    this.set(this.mode, limit);
  }

  /** Only this much, for those who look often. */
  get charged(): bigint {
    return this.#read('charged');
  }

  get session(): bigint {
    return this.#read('session');
  }

  read(): QuotaCounts {
    // First: what is given back in this moment is at worst not seen as that, and counts as used for longer.
    const givenBack = this.#read('givenBack');
    return {
      givenBack,
      session: this.#read('session'),
      counted: this.#read('counted'),
      unit: quotaModes[Number(this.#read('unit'))] ?? 'device-time',
      charged: this.#read('charged'),
      deviceNs: this.#read('deviceNs'),
      blocks: this.#read('blocks'),
      launches: this.#read('launches'),
      gateWaits: this.#read('gateWaits'),
      gateWaitNs: this.#read('gateWaitNs'),
      held: this.#read('held'),
      inflightNs: this.#read('inflightNs'),
      queued: this.#read('queued'),
    };
  }

  #read(word: keyof typeof words): bigint {
    return Atomics.load(this.#words, words[word]);
  }

  #write(word: 'mode' | 'limit', value: bigint) {
    Atomics.store(this.#words, words[word], value);
  }
}
