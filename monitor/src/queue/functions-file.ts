// The functions file: what an operator knows of functions that sessions are instances of. For each what slowing down it
// bears, beside whom it was measured to be how much slower, and on how many SMs it runs. YAML; every error names its line.
import { readFileSync } from 'node:fs';
import { type Document, isMap, isScalar, LineCounter, type Node, parseDocument } from 'yaml';
import {
  type FunctionProfile,
  type FunctionsTable,
  nothingProfiled,
} from '../../policies/admission.js';
import { OutboardError } from '../base/errors.js';
import { didYouMean } from '../options/nearest.js';

const bytesMost = 16 << 20;
const functionsMost = 10_000;
const nameMost = 256;

/** Throws OB_FUNCTIONS_FILE. */
export function readFunctionsFile(file: string): FunctionsTable {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new OutboardError('OB_FUNCTIONS_FILE', `${file}: ${(error as Error).message}`);
  }
  return parseFunctions(text, file);
}

export function parseFunctions(text: string, file: string): FunctionsTable {
  return new Source(text, file).read();
}

/** A mapping with its fields by name; what nobody has asked for is unknown. */
type Fields = ReadonlyMap<string, Node | null>;

class Source {
  readonly #file: string;
  readonly #lines = new LineCounter();
  readonly #document: Document;

  constructor(text: string, file: string) {
    this.#file = file;
    if (text.length > bytesMost) throw this.#wrong(0, `it is larger than ${bytesMost} bytes`);
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    const [problem] = this.#document.errors;
    if (problem) throw this.#wrong(problem.pos[0], problem.message);
  }

  read(): FunctionsTable {
    const top = this.#fields(this.#document.contents, 'the file', [
      ...['version', 'functions', 'unknown', 'bound', 'safety'],
    ]);
    const version = top.get('version');
    if (!isScalar(version) || version.value !== 'v1')
      throw this.#wrong(offset(version), 'the line `version: v1` is missing');
    const functions = new Map<string, FunctionProfile>();
    const named = this.#fields(top.get('functions') ?? null, 'functions', null);
    if (named.size > functionsMost)
      throw this.#wrong(offset(top.get('functions')), `more than ${functionsMost} functions`);
    const { unknown, safety } = nothingProfiled;
    const bound = this.#percent(top, 'bound', 0, 1000) ?? nothingProfiled.bound;
    for (const [name, node] of named) functions.set(name, this.#profile(name, node, bound));
    return {
      functions,
      unknown: this.#percent(top, 'unknown', 0, 1000) ?? unknown,
      bound,
      safety: this.#number(top, 'safety', 1, 20) ?? safety,
    };
  }

  #profile(name: string, node: Node | null, bound: number): FunctionProfile {
    const fields = this.#fields(node, name, ['slo', 'solo', 'bears', 'slowed', 'sm']);
    const slo = this.#number(fields, 'slo', 0.001, 1e9);
    const solo = this.#number(fields, 'solo', 0.001, 1e9);
    const bears = this.#percent(fields, 'bears', 0, 1e6);
    if (slo !== null && bears !== null)
      throw this.#wrong(offset(node), `${name}: give slo with solo, or bears, and not both`);
    if ((slo === null) !== (solo === null))
      throw this.#wrong(offset(node), `${name}: slo and solo, in milliseconds, say it together`);
    const slowed = new Map<string, number>();
    const others = fields.get('slowed');
    if (others !== undefined) {
      const given = this.#fields(others, `slowed of ${name}`, null);
      for (const other of given.keys()) slowed.set(other, this.#percent(given, other, 0, 1e6) ?? 0);
    }
    const byObjective = slo === null || solo === null ? null : slo / solo - 1;
    return {
      // One of which it is not said what it bears is held to the bound of all.
      bears: byObjective ?? bears ?? bound,
      ...{ slowed, sm: this.#number(fields, 'sm', 1, 100) },
    };
  }

  /** `known` null: any names. */
  #fields(node: unknown, what: string, known: readonly string[] | null): Fields {
    if (!isMap(node)) throw this.#wrong(offset(node), `${what}: expected names and values`);
    const fields = new Map<string, Node | null>();
    for (const { key, value } of node.items) {
      const name = isScalar(key) ? String(key.value) : '';
      if (name === '' || name.length > nameMost)
        throw this.#wrong(
          offset(key),
          `${what}: a name of 1 to ${nameMost} characters is expected`,
        );
      if (known && !known.includes(name))
        throw this.#wrong(
          offset(key),
          `${what}: there is no ${name}${didYouMean(name, known) || `; there are ${known.join(', ')}`}`,
        );
      fields.set(name, value as Node | null);
    }
    return fields;
  }

  #number(fields: Fields, name: string, least: number, most: number): number | null {
    const node = fields.get(name);
    if (node === undefined) return null;
    const value = isScalar(node) ? node.value : null;
    if (typeof value === 'number' && value >= least && value <= most) return value;
    throw this.#wrong(offset(node), `${name}: expected a number from ${least} to ${most}`);
  }

  /** As a part. */
  #percent(fields: Fields, name: string, least: number, most: number): number | null {
    const value = this.#number(fields, name, least, most);
    return value === null ? null : value / 100;
  }

  #wrong(at: number, what: string): OutboardError {
    const { line } = this.#lines.linePos(at);
    return new OutboardError('OB_FUNCTIONS_FILE', `${this.#file}:${line || 1}: ${what}`);
  }
}

function offset(node: unknown): number {
  return (node as Node | null | undefined)?.range?.[0] ?? 0;
}
