// What each call of NVML is answered with (proto/api-nvml/*.yaml), read, joined with the facts of the
// header and checked.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isMap, isScalar, LineCounter, type Pair, parseDocument } from 'yaml';
import { ApiError } from './api.js';
import type { Declaration, FunctionFacts } from './facts.js';

export interface NvmlFacts {
  version: number;
  declarations: Declaration[];
  /** Macros; a number that JSON cannot hold is text. */
  constants: [string, number | string][];
  functions: Record<string, FunctionFacts>;
}

/** Where an answer comes from, for people. */
const sources = ['library', 'session', 'monitor', 'GPU'] as const;
export type Source = (typeof sources)[number];

export type NvmlAnswer =
  /** `nvml_<name>` in nvml/src. */
  | { kind: 'hand' }
  /** Always the same, through the last parameter. */
  | { kind: 'value'; value: string }
  /** A field of DeviceState (control.proto) that may be absent, through the last parameter. */
  | { kind: 'field'; field: string }
  /** As another call answers. */
  | { kind: 'as'; call: string };

export interface NvmlCall {
  name: string;
  at: string;
  family: string;
  source: Source;
  needs: 'nothing' | 'init' | 'device';
  parameters: [type: string, name: string][];
  returns: string;
  answer: NvmlAnswer;
  about: string;
}

export interface NvmlApi {
  calls: NvmlCall[];
}

const keys = ['answer', 'source', 'needs', 'as', 'about'];

/** Reads one file; errors carry file and line. */
export function readNvmlFamily(file: string, text: string, facts: NvmlFacts): NvmlApi {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const first = document.errors[0];
  if (first) throw new ApiError(`${file}:${lines.linePos(first.pos[0]).line}: ${first.message}`);
  const { contents } = document;
  const whole = document.toJS() ?? {};
  const family = whole.family;
  if (!isMap(contents) || typeof family !== 'string') {
    throw new ApiError(`${file}:1: a family needs a name: \`family: NAME\``);
  }
  for (const key of Object.keys(whole)) {
    if (!['family', 'calls', 'undocumented'].includes(key)) {
      throw new ApiError(`${file}:1: unknown key ${key}`);
    }
  }
  // Functions of the library that no header declares are facts, too.
  for (const [name, parameters] of Object.entries(whole.undocumented ?? {})) {
    const declared = Object.entries(parameters as Record<string, string>);
    facts.functions[name] = {
      returns: 'nvmlReturn_t',
      parameters: declared.map(([argument, type]) => [type, argument]),
    };
  }
  const listed = contents.get('calls');
  const pairs = isMap(listed) ? listed.items : [];
  return {
    calls: pairs.map((pair) => readCall(pair, { file, lines, family, facts })),
  };
}

interface Reading {
  file: string;
  lines: LineCounter;
  family: string;
  facts: NvmlFacts;
}

function readCall({ key, value }: Pair, { file, lines, family, facts }: Reading): NvmlCall {
  const start = isScalar(key) ? (key.range?.[0] ?? 0) : 0;
  const at = `${file}:${lines.linePos(start).line}`;
  const name = String(isScalar(key) ? key.value : key);
  const fail = (message: string): never => {
    throw new ApiError(`${at}: ${name}: ${message}`);
  };
  const entry: Record<string, unknown> = isMap(value) ? value.toJSON() : fail('must be a mapping');
  for (const key of Object.keys(entry)) if (!keys.includes(key)) fail(`unknown key ${key}`);
  const fact = facts.functions[name] ?? fail('is no function of NVML');
  const parameters = fact.parameters ?? fail('the header gave no prototype');
  const answer = answerOf(entry, facts, fail);
  if (answer.kind === 'value' || answer.kind === 'field') {
    if (!/[^*]\*$/.test(parameters.at(-1)?.[0] ?? '')) fail('its last parameter holds no answer');
  }
  const ofDevice = parameters[0]?.[0] === 'nvmlDevice_t';
  const needs = entry['needs'] ?? (ofDevice ? 'device' : 'init');
  if (needs !== 'nothing' && needs !== 'init' && needs !== 'device') {
    return fail('needs must be nothing, init or device');
  }
  if (needs === 'device' && !ofDevice) fail('its first parameter is no device');
  if (answer.kind === 'field' && needs !== 'device') fail('a field is that of a device');
  const source = entry['source'] ?? (answer.kind === 'value' ? 'library' : undefined);
  if (answer.kind !== 'as' && !sources.includes(source as Source)) {
    fail(`source must be one of ${sources.join(', ')}`);
  }
  return {
    name,
    at,
    family,
    source: (source ?? 'library') as Source,
    needs,
    parameters,
    returns: fact.returns,
    answer,
    about: String(entry['about'] ?? ''),
  };
}

function answerOf(
  entry: Record<string, unknown>,
  facts: NvmlFacts,
  fail: (message: string) => never,
): NvmlAnswer {
  const { as, answer } = entry;
  if ((as === undefined) === (answer === undefined)) fail('needs either `answer` or `as`');
  if (as !== undefined) return { kind: 'as', call: String(as) };
  const text = String(answer);
  if (text === 'hand') return { kind: 'hand' };
  if (/^\d+$/.test(text)) return { kind: 'value', value: text };
  if (text.startsWith('NVML_')) {
    const known =
      facts.constants.some(([name]) => name === text) ||
      facts.declarations.some(({ values }) => values?.some(([name]) => name === text));
    return known ? { kind: 'value', value: text } : fail(`NVML has no ${text}`);
  }
  if (/^[a-z][a-z_]*$/.test(text)) return { kind: 'field', field: text };
  return fail('the answer must be hand, a number, a constant of NVML or a field of DeviceState');
}

export function readNvmlFacts(file: string): NvmlFacts {
  return JSON.parse(readFileSync(file, 'utf8')) as NvmlFacts;
}

export function readNvmlApi(folder: string, facts: NvmlFacts): NvmlApi {
  const api: NvmlApi = { calls: [] };
  const files = readdirSync(folder).filter((name) => name.endsWith('.yaml'));
  for (const name of files.sort()) {
    const text = readFileSync(path.join(folder, name), 'utf8');
    const family = readNvmlFamily(`api-nvml/${name}`, text, facts);
    api.calls.push(...family.calls);
  }
  checkNvmlApi(api);
  api.calls.sort((a, b) => (a.name < b.name ? -1 : 1));
  return api;
}

/** Across files: names are described once, and `as` names a call whose parameters are the same. */
export function checkNvmlApi({ calls }: NvmlApi): void {
  const byName = new Map<string, NvmlCall>();
  for (const call of calls) {
    const other = byName.get(call.name);
    if (other) throw new ApiError(`${call.at}: ${call.name} is described already (${other.at})`);
    byName.set(call.name, call);
  }
  for (const call of calls) {
    if (call.answer.kind !== 'as') continue;
    const target = byName.get(call.answer.call);
    if (!target || target.answer.kind === 'as') {
      throw new ApiError(
        `${call.at}: ${call.name} is as ${call.answer.call}, which answers nothing`,
      );
    }
    const types = ({ parameters }: NvmlCall) => parameters.map(([type]) => type).join();
    if (types(call) !== types(target)) {
      throw new ApiError(`${call.at}: ${call.name} has other parameters than ${target.name}`);
    }
    call.source = target.source;
    call.about ||= target.about;
  }
}
