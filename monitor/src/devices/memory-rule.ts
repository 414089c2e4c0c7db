// What a session gets that does not say how much memory it wants. Pure functions.
import { wire } from '../../../api-server/src/control.js';
import { BadValue } from '../options/options.js';
import { formatExactBytes, parseBytes } from '../options/values.js';
import { wholeGranules } from './memory.js';

/** As --session-memory says: by the slots, percent of what sessions may have, or bytes. */
export type MemoryRule =
  | { kind: 'auto' }
  | { kind: 'percent'; percent: number }
  | { kind: 'bytes'; bytes: bigint };

export interface GpuMemory {
  /** What sessions may have, all together. */
  memory: bigint;
  /** Promised of it, or taken by slots that were made later. */
  reserved: bigint;
  /** How many sessions there can be; null: as many as find memory. */
  slots: number | null;
}

/** In whole granules; the session waits while so much is not free. */
export function usualMemory(rule: MemoryRule, { memory, reserved, slots }: GpuMemory): bigint {
  if (rule.kind === 'auto') {
    return slots === null ? halfOfRest(memory, reserved) : wholeGranules(memory / BigInt(slots));
  }
  const wanted = rule.kind === 'bytes' ? rule.bytes : (memory * BigInt(rule.percent)) / 100n;
  const whole = wholeGranules(wanted + wire.granule - 1n);
  return whole < memory ? whole : memory;
}

/** The least part of a GPU that half of the rest comes down to. */
const parts = 32n;

/**
 * Where slots are made as they are wanted, nobody knows how many will share the GPU: each session that
 * does not say gets half of what nobody has, so that the first finds much and the next ones something.
 */
function halfOfRest(memory: bigint, reserved: bigint): bigint {
  const half = wholeGranules((memory - reserved) / 2n);
  const least = wholeGranules(memory / parts);
  return [half, least, wire.granule].reduce((most, one) => (one > most ? one : most));
}

/**
 * To what a tenant's limit cuts the usual on each of `gpus` GPUs, `used` being what its sessions have.
 * Null: it leaves too little, and the session waits for others of its own tenant. `usual`: the most
 * that any GPU would give; null: half of what is left, which then is said of the limit, too.
 */
export function usualWithin(
  limit: bigint,
  used: bigint,
  gpus: number,
  usual: bigint | null,
): bigint | null {
  const whole = wholeGranules(limit / BigInt(gpus));
  const left = wholeGranules((limit - used) / BigInt(gpus));
  if (usual === null) usual = halfOfRest(whole, whole - left);
  const most = usual < whole ? usual : whole;
  return most > left || most === 0n ? null : most;
}

/** Whether one more slot would find work: `cost` is what its context and its session take beside. */
export function roomForSlot(memory: bigint, reserved: bigint, cost: bigint): boolean {
  return memory - reserved - cost >= halfOfRest(memory, memory);
}

/** As it is written behind --session-memory. */
export function formatMemoryRule(rule: MemoryRule): string {
  switch (rule.kind) {
    case 'auto':
      return 'auto';
    case 'percent':
      return `${rule.percent}%`;
    case 'bytes':
      return formatExactBytes(rule.bytes);
  }
}

/** auto, percent as in 25%, or a size. */
export function parseMemoryRule(text: string): MemoryRule {
  if (text === 'auto') return { kind: 'auto' };
  const percent = Number(/^(\d{1,3})%$/.exec(text)?.[1]);
  if (percent >= 1 && percent <= 100) return { kind: 'percent', percent };
  try {
    return { kind: 'bytes', bytes: parseBytes(text) };
  } catch {
    throw new BadValue('expected auto, percent of a GPU from 1% to 100%, or a size as in 4G');
  }
}
