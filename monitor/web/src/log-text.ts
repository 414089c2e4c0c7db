// A line of the server's log as a sentence, and what it says beside that.
import type { LogLine } from '../../src/base/view.js';
import { bytes, count, words } from './format.js';

/** What belongs to the sentence itself: why, the code of an error, what to do. */
const told: readonly string[] = ['why', 'code', 'remedy'];

/** "GPU 0 is left out: it is lost (OB_GPU_LOST). See `nvidia-smi`." */
export function sentenceOf({ msg, why, code, remedy }: LogLine): string {
  const first = msg.charAt(0).toUpperCase() + msg.slice(1);
  const because = typeof why === 'string' && why !== '' ? `: ${why}` : '';
  const name = typeof code === 'string' ? ` (${code})` : '';
  const what = `${first}${because}${name}`;
  const ended = /[.!?]\)?$/.test(what) ? what : `${what}.`;
  return typeof remedy === 'string' ? `${ended} ${remedy}` : ended;
}

/** "session 7, name resize, memory 2 GiB": the line's other fields; empty: it has none. */
export function factsOf({ time: _, level: __, msg: ___, ...fields }: LogLine): string {
  return Object.entries(fields)
    .filter(([name, value]) => !(told.includes(name) && typeof value === 'string'))
    .map(([name, value]) => fact(name, value))
    .join(', ');
}

function fact(name: string, value: unknown): string {
  const label = words(name);
  if (value === true) return label;
  if (value === false) return `not ${label}`;
  return `${label} ${valueText(name, value)}`;
}

function valueText(name: string, value: unknown): string {
  if (value === null || value === undefined || value === '') return '–';
  if (typeof value === 'number') return numberText(name, value);
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) {
    return value.map((one) => valueText(name, one)).join(' and ') || 'none';
  }
  const parts = Object.entries(value).map(([key, one]) => fact(key, one));
  return parts.length === 0 ? 'none' : `(${parts.join(', ')})`;
}

function numberText(name: string, value: number): string {
  if (/bytes|memory/i.test(name) && Number.isInteger(value)) return bytes(value);
  if (/seconds$/i.test(name)) return `${Number(value.toFixed(3))} s`;
  // Numbers of things are no amounts.
  return /^(?:session|group|gpu|slot|pid|slotPid|operator|port)$/.test(name)
    ? String(value)
    : count(value);
}
