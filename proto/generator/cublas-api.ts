// What the parameters of cuBLAS's functions are (proto/api-cublas/*.yaml), read, joined with the
// facts of the header and checked.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isMap, isScalar, LineCounter, type Pair, parseDocument } from 'yaml';
import { ApiError } from './api.js';
import type { FunctionFacts } from './facts.js';
import { type Ids, readIds } from './ids.js';

export interface CublasFacts {
  statuses: Record<string, number>;
  /** What each library exports, by its SONAME. */
  libraries: Record<string, string[]>;
  functions: Record<string, FunctionFacts>;
}

/** A sum of up to two parameters, by their places, and a number. */
export type Length = { first: number; second: number; plus: number };

export interface Argument {
  kind: 'value' | 'scalar' | 'result' | 'inout' | 'host-result' | 'vector' | 'matrix' | 'packed';
  /** Bytes of an element; 0: as the parameter `typed` says. */
  element: number;
  count: number;
  /** There need not be one. */
  optional: boolean;
  rows: [Length, Length];
  columns: [Length, Length];
  /** Places of parameters without the handle; -1: none. */
  typed: number;
  complex: number;
  by: number;
  step: number;
  stride: number;
  batch: number;
}

export interface CublasCall {
  name: string;
  at: string;
  family: string;
  returns: string;
  parameters: [type: string, name: string][];
  /** Written by hand in libraries/src, and whether it has a row of the table all the same. */
  hand: 'no' | 'local' | 'travels';
  /** Without the handle. */
  arguments: Argument[];
}

export interface CublasApi {
  calls: CublasCall[];
  ids: Ids;
}

const none: Length = { first: -1, second: -1, plus: 0 };
const elements: Record<string, number> = {
  float: 4,
  double: 8,
  cuComplex: 8,
  cuDoubleComplex: 16,
  int: 4,
  int64_t: 8,
  __half: 2,
  __nv_bfloat16: 2,
};
/** As many as library_call.h says. */
const PARAMETERS_MAX = 24;

export const isHandle = (type: string) => type.startsWith('cublasHandle_t');
export const isPointer = (type: string) => /[*\]]$/.test(type);

/** `a{b,c}d` as `abd` and `acd`. */
export function expand(pattern: string): string[] {
  const [, before = '', list, after = ''] = /^([^{]*)\{([^}]*)\}(.*)$/.exec(pattern) ?? [];
  if (list === undefined) return [pattern];
  return list.split(',').flatMap((one) => expand(before + one + after));
}

/** Reads one file; errors carry file and line. */
export function readCublasFamily(file: string, text: string, facts: CublasFacts): CublasCall[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const first = document.errors[0];
  if (first) throw new ApiError(`${file}:${lines.linePos(first.pos[0]).line}: ${first.message}`);
  const { contents } = document;
  const { family, ...rest } = document.toJS() ?? {};
  if (!isMap(contents) || typeof family !== 'string') {
    throw new ApiError(`${file}:1: a family needs a name: \`family: NAME\``);
  }
  const unknown = Object.keys(rest).find((key) => key !== 'calls');
  if (unknown) throw new ApiError(`${file}:1: unknown key ${unknown}`);
  const listed = contents.get('calls');
  return (isMap(listed) ? listed.items : []).flatMap(({ key, value }: Pair) => {
    const start = isScalar(key) ? (key.range?.[0] ?? 0) : 0;
    const at = `${file}:${lines.linePos(start).line}`;
    const pattern = String(isScalar(key) ? key.value : key);
    if (!isMap(value)) throw new ApiError(`${at}: ${pattern}: must be a mapping`);
    const entry = value.toJSON() as Record<string, unknown>;
    const names = expand(pattern).flatMap((name) => {
      if (!facts.functions[name] && !('undeclared' in entry))
        throw new ApiError(`${at}: ${name} is no function of cuBLAS`);
      return facts.functions[`${name}_64`] ? [name, `${name}_64`] : [name];
    });
    return names.map((name) => readCall(name, { at, family, entry, facts }));
  });
}

interface Reading {
  at: string;
  family: string;
  entry: Record<string, unknown>;
  facts: CublasFacts;
}

function readCall(name: string, { at, family, entry, facts }: Reading): CublasCall {
  const fail = (message: string): never => {
    throw new ApiError(`${at}: ${name}: ${message}`);
  };
  const { hand = 'no', undeclared, ...roles } = entry;
  if (hand !== 'no' && hand !== 'local' && hand !== 'travels') {
    return fail('hand must be local or travels');
  }
  const { returns, parameters } = facts.functions[name] ?? readUndeclared(String(undeclared));
  const all = parameters ?? fail('the header gave no prototype');
  const own = all.filter(([type]) => !isHandle(type));
  if (own.length > PARAMETERS_MAX) fail(`has more than ${PARAMETERS_MAX} parameters`);
  const place = (wanted: string) => {
    const index = own.findIndex(([, parameter]) => parameter === wanted);
    if (index < 0) return fail(`has no parameter ${wanted}`);
    const [type = ''] = own[index] ?? [];
    return isPointer(type) ? fail(`${wanted} is no number`) : index;
  };
  for (const role of Object.keys(roles)) {
    if (!own.some(([, parameter]) => parameter === role)) fail(`has no parameter ${role}`);
  }
  const described = own.map(([type, parameter]) => {
    const role = roles[parameter];
    if (role === undefined) {
      if (!isPointer(type)) return readRole('value', type, place, fail);
      if (hand === 'local' || type === 'cudaStream_t') return readRole('value', type, place, fail);
      return fail(`what ${parameter} points to is not said`);
    }
    if (!isPointer(type)) fail(`${parameter} is no pointer`);
    return readRole(String(role), type, place, (message) => fail(`${parameter}: ${message}`));
  });
  return { name, at, family, returns, parameters: all, hand, arguments: described };
}

/** `TYPE NAME TYPE NAME`, of a function that the library exports and its header does not have. */
function readUndeclared(text: string): FunctionFacts {
  const words = text.split(' ');
  const parameters = words.flatMap((type, index): [string, string][] =>
    index % 2 === 0 ? [[type, words[index + 1] ?? '']] : [],
  );
  return { returns: 'cublasStatus_t', parameters };
}

type Place = (name: string) => number;
type Fail = (message: string) => never;

/** One length, or two for `a|b`. */
function readLengths(text: string, place: Place, fail: Fail): [Length, Length] {
  const read = (sum: string): Length => {
    const length = { ...none };
    for (const term of sum.split('+')) {
      if (/^\d+$/.test(term)) length.plus += Number(term);
      else if (length.first < 0) length.first = place(term);
      else if (length.second < 0) length.second = place(term);
      else fail(`${sum} is a sum of more than two`);
    }
    return length;
  };
  const [one = '', other = one, ...more] = text.split('|');
  if (more.length) fail(`${text} is more than a choice of two`);
  return [read(one), read(other)];
}

/** Bytes of an element of what a pointer points to; 0 where the type does not say. */
function elementOf(type: string): number {
  if (/\*\s*const\s*\[\]$/.test(type)) return 8;
  return elements[type.replace(/\b(const|\*|\[\])|[*]|\[\]/g, '').trim()] ?? 0;
}

function readRole(text: string, type: string, place: Place, fail: Fail): Argument {
  const words = text.split(/\s+/);
  const next = (what: string) => words.shift() ?? fail(`${what} is missing in \`${text}\``);
  const kind = next('what it is') as Argument['kind'];
  const argument: Argument = {
    kind,
    element: kind === 'value' ? 0 : elementOf(type),
    count: kind === 'value' ? 0 : 1,
    optional: false,
    rows: [none, none],
    columns: [none, none],
    ...{ typed: -1, complex: -1, by: -1, step: -1, stride: -1, batch: -1 },
  };
  const choice = () => readLengths(next('a length'), place, fail);
  const isOption = (word: string | undefined) =>
    word === undefined || ['by', 'each', 'of', 'or-none'].includes(word);
  switch (kind) {
    case 'value':
      return argument;
    case 'scalar':
    case 'result':
    case 'inout':
    case 'host-result':
      if (!isOption(words[0])) argument.count = Number(next('a count'));
      if (!(argument.count >= 1 && argument.count <= 5)) fail(`a count of 1 to 5, not \`${text}\``);
      break;
    case 'vector':
      argument.rows = choice();
      if (!isOption(words[0])) argument.step = place(next('its step'));
      break;
    case 'matrix':
      argument.rows = choice();
      argument.columns = choice();
      argument.step = place(next('its leading dimension'));
      break;
    case 'packed':
      argument.rows = choice();
      break;
    default:
      fail(`\`${kind}\` is nothing that a pointer points to`);
  }
  while (words.length > 0) {
    const option = next('an option');
    if (option === 'or-none' && kind === 'scalar') argument.optional = true;
    else if (option === 'by') argument.by = place(next('a parameter'));
    else if (option === 'each') {
      const stride = next('a stride');
      argument.stride = place(stride);
      argument.batch = place(next('a count'));
    } else if (option === 'of') {
      const type = next('a type');
      // Whatever type a parameter names.
      const bytes = elements[type];
      if (bytes !== undefined && argument.element === 0) {
        argument.element = bytes;
        continue;
      }
      argument.typed = place(type);
      if (!isOption(words[0])) argument.complex = place(next('a type'));
    } else fail(`\`${option}\` is not known`);
  }
  if (argument.element === 0 && argument.typed < 0) {
    // A workspace is bytes.
    if (kind !== 'vector' || argument.step >= 0) fail(`what an element of ${type} is is not said`);
    argument.element = 1;
  }
  if (argument.element !== 0 && argument.typed >= 0) fail(`${type} has a type of its own`);
  const choices = [argument.rows, argument.columns].some(([a, b]) => a !== b && !same(a, b));
  if (choices !== argument.by >= 0) fail('a choice of two and `by` belong together');
  return argument;
}

function same(a: Length, b: Length): boolean {
  return a.first === b.first && a.second === b.second && a.plus === b.plus;
}

export function readCublasFacts(file: string): CublasFacts {
  return JSON.parse(readFileSync(file, 'utf8')) as CublasFacts;
}

export function readCublasApi(folder: string, facts: CublasFacts): CublasApi {
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
  const calls = files.sort().flatMap((name) => {
    const text = readFileSync(path.join(folder, name), 'utf8');
    return readCublasFamily(`api-cublas/${name}`, text, facts);
  });
  calls.sort((a, b) => (a.name < b.name ? -1 : 1));
  calls.forEach((call, index) => {
    const other = calls[index + 1];
    if (other?.name === call.name) {
      throw new ApiError(`${call.at}: ${call.name} is described already (${other.at})`);
    }
  });
  return { calls, ids: numberCalls(calls, readIds(path.join(folder, 'ids.json'))) };
}

/** What was recorded, and the next numbers for what is new. */
export function numberCalls(calls: CublasCall[], recorded: Ids): Ids {
  const ids: Ids = { ...recorded };
  const travelling = calls.filter(({ hand }) => hand !== 'local').map(({ name }) => name);
  const gone = Object.keys(recorded).find((name) => !travelling.includes(name));
  if (gone) {
    throw new ApiError(`api-cublas/ids.json: ${gone} is described no more; older releases send it`);
  }
  let next = Math.max(-1, ...Object.values(recorded)) + 1;
  for (const name of travelling) ids[name] ??= next++;
  return ids;
}

/** Functions of cuBLASLt that are served, by the list of them. */
export function readCublasLtServed(file: string, text: string, facts: CublasFacts): string[] {
  const { served } = (parseDocument(text).toJS() ?? {}) as { served?: unknown };
  if (!Array.isArray(served)) throw new ApiError(`${file}:1: there must be a list: \`served:\``);
  const symbols = facts.libraries['libcublasLt.so.13'] ?? [];
  const unknown = served.find((name) => !symbols.includes(name));
  if (unknown) throw new ApiError(`${file}: ${unknown} is no function of cuBLASLt`);
  return served;
}
