// The traces that Azure has published (Azure/AzurePublicDataset, CC-BY): functions of 2019 (counts by minute, and how
// long each takes), functions of 2021 (each call), and requests to language models. Files are named by their paths and
// read from there; none comes with this repository.
//
// What is not as it should be is no reason to stop: a line that is said twice is one, a cell or line that says nothing
// is a hole, and both are counted (`Faults`), so that the reader can judge.
import { createHash } from 'node:crypto';
import { linesOf, titlesOf } from './lines.js';

export const azureFormats = ['azure-functions-2019', 'azure-functions-2021', 'azure-llm'] as const;
export type AzureFormat = (typeof azureFormats)[number];

export interface Faults {
  /** Lines that say what another has said. */
  twice: number;
  /** Lines without sense, which are left out. */
  unreadable: number;
  /** Minutes of a function of 2019 of which it is not said how often it was called: taken for none. */
  holes: number;
  /** Functions of 2019 whose durations are not in the other file: taken for as long as the half of all. */
  untimed: number;
  /** Functions beyond as many as were wanted, which are left out with their calls. */
  others: number;
  /** Seconds, the longest time in which nobody came. */
  silence: number;
}

/** Calls in order of arrival: when, which function, and for how long; columns, as there may be millions. */
export interface AzureTrace {
  /** Seconds from the first. */
  at: Float64Array;
  /** Index in `functions`. */
  which: Uint32Array;
  /** Seconds. Of requests to language models: tokens in and out, with how fast those are the reader's. */
  seconds: Float32Array;
  functions: readonly string[];
  faults: Faults;
}

export interface AzureOptions {
  /** Of 2019: the file with durations; null: each call takes `seconds`. */
  durations: string | null;
  /** Where nothing says how long a call takes. */
  seconds: number;
  /** At most so many functions, the first of the file. */
  functions: number;
  /** Of language models: tokens a second that are read, and written. */
  tokens: { context: number; generated: number };
}

/** Throws where the file is missing, is none of that format, or has nobody in it. */
export function readAzure(format: AzureFormat, file: string, options: AzureOptions): AzureTrace {
  const rows = new Rows();
  const functions: string[] = [];
  const faults = { ...noFaults };
  if (format === 'azure-functions-2019') read2019(file, options, rows, functions, faults);
  else if (format === 'azure-functions-2021') read2021(file, options, rows, functions, faults);
  else readLlm(file, options, rows, functions, faults);
  if (rows.count === 0) throw new Error(`${file}: nobody comes in it`);
  return { ...rows.sorted(faults), functions, faults };
}

const noFaults: Faults = {
  ...{ twice: 0, unreadable: 0, holes: 0, untimed: 0, others: 0, silence: 0 },
};

/** Each takes 20 bytes. */
const callsMost = 20_000_000;

/** Grows by doubling. */
class Rows {
  count = 0;
  #at = new Float64Array(1024);
  #which = new Uint32Array(1024);
  #seconds = new Float32Array(1024);

  /** Throws where so many more are too many. */
  expect(more: number) {
    if (this.count + more > callsMost)
      throw new Error(`more than ${callsMost} calls in the trace: take fewer functions of it`);
  }

  add(at: number, which: number, seconds: number) {
    this.expect(1);
    if (this.count === this.#at.length) {
      this.#at = grown(this.#at, new Float64Array(2 * this.count));
      this.#which = grown(this.#which, new Uint32Array(2 * this.count));
      this.#seconds = grown(this.#seconds, new Float32Array(2 * this.count));
    }
    this.#at[this.count] = at;
    this.#which[this.count] = which;
    this.#seconds[this.count] = seconds;
    this.count++;
  }

  sorted(faults: Faults) {
    const order = new Uint32Array(this.count);
    for (let index = 0; index < this.count; index++) order[index] = index;
    const time = this.#at;
    order.sort((one, other) => (time[one] ?? 0) - (time[other] ?? 0) || one - other);
    const first = time[order[0] ?? 0] ?? 0;
    const at = new Float64Array(this.count);
    const which = new Uint32Array(this.count);
    const seconds = new Float32Array(this.count);
    for (const [index, from] of order.entries()) {
      at[index] = (time[from] ?? 0) - first;
      which[index] = this.#which[from] ?? 0;
      seconds[index] = this.#seconds[from] ?? 0;
      const gap = index === 0 ? 0 : (at[index] ?? 0) - (at[index - 1] ?? 0);
      faults.silence = Math.max(faults.silence, gap);
    }
    return { at, which, seconds };
  }
}

function grown<A extends Float64Array | Uint32Array | Float32Array>(before: A, room: A): A {
  room.set(before);
  return room;
}

/** A number that is at least 0; null: it is none. */
function amount(text: string | undefined): number | null {
  if (text === undefined || text.trim() === '') return null;
  const value = Number(text);
  return Number.isFinite(value) && value >= 0 ? value : null;
}

/** Numbers functions as they come; null: there are as many already as are wanted. */
function numbering(functions: string[], most: number, faults: Faults) {
  const numbers = new Map<string, number>();
  const left = new Set<string>();
  return (name: string): number | null => {
    const known = numbers.get(name);
    if (known !== undefined) return known;
    if (functions.length >= most) {
      left.add(name);
      faults.others = left.size;
      return null;
    }
    numbers.set(name, functions.length);
    return functions.push(name) - 1;
  };
}

const minutes = 1440;

function read2019(
  file: string,
  { durations, seconds, functions: most }: AzureOptions,
  rows: Rows,
  functions: string[],
  faults: Faults,
) {
  const took = durations === null ? null : read2019Durations(durations, faults);
  const number = numbering(functions, most, faults);
  const seen = new Seen();
  let places: ReadonlyMap<string, number> | null = null;
  for (const line of linesOf(file)) {
    if (!places) {
      places = titlesOf(line, file, ['HashOwner', 'HashApp', 'HashFunction', 'Trigger', '1']);
      continue;
    }
    if (line.trim() === '') continue;
    const cells = line.split(',');
    const named = ['HashOwner', 'HashApp', 'HashFunction'].map(
      (title) => cells[places?.get(title) ?? -1] ?? '',
    );
    if (named.some((one) => one === '')) {
      faults.unreadable++;
      continue;
    }
    const which = number(named.join('/'));
    if (which === null) continue;
    // Of a function that is called in two ways there are two lines, of which each counts.
    if (seen.before(line)) {
      faults.twice++;
      continue;
    }
    const its = took?.get(named.join('/'));
    if (took && its === undefined) faults.untimed++;
    const each = its ?? took?.get('') ?? seconds;
    const first = places.get('1') ?? 0;
    for (let minute = 0; minute < minutes && places.has(String(minute + 1)); minute++) {
      const calls = amount(cells[first + minute]);
      if (calls === null || !Number.isInteger(calls)) {
        faults.holes++;
        continue;
      }
      rows.expect(calls);
      // Spread over the minute: when in it is not said.
      for (let n = 0; n < calls; n++) rows.add(60 * (minute + (n + 0.5) / calls), which, each);
    }
  }
}

/** Seconds by function; under no name what half of the functions are faster than. */
function read2019Durations(file: string, faults: Faults): ReadonlyMap<string, number> {
  const took = new Map<string, number>();
  let places: ReadonlyMap<string, number> | null = null;
  for (const line of linesOf(file)) {
    if (!places) {
      places = titlesOf(line, file, ['HashOwner', 'HashApp', 'HashFunction', 'Average']);
      continue;
    }
    if (line.trim() === '') continue;
    const cells = line.split(',');
    const cell = (title: string) => cells[places?.get(title) ?? -1];
    const name = [cell('HashOwner'), cell('HashApp'), cell('HashFunction')].join('/');
    const milliseconds = amount(cell('Average'));
    if (milliseconds === null) faults.unreadable++;
    else if (took.has(name)) faults.twice++;
    else took.set(name, milliseconds / 1000);
  }
  const sorted = [...took.values()].sort((one, other) => one - other);
  const half = sorted[sorted.length >> 1];
  if (half === undefined) throw new Error(`${file}: no durations in it`);
  took.set('', half);
  return took;
}

function read2021(
  file: string,
  { functions: most }: AzureOptions,
  rows: Rows,
  functions: string[],
  faults: Faults,
) {
  const number = numbering(functions, most, faults);
  let places: ReadonlyMap<string, number> | null = null;
  const seen = new Seen();
  for (const line of linesOf(file)) {
    if (!places) {
      places = titlesOf(line, file, ['app', 'func', 'end_timestamp', 'duration']);
      continue;
    }
    if (line.trim() === '') continue;
    const cells = line.split(',');
    const cell = (title: string) => cells[places?.get(title) ?? -1];
    const [end, seconds] = [amount(cell('end_timestamp')), amount(cell('duration'))];
    const [app, its] = [cell('app') ?? '', cell('func') ?? ''];
    if (end === null || seconds === null || app === '' || its === '') faults.unreadable++;
    else if (seen.before(line)) faults.twice++;
    else {
      const which = number(`${app}/${its}`);
      // One that began before the trace did: at its beginning it was there.
      if (which !== null) rows.add(Math.max(0, end - seconds), which, seconds);
    }
  }
}

function readLlm(
  file: string,
  { tokens }: AzureOptions,
  rows: Rows,
  functions: string[],
  faults: Faults,
) {
  functions.push('llm');
  let places: ReadonlyMap<string, number> | null = null;
  const seen = new Seen();
  for (const line of linesOf(file)) {
    if (!places) {
      places = titlesOf(line, file, ['TIMESTAMP', 'ContextTokens', 'GeneratedTokens']);
      continue;
    }
    if (line.trim() === '') continue;
    const cells = line.split(',');
    const cell = (title: string) => cells[places?.get(title) ?? -1];
    const at = momentOf(cell('TIMESTAMP') ?? '');
    const [read, written] = [amount(cell('ContextTokens')), amount(cell('GeneratedTokens'))];
    if (at === null || read === null || written === null) faults.unreadable++;
    else if (seen.before(line)) faults.twice++;
    else rows.add(at, 0, read / tokens.context + written / tokens.generated);
  }
}

/** "2023-11-16 18:17:03.9799600", some with a zone: seconds; null: it is none. */
function momentOf(text: string): number | null {
  const found = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?(?:\+00:00|Z)?$/.exec(text.trim());
  if (!found) return null;
  const whole = Date.parse(`${found[1]}T${found[2]}Z`);
  return Number.isFinite(whole) ? whole / 1000 + Number(found[3] ?? 0) : null;
}

/** Whether a line has been there lately: what is said twice is said soon after, and nothing grows with the trace. */
class Seen {
  #young = new Set<string>();
  #old = new Set<string>();

  before(whole: string): boolean {
    const line = whole.length < 256 ? whole : createHash('sha256').update(whole).digest('hex');
    if (this.#young.has(line) || this.#old.has(line)) return true;
    this.#young.add(line);
    if (this.#young.size >= 100_000) [this.#old, this.#young] = [this.#young, new Set()];
    return false;
  }
}
