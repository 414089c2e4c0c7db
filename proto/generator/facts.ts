// The machine-made facts of the vendor's header: shapes of `proto/facts/cuda-*.json`.
import { readFileSync } from 'node:fs';

export interface Field {
  name: string;
  type?: string;
  record?: RecordFacts;
  /** Name of a nested record that is visible outside its parent. */
  tag?: string;
  dims?: number[];
  bits?: number;
  offset: number | null;
}

export interface RecordFacts {
  kind: 'struct' | 'union';
  size: number;
  align: number;
  fields: Field[];
}

export interface Declaration extends Partial<RecordFacts> {
  typedef?: string;
  type?: string;
  function?: { returns: string; parameters: string[] };
  record?: string;
  forward?: string;
  enum?: string;
  values?: [string, number][];
}

export interface FunctionFacts {
  returns: string;
  /** `[type, name]` pairs; null where the header could not be parsed (GL, EGL and VDPAU interop). */
  parameters: [string, string][] | null;
}

/** `[name, version, suffix, abi]`: what cuGetProcAddress answers for a name asked at a version. */
export type Lookup = [name: string, version: number, suffix: string, abi: string];

export interface Facts {
  version: number;
  declarations: Declaration[];
  functions: Record<string, FunctionFacts>;
  lookups: Lookup[];
}

export function readFacts(file: string): Facts {
  return JSON.parse(readFileSync(file, 'utf8')) as Facts;
}

/** By function, the first version of CUDA that has it: 12040 is 12.4. */
export function sinceWhen(facts: Facts): Map<string, number> {
  const since = new Map<string, number>();
  for (const [, version, , abi] of facts.lookups)
    since.set(abi, Math.min(version, since.get(abi) ?? version));
  return since;
}
