// A scenario, as its file has it: what GPUs there are, who comes, and which policies are compared.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { placementPolicies, queuePolicies } from '../../monitor/policies/index.js';
import type { PlacementParameters } from '../../monitor/policies/placement.js';
import type { SessionClass } from '../../monitor/policies/state.js';
import { formatExactBytes, parseBytes } from '../../monitor/src/options/values.js';
import { type AzureFormat, azureFormats } from '../traces/azure.js';

/** What a session asks for. */
export interface Wants {
  tenant: string;
  class: SessionClass;
  /** Bytes; null: it does not say. */
  memory: bigint | null;
  share: { request: number; limit: number };
}

/** Sessions of one program that come at random. */
export interface Kind extends Wants {
  name: string;
  /** Of so many programs, the second half as often called as the first, the third a third as often, and so on. */
  functions: number;
  perHour: number;
  /** Seconds that half of them are shorter than, and how much longer the longest are. */
  seconds: number;
  spread: number;
  /** Seconds after which one that waits leaves; null: never. */
  patience: number | null;
}

/** Calls of a published trace, each a session. */
export interface Trace extends Wants {
  format: AzureFormat;
  /** Paths. */
  file: string;
  durations: string | null;
  /** At most so many functions of it. */
  functions: number;
  /** Where it does not say how long a call takes. */
  seconds: number;
  tokens: { context: number; generated: number };
  patience: number | null;
}

export interface Scenario {
  name: string;
  gpus: { count: number; memory: bigint; slots: number };
  placement: readonly string[];
  parameters: PlacementParameters;
  /** In which order those who wait have their turns. */
  queue: readonly string[];
  /** Whether who fits may pass others. */
  queueSkip: readonly boolean[];
  /** What different sessions on one GPU get done together, as a multiple of one; null: nobody slows anybody down. */
  sharingGain: number | null;
  /** Of what is made up. */
  hours: number;
  seed: number;
  kinds: readonly Kind[];
  /** Path of a server's log; null: there is none. */
  log: string | null;
  trace: Trace | null;
}

export class ScenarioError extends Error {}

/** Throws a ScenarioError that names the file, the place in it and what is expected there. */
export function readScenario(file: string): Scenario {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new ScenarioError(`${file}: ${(error as Error).message}`);
  }
  return parseScenario(text, file);
}

export function parseScenario(text: string, file: string): Scenario {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    throw new ScenarioError(`${file}: ${(error as Error).message.trim()}`);
  }
  const top = new Fields(value, file, '');
  const gpus = top.fields('gpus');
  const placement = top.names('placement', [...placementPolicies.keys()]);
  const queue = top.names('queue', [...queuePolicies.keys()], ['first-come']);
  const log = top.text('log', null);
  const kinds = top
    .list('sessions', [])
    .map((one, at) => kindOf(new Fields(one, file, `sessions[${at}]`)));
  const trace = top.has('trace') ? traceOf(top.fields('trace'), path.dirname(file)) : null;
  if (log === null && trace === null && kinds.length === 0) {
    throw new ScenarioError(`${file}: nobody comes: give \`log\`, \`trace\` or \`sessions\``);
  }
  const gain = top.number('sharingGain', null, 1, 100);
  const scenario: Scenario = {
    name: top.text('name', path.basename(file)) ?? '',
    gpus: {
      count: gpus.whole('count', 1, 100_000),
      memory: gpus.bytes('memory'),
      slots: gpus.whole('slots', 1, 1000),
    },
    ...{ placement, queue },
    parameters: {
      omega: top.number('omega', 1, 0.01, 1) ?? 1,
      gamma: top.number('gamma', 1.5, 1, 100) ?? 1.5,
    },
    queueSkip: top.list('queueSkip', [false]).map((one) => {
      if (typeof one === 'boolean') return one;
      throw top.wrong('queueSkip', one, 'true and false');
    }),
    sharingGain: gain,
    hours: top.number('hours', 1, 0.001, 24 * 366) ?? 1,
    seed: top.number('seed', 1, 0, 2 ** 32 - 1) ?? 1,
    kinds,
    log: log === null ? null : path.resolve(path.dirname(file), log),
    trace,
  };
  gpus.end();
  top.end();
  return scenario;
}

function wantsOf(fields: Fields): Wants {
  const text = fields.text('share', '0:100') ?? '';
  const share = /^(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$/.exec(text);
  const [request, limit] = [Number(share?.[1]), Number(share?.[2])];
  if (!share || !(request <= limit && limit <= 100)) {
    throw fields.wrong('share', text, 'REQUEST:LIMIT in percent, as 10:30');
  }
  const its = fields.text('class', 'latency-strict');
  if (its !== 'latency-strict' && its !== 'best-effort') {
    throw fields.wrong('class', its, 'latency-strict or best-effort');
  }
  return {
    tenant: fields.text('tenant', '') ?? '',
    class: its,
    memory: fields.has('memory') ? fields.bytes('memory') : null,
    share: { request, limit },
  };
}

/** With a path that begins at the folder. */
function traceOf(fields: Fields, folder: string): Trace {
  const format = fields.text('format', undefined) ?? '';
  const known = azureFormats.find((one) => one === format);
  if (!known) throw fields.wrong('format', format, `one of ${azureFormats.join(', ')}`);
  const durations = fields.text('durations', null);
  // Where the trace does not say how long each takes, the scenario has to.
  const untold = known === 'azure-functions-2019' && durations === null ? undefined : 1;
  const speed = known === 'azure-llm' ? undefined : 1;
  const trace: Trace = {
    ...wantsOf(fields),
    format: known,
    file: path.resolve(folder, fields.text('file', undefined) ?? ''),
    durations: durations === null ? null : path.resolve(folder, durations),
    functions: fields.whole('functions', 1, 1e6, 10_000),
    seconds: fields.number('seconds', untold, 0.001, 1e6) ?? 1,
    tokens: {
      context: fields.number('contextTokensPerSecond', speed, 1e-3, 1e9) ?? 1,
      generated: fields.number('generatedTokensPerSecond', speed, 1e-3, 1e9) ?? 1,
    },
    patience: fields.number('patience', null, 0, 1e7),
  };
  fields.end();
  return trace;
}

function kindOf(fields: Fields): Kind {
  const kind: Kind = {
    ...wantsOf(fields),
    name: fields.text('name', undefined) ?? '',
    functions: fields.whole('functions', 1, 1e6, 1),
    perHour: fields.number('perHour', undefined, 0.001, 1e7) ?? 0,
    seconds: fields.number('seconds', undefined, 0.001, 1e7) ?? 0,
    spread: fields.number('spread', 0.5, 0, 5) ?? 0.5,
    patience: fields.number('patience', null, 0, 1e7),
  };
  fields.end();
  return kind;
}

/** Fields of a mapping, each asked for by name; what nobody has asked for is unknown. */
class Fields {
  readonly #fields: Record<string, unknown>;
  readonly #file: string;
  readonly #where: string;
  readonly #asked = new Set<string>();

  constructor(value: unknown, file: string, where: string) {
    this.#file = file;
    this.#where = where;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new ScenarioError(`${file}: ${where || 'the file'}: expected fields with names`);
    }
    this.#fields = value as Record<string, unknown>;
  }

  has(name: string): boolean {
    return this.#fields[name] !== undefined;
  }

  wrong(name: string, value: unknown, expected: string): ScenarioError {
    const said = value === undefined ? 'is missing' : `is ${JSON.stringify(value)}`;
    return new ScenarioError(`${this.#file}: ${this.#named(name)} ${said}: expected ${expected}`);
  }

  #named(name: string): string {
    return this.#where === '' ? name : `${this.#where}.${name}`;
  }

  #value(name: string): unknown {
    this.#asked.add(name);
    return this.#fields[name];
  }

  /** `fallback` undefined: it has to be there. */
  text<T extends string | null>(name: string, fallback: T | undefined): string | T {
    const value = this.#value(name);
    if (value === undefined && fallback !== undefined) return fallback;
    if (typeof value !== 'string') throw this.wrong(name, value, 'text');
    return value;
  }

  number(name: string, fallback: number | null | undefined, least: number, most: number) {
    const value = this.#value(name);
    if (value === undefined && fallback !== undefined) return fallback;
    if (typeof value !== 'number' || !(value >= least && value <= most)) {
      throw this.wrong(name, value, `a number from ${least} to ${most}`);
    }
    return value;
  }

  whole(name: string, least: number, most: number, fallback?: number): number {
    const value = this.number(name, fallback, least, most);
    if (value === null || !Number.isInteger(value)) {
      throw this.wrong(name, value, `a whole number from ${least} to ${most}`);
    }
    return value;
  }

  bytes(name: string): bigint {
    const value = this.#value(name);
    try {
      return parseBytes(String(value));
    } catch {
      throw this.wrong(name, value, `an amount of memory, as ${formatExactBytes(16n << 30n)}`);
    }
  }

  list(name: string, fallback: readonly unknown[]): readonly unknown[] {
    const value = this.#value(name) ?? fallback;
    if (!Array.isArray(value) || (value.length === 0 && fallback.length > 0)) {
      throw this.wrong(name, value, 'a list');
    }
    return value;
  }

  /** Some of those known; left out: `fallback`. */
  names(name: string, known: readonly string[], fallback = known): readonly string[] {
    return this.list(name, fallback).map((one) => {
      if (typeof one === 'string' && known.includes(one)) return one;
      throw this.wrong(name, one, `some of ${known.join(', ')}`);
    });
  }

  fields(name: string): Fields {
    return new Fields(this.#value(name), this.#file, this.#named(name));
  }

  /** Throws where there is a field that nobody has asked for. */
  end() {
    const unknown = Object.keys(this.#fields).find((name) => !this.#asked.has(name));
    if (unknown === undefined) return;
    const known = [...this.#asked].join(', ');
    throw new ScenarioError(
      `${this.#file}: ${this.#named(unknown)} is unknown: expected some of ${known}`,
    );
  }
}
