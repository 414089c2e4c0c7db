// The semantics kept by hand (proto/api/*.yaml), read, joined with the facts and checked.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { LineCounter, parseDocument } from 'yaml';
import type { Facts } from './facts.js';

export type CallClass = 'local' | 'posted' | 'deferred' | 'round-trip';
export type Needs = 'nothing' | 'init' | 'context';
export const handleKinds = ['stream', 'event', 'module', 'function'] as const;
export type HandleKind = (typeof handleKinds)[number];

/** What a parameter or field is on the wire. */
export type Role =
  | { role: 'value' }
  | { role: 'handle' | 'mint' | 'consume'; kind: HandleKind }
  | { role: 'address'; size: string[] }
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
  starts?: 'work';
  status: string[];
  /** Suffixes of the per-thread default stream variants that exist. */
  variants: string[];
}

/** Something that travels: a call with an id, or a command of ours. */
export interface Command {
  name: string;
  id: number;
  /** Whether it is a driver call of that name. */
  call: boolean;
  class: CallClass;
  parameters: Parameter[];
  reply: Parameter[];
  server: 'hand' | 'generated';
  wait: boolean;
  bulk: boolean;
  starts?: 'work';
  about: string;
}

export interface Api {
  calls: Call[];
  commands: Command[];
}

export class ApiError extends Error {}

const classes: CallClass[] = ['local', 'posted', 'deferred', 'round-trip'];
const callKeys = ['id', 'class', 'parameters', 'guest', 'server', 'wait', 'uses', 'as', 'with', 'starts', 'status', 'prototype', 'needs'];
const commandKeys = ['id', 'class', 'bulk', 'wait', 'starts', 'fields', 'reply', 'about'];

interface RawEntry {
  [key: string]: unknown;
}

export function parseRole(text: string): Role | undefined {
  const [head = '', ...rest] = text.trim().split(/\s+/);
  if (head === 'out' || head === 'string' || head === 'bytes') return { role: head };
  if (head === 'address') return { role: 'address', size: rest };
  if (head === 'mint' || head === 'consume') {
    const kind = rest[0] as HandleKind;
    return handleKinds.includes(kind) ? { role: head, kind } : undefined;
  }
  if (handleKinds.includes(head as HandleKind)) return { role: 'handle', kind: head as HandleKind };
  return undefined;
}

/** Reads one file of semantics; errors carry file and line. */
export function readFamily(file: string, text: string, facts: Facts): Api {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const fail = (message: string, at?: readonly (string | number)[]): never => {
    const node = at ? (document.getIn(at, true) as { range?: [number, number, number] }) : undefined;
    const line = node?.range ? lines.linePos(node.range[0]).line : 1;
    throw new ApiError(`${file}:${line}: ${message}`);
  };
  const first = document.errors[0];
  if (first) throw new ApiError(`${file}:${lines.linePos(first.pos[0]).line}: ${first.message}`);
  const raw = document.toJS() as RawEntry;
  const family = String(raw['family'] ?? fail('a family needs a name: `family: NAME`'));
  const familyNeeds = (raw['needs'] ?? 'context') as Needs;
  for (const key of Object.keys(raw)) {
    if (!['family', 'needs', 'calls', 'commands'].includes(key)) fail(`unknown key ${key}`, [key]);
  }

  const calls: Call[] = [];
  const commands: Command[] = [];
  for (const [name, entry] of Object.entries((raw['calls'] ?? {}) as Record<string, RawEntry>)) {
    const at = ['calls', name];
    for (const key of Object.keys(entry)) {
      if (!callKeys.includes(key)) fail(`${name}: unknown key ${key}`, [...at, key]);
    }
    const fact = facts.functions[name] ?? fail(`${name} is not an entry point of the driver`, at);
    if (!classes.includes(entry['class'] as CallClass)) {
      fail(`${name}: class must be one of ${classes.join(', ')}`, at);
    }
    const prototype = fact.parameters ?? (entry['prototype'] === 'void' ? [] : null);
    if (!prototype) fail(`${name}: the header gave no prototype; say \`prototype: void\``, at);
    const roles = (entry['parameters'] ?? {}) as Record<string, string>;
    for (const key of Object.keys(roles)) {
      if (!prototype?.some(([, p]) => p === key)) fail(`${name} has no parameter ${key}`, [...at, 'parameters', key]);
    }
    const parameters = (prototype ?? []).map(([type, parameter]): Parameter => {
      const text = roles[parameter];
      if (text === undefined) return { name: parameter, type, role: { role: 'value' } };
      const role = parseRole(text) ?? fail(`${name}.${parameter}: unknown role ${text}`, [...at, 'parameters', parameter]);
      return { name: parameter, type, role };
    });
    const call: Call = {
      name,
      family,
      class: entry['class'] as CallClass,
      needs: (entry['needs'] ?? familyNeeds) as Needs,
      parameters,
      guest: entry['class'] === 'local' || entry['guest'] === 'hand' ? 'hand' : 'generated',
      uses: (entry['uses'] ?? []) as string[],
      with: (entry['with'] ?? {}) as Record<string, string>,
      status: (entry['status'] ?? []) as string[],
      variants: ['_ptsz', '_ptds'].filter((suffix) => facts.functions[name + suffix]),
      ...(entry['id'] === undefined ? {} : { id: entry['id'] as number }),
      ...(entry['as'] === undefined ? {} : { as: entry['as'] as string }),
      ...(entry['starts'] === undefined ? {} : { starts: 'work' as const }),
    };
    calls.push(call);
    if (call.id === undefined) {
      if (call.guest === 'generated' && !call.as) fail(`${name}: needs an id, \`as\` or \`guest: hand\``, at);
      continue;
    }
    commands.push({
      name,
      id: call.id,
      call: true,
      class: call.class,
      parameters: parameters.filter((p) => p.role.role !== 'out'),
      reply: parameters.filter((p) => p.role.role === 'out').map((p) => ({ ...p, type: p.type.replace(/\s*\*$/, '') })),
      server: entry['server'] === 'hand' ? 'hand' : 'generated',
      wait: entry['wait'] === true,
      bulk: false,
      about: '',
      ...(call.starts ? { starts: call.starts } : {}),
    });
  }

  for (const [name, entry] of Object.entries((raw['commands'] ?? {}) as Record<string, RawEntry>)) {
    const at = ['commands', name];
    for (const key of Object.keys(entry)) {
      if (!commandKeys.includes(key)) fail(`${name}: unknown key ${key}`, [...at, key]);
    }
    if (typeof entry['id'] !== 'number') fail(`${name}: a command needs an id`, at);
    const fields = (key: 'fields' | 'reply') =>
      Object.entries((entry[key] ?? {}) as Record<string, string>).map(([field, type]): Parameter => {
        const role = parseRole(type);
        if (role) return { name: field, type: 'uint64_t', role };
        if (!/^u?int(32|64)_t$|^float$/.test(type)) fail(`${name}.${field}: unknown type ${type}`, [...at, key, field]);
        return { name: field, type, role: { role: 'value' } };
      });
    commands.push({
      name,
      id: entry['id'] as number,
      call: false,
      class: entry['class'] as CallClass,
      parameters: fields('fields'),
      reply: fields('reply'),
      server: 'hand',
      wait: entry['wait'] === true,
      bulk: entry['bulk'] === true,
      about: String(entry['about'] ?? ''),
      ...(entry['starts'] ? { starts: 'work' as const } : {}),
    });
  }
  return { calls, commands };
}

export function readApi(folder: string, facts: Facts): Api {
  const api: Api = { calls: [], commands: [] };
  for (const name of readdirSync(folder).filter((f) => f.endsWith('.yaml')).sort()) {
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
  const ids = new Map<number, string>();
  for (const command of api.commands) {
    const other = ids.get(command.id);
    if (other) throw new ApiError(`${command.name} and ${other} have the same id ${command.id}`);
    if (command.id < 1 || command.id >= 0x8000) throw new ApiError(`${command.name}: id out of range`);
    ids.set(command.id, command.name);
  }
  const names = new Set(api.commands.map((c) => c.name));
  for (const call of api.calls) {
    for (const used of [...call.uses, ...(call.as ? [call.as] : [])]) {
      if (!names.has(used)) throw new ApiError(`${call.name} uses ${used}, which is no command`);
    }
  }
}
