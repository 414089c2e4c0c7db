// The semantics kept by hand (proto/api/*.yaml), read, joined with the facts and checked.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type Document, isMap, isScalar, LineCounter, parseDocument, type Range } from 'yaml';
import type { Facts } from './facts.js';
import { knownToStart, type Work, works } from './work.js';

export type CallClass = 'local' | 'posted' | 'deferred' | 'round-trip';
export type Needs = 'nothing' | 'init' | 'object' | 'stream' | 'context';
const handleKinds = ['stream', 'event', 'module', 'function', 'array', 'reference'] as const;
export type HandleKind = (typeof handleKinds)[number];

/** What a parameter or field is on the wire. */
export type Role =
  | { role: 'value' }
  | { role: 'handle' | 'mint' | 'consume'; kind: HandleKind }
  | { role: 'address'; size: string[] }
  | { role: 'upto'; most: string }
  | { role: 'out' }
  | { role: 'string' }
  | { role: 'bytes' };

export interface Parameter {
  name: string;
  /** C type: the vendor's for calls, ours for commands. */
  type: string;
  role: Role;
}

/** A driver call that is described. */
export interface Call {
  name: string;
  /** Where: file and line, for errors. */
  at: string;
  family: string;
  class: CallClass;
  needs: Needs;
  /** Undefined for calls without a wire command of their own. */
  id?: number;
  parameters: Parameter[];
  guest: 'hand' | 'generated';
  uses: string[];
  as?: string;
  with: Record<string, string>;
  starts?: Work;
  /** It may wait for the device, which captures forbid. */
  unsafe: boolean;
  status: string[];
  /** Suffixes of the per-thread default stream variants that exist. */
  variants: string[];
}

/** Something that travels: a call with an id, or a command of ours. */
export interface Command {
  name: string;
  at: string;
  id: number;
  /** Whether it is a driver call of that name. */
  call: boolean;
  class: CallClass;
  parameters: Parameter[];
  reply: Parameter[];
  server: 'hand' | 'generated';
  wait: boolean;
  bulk: boolean;
  /** On a stream that is captured it becomes a node of a graph: `capture_X` in the guest. */
  captured: boolean;
  starts?: Work;
  about: string;
}

export interface Api {
  calls: Call[];
  commands: Command[];
}

/** What is wrong in a description, with its file and line. */
export class ApiError extends Error {}

/** Does something for a call or command; an error in it says where that is described. */
export function located<T extends { at: string }, R>(item: T, make: (item: T) => R): R {
  try {
    return make(item);
  } catch (error) {
    if (error instanceof ApiError || !(error instanceof Error)) throw error;
    throw new ApiError(`${item.at}: ${error.message}`);
  }
}

/** In C: the stream that a call with these parameters names; null: it names none. */
export function streamOf(parameters: readonly Parameter[]): string | null {
  const stream = parameters.find(({ type }) => type === 'CUstream');
  if (stream) return stream.name;
  const config = parameters.find(({ type }) => /\bCUlaunchConfig\b/.test(type));
  return config ? `${config.name} ? ${config.name}->hStream : NULL` : null;
}

/** A call that names a stream needs no current context: the stream knows its own. */
function ownNeeds(ofFamily: Needs, parameters: readonly Parameter[]): Needs {
  return ofFamily === 'context' && streamOf(parameters) !== null ? 'stream' : ofFamily;
}

const needs: Needs[] = ['nothing', 'init', 'object', 'stream', 'context'];
const classes: CallClass[] = ['local', 'posted', 'deferred', 'round-trip'];
const callKeys = [
  'id',
  'class',
  'parameters',
  'guest',
  'server',
  'wait',
  'uses',
  'as',
  'with',
  'starts',
  'status',
  'prototype',
  'needs',
  'captured',
  'unsafe',
];
const commandKeys = [
  'id',
  'class',
  'bulk',
  'wait',
  'starts',
  'fields',
  'reply',
  'about',
  'captured',
];

interface RawEntry {
  [key: string]: unknown;
}

function parseRole(text: string): Role | undefined {
  const [head = '', ...rest] = text.trim().split(/\s+/);
  if (head === 'out' || head === 'string' || head === 'bytes') return { role: head };
  if (head === 'address') return { role: 'address', size: rest };
  if (head === 'upto') return rest[0] ? { role: 'upto', most: rest[0] } : undefined;
  if (head === 'mint' || head === 'consume') {
    const kind = rest[0] as HandleKind;
    return handleKinds.includes(kind) ? { role: head, kind } : undefined;
  }
  if (handleKinds.includes(head as HandleKind)) return { role: 'handle', kind: head as HandleKind };
  return undefined;
}

type Path = readonly (string | number)[];

/** Reads one file of semantics; errors carry file and line. */
export function readFamily(file: string, text: string, facts: Facts): Api {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const where = (at?: Path): string => {
    const node = at ? keyOf(document, at) : undefined;
    return `${file}:${node?.range ? lines.linePos(node.range[0]).line : 1}`;
  };
  const fail = (message: string, at?: Path): never => {
    throw new ApiError(`${where(at)}: ${message}`);
  };
  const first = document.errors[0];
  if (first) throw new ApiError(`${file}:${lines.linePos(first.pos[0]).line}: ${first.message}`);
  const isEntry = (value: unknown): value is RawEntry =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  const entryAt = (value: unknown, what: string, at?: Path): RawEntry =>
    isEntry(value) ? value : fail(`${what} must be a mapping`, at);
  const checkKeys = (entry: RawEntry, known: string[], what: string, at: Path) => {
    for (const key of Object.keys(entry)) {
      if (!known.includes(key)) fail(`${what}unknown key ${key}`, [...at, key]);
    }
  };
  const oneOf = (
    entry: RawEntry,
    key: string,
    known: readonly unknown[],
    what: string,
    at: Path,
  ) => {
    const value = entry[key];
    if (value !== undefined && !known.includes(value)) {
      fail(`${what}: ${key} must be ${known.join(' or ')}`, [...at, key]);
    }
  };
  const listOf = (entry: RawEntry, key: string, what: string, at: Path): string[] => {
    const value = entry[key] ?? [];
    if (!Array.isArray(value) || value.some((item) => typeof item !== 'string')) {
      return fail(`${what}: ${key} must be a list of names`, [...at, key]);
    }
    return value;
  };
  const mapOf = (entry: RawEntry, key: string, what: string, at: Path): Record<string, string> => {
    const map = entryAt(entry[key] ?? {}, `${what}: ${key}`, [...at, key]);
    return Object.fromEntries(Object.entries(map).map(([name, value]) => [name, String(value)]));
  };
  const idOf = (entry: RawEntry, what: string, at: Path): number => {
    const id = entry['id'];
    // From 0x8000 on are the frames that the server sends.
    if (Number.isInteger(id) && Number(id) >= 1 && Number(id) < 0x8000) return Number(id);
    return fail(`${what}: an id is a number from 1 to 32767`, [...at, 'id']);
  };

  const raw = entryAt(document.toJS(), 'a family');
  checkKeys(raw, ['family', 'needs', 'calls', 'commands'], '', []);
  const family = String(raw['family'] ?? fail('a family needs a name: `family: NAME`'));
  oneOf(raw, 'needs', needs, 'family', []);
  const familyNeeds = (raw['needs'] ?? 'context') as Needs;
  const results = new Set(
    facts.declarations.find((d) => d.enum === 'cudaError_enum')?.values?.map(([name]) => name),
  );

  const calls: Call[] = [];
  const commands: Command[] = [];
  for (const [name, value] of Object.entries(entryAt(raw['calls'] ?? {}, 'calls', ['calls']))) {
    const at = ['calls', name];
    const entry = entryAt(value, name, at);
    checkKeys(entry, callKeys, `${name}: `, at);
    const fact = facts.functions[name] ?? fail(`${name} is not an entry point of the driver`, at);
    if (!classes.includes(entry['class'] as CallClass)) {
      fail(`${name}: class must be one of ${classes.join(', ')}`, at);
    }
    oneOf(entry, 'guest', ['hand'], name, at);
    oneOf(entry, 'server', ['hand'], name, at);
    oneOf(entry, 'wait', [true], name, at);
    oneOf(entry, 'starts', works, name, at);
    oneOf(entry, 'needs', needs, name, at);
    oneOf(entry, 'prototype', ['void'], name, at);
    oneOf(entry, 'captured', [true], name, at);
    oneOf(entry, 'unsafe', [true], name, at);
    const prototype = fact.parameters ?? (entry['prototype'] === 'void' ? [] : null);
    if (!prototype) fail(`${name}: the header gave no prototype; say \`prototype: void\``, at);
    const roles = mapOf(entry, 'parameters', name, at);
    for (const key of Object.keys(roles)) {
      if (!prototype?.some(([, p]) => p === key)) {
        fail(`${name} has no parameter ${key}`, [...at, 'parameters', key]);
      }
    }
    const parameters = (prototype ?? []).map(([type, parameter]): Parameter => {
      const text = roles[parameter];
      if (text === undefined) return { name: parameter, type, role: { role: 'value' } };
      const role =
        parseRole(text) ??
        fail(`${name}.${parameter}: unknown role ${text}`, [...at, 'parameters', parameter]);
      return { name: parameter, type, role };
    });
    const status = listOf(entry, 'status', name, at);
    for (const code of status) {
      if (!results.has(`CUDA_ERROR_${code}`)) {
        fail(`${name}: there is no CUDA_ERROR_${code}`, [...at, 'status']);
      }
    }
    const given = mapOf(entry, 'with', name, at);
    if (entry['with'] && !entry['as']) fail(`${name}: \`with\` without \`as\``, [...at, 'with']);
    const call: Call = {
      name,
      at: where(at),
      family,
      class: entry['class'] as CallClass,
      needs: (entry['needs'] as Needs | undefined) ?? ownNeeds(familyNeeds, parameters),
      parameters,
      guest: entry['class'] === 'local' || entry['guest'] === 'hand' ? 'hand' : 'generated',
      uses: listOf(entry, 'uses', name, at),
      with: given,
      unsafe: entry['unsafe'] === true,
      status,
      variants: ['_ptsz', '_ptds'].filter((suffix) => facts.functions[name + suffix]),
      ...(entry['id'] === undefined ? {} : { id: idOf(entry, name, at) }),
      ...(entry['as'] === undefined ? {} : { as: String(entry['as']) }),
      ...(entry['starts'] === undefined ? {} : { starts: entry['starts'] as Work }),
    };
    calls.push(call);
    if (call.id === undefined) {
      if (call.guest === 'generated' && !call.as) {
        fail(`${name}: needs an id, \`as\` or \`guest: hand\``, at);
      }
      continue;
    }
    commands.push({
      name,
      at: where(at),
      id: call.id,
      call: true,
      class: call.class,
      parameters: parameters.filter((p) => p.role.role !== 'out'),
      reply: parameters
        .filter((p) => p.role.role === 'out')
        .map((p) => ({ ...p, type: p.type.replace(/\s*\*$/, '') })),
      server: entry['server'] === 'hand' ? 'hand' : 'generated',
      wait: entry['wait'] === true,
      bulk: false,
      captured: entry['captured'] === true,
      about: '',
      ...(call.starts ? { starts: call.starts } : {}),
    });
  }

  const all = entryAt(raw['commands'] ?? {}, 'commands', ['commands']);
  for (const [name, value] of Object.entries(all)) {
    const at = ['commands', name];
    const entry = entryAt(value, name, at);
    checkKeys(entry, commandKeys, `${name}: `, at);
    if (!['posted', 'round-trip'].includes(String(entry['class']))) {
      fail(`${name}: class of a command must be posted or round-trip`, at);
    }
    if (entry['id'] === undefined) fail(`${name}: a command needs an id`, at);
    oneOf(entry, 'wait', [true], name, at);
    oneOf(entry, 'bulk', [true], name, at);
    oneOf(entry, 'captured', [true], name, at);
    oneOf(entry, 'starts', works, name, at);
    const fields = (key: 'fields' | 'reply') =>
      Object.entries(mapOf(entry, key, name, at)).map(([field, type]): Parameter => {
        const role = parseRole(type);
        if (role) return { name: field, type: 'uint64_t', role };
        if (!/^u?int(32|64)_t$|^float$/.test(type)) {
          fail(`${name}.${field}: unknown type ${type}`, [...at, key, field]);
        }
        return { name: field, type, role: { role: 'value' } };
      });
    const parameters = fields('fields');
    if (entry['bulk'] && !parameters.some((p) => p.name === 'length' && p.type === 'uint64_t')) {
      fail(`${name}: a bulk command needs the field \`length: uint64_t\``, at);
    }
    if (entry['reply'] && entry['class'] !== 'round-trip') {
      fail(`${name}: only a round trip has a reply`, [...at, 'reply']);
    }
    commands.push({
      name,
      at: where(at),
      id: idOf(entry, name, at),
      call: false,
      class: entry['class'] as CallClass,
      parameters,
      reply: fields('reply'),
      server: 'hand',
      wait: entry['wait'] === true,
      bulk: entry['bulk'] === true,
      captured: entry['captured'] === true,
      about: String(entry['about'] ?? ''),
      ...(entry['starts'] ? { starts: entry['starts'] as Work } : {}),
    });
  }
  return { calls, commands };
}

/** The key at a path, where an error is shown: its value may stand lines below. */
function keyOf(document: Document, path: Path): { range?: Range | null } | undefined {
  let node: unknown = document.contents;
  let key: unknown;
  for (const part of path) {
    const pair = isMap(node)
      ? node.items.find((item) => isScalar(item.key) && item.key.value === part)
      : undefined;
    if (!pair) return key as { range?: Range } | undefined; // absent: its parent
    key = pair.key;
    node = pair.value;
  }
  return key as { range?: Range } | undefined;
}

export function readApi(folder: string, facts: Facts): Api {
  const api: Api = { calls: [], commands: [] };
  for (const name of readdirSync(folder)
    .filter((f) => f.endsWith('.yaml'))
    .sort()) {
    const file = path.join(folder, name);
    const family = readFamily(name, readFileSync(file, 'utf8'), facts);
    api.calls.push(...family.calls);
    api.commands.push(...family.commands);
  }
  checkApi(api);
  api.calls.sort((a, b) => (a.name < b.name ? -1 : 1));
  api.commands.sort((a, b) => a.id - b.id);
  return api;
}

function checkApi(api: Api): void {
  const ids = new Map<number, Command>();
  const commands = new Map<string, Command>();
  for (const command of api.commands) {
    const other = ids.get(command.id);
    if (other) {
      const text = `${command.name} has the id of ${other.name} (${other.at}): ${command.id}`;
      throw new ApiError(`${command.at}: ${text}`);
    }
    ids.set(command.id, command);
    const namesake = commands.get(command.name);
    if (namesake) {
      throw new ApiError(`${command.at}: ${command.name} is there already (${namesake.at})`);
    }
    commands.set(command.name, command);
  }
  const calls = new Map<string, Call>();
  for (const call of api.calls) {
    const namesake = calls.get(call.name);
    if (namesake) {
      throw new ApiError(`${call.at}: ${call.name} is described already (${namesake.at})`);
    }
    calls.set(call.name, call);
  }
  for (const call of api.calls) {
    checkWork(call, calls, commands);
    for (const used of call.uses) {
      if (!commands.has(used)) {
        throw new ApiError(`${call.at}: ${call.name} uses ${used}, which is no command`);
      }
    }
    if (call.as === undefined) continue;
    const target = calls.get(call.as);
    if (target?.id === undefined) {
      throw new ApiError(
        `${call.at}: ${call.name} is \`as: ${call.as}\`, which is no call with an id`,
      );
    }
    for (const name of Object.keys(call.with)) {
      if (!target.parameters.some((p) => p.name === name)) {
        throw new ApiError(`${call.at}: ${call.name}: ${call.as} has no parameter ${name}`);
      }
    }
  }
}

/** What is known to start work is described so, and so is the command that does it. */
function checkWork(call: Call, calls: Map<string, Call>, commands: Map<string, Command>): void {
  const said = call.as === undefined ? call.starts : calls.get(call.as)?.starts;
  const known = knownToStart(call.name);
  if (!known) return;
  if (known !== said) {
    const text = `${call.name} needs \`starts: ${known}\` (proto/generator/work.ts)`;
    throw new ApiError(`${call.at}: ${text}`);
  }
  if (call.as !== undefined || call.id !== undefined) return;
  if (!call.uses.some((name) => commands.get(name)?.starts === known)) {
    throw new ApiError(`${call.at}: ${call.name} starts a ${known}, and none of its commands does`);
  }
}
