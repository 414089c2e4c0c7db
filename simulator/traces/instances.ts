// Dilu's event lists of instances that start and end (behind its Fig. 17): a Python dict on each line.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import type { FunctionKind } from '../../monitor/policies/cluster/state.js';

export interface InstanceEvent {
  action: 'start' | 'delete';
  name: string;
  kind: FunctionKind;
  /** Thousandths of a GPU. */
  request: number;
  limit: number;
  /** GB, of each device. */
  memory: readonly number[];
}

/** Throws where the file is missing, or a line is none of these events; the line is named. */
export function readInstances(file: string): InstanceEvent[] {
  const raw = readFileSync(file);
  const text = (file.endsWith('.gz') ? gunzipSync(raw) : raw).toString('utf8');
  return parseInstances(text, file);
}

export function parseInstances(text: string, file: string): InstanceEvent[] {
  const events: InstanceEvent[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const event = parse(line);
    if (!event) throw new Error(`${file}, line ${index + 1}: not an event of an instance: ${line}`);
    events.push(event);
  }
  return events;
}

const kinds: readonly string[] = ['inference', 'llm-inference', 'training'];

function parse(line: string): InstanceEvent | null {
  let value: unknown;
  try {
    // Names have no quotes in them, so that what Python prints is JSON but for the kind of quote.
    value = JSON.parse(line.replaceAll("'", '"'));
  } catch {
    return null;
  }
  const { Action: action, Instance: one } = (value ?? {}) as { Action?: string; Instance?: Raw };
  if ((action !== 'start' && action !== 'delete') || !one) return null;
  const { service_name: name, type, sm_requests: request, sm_limits: limit, memory } = one;
  const numbers = [request, limit, ...(Array.isArray(memory) ? memory : [Number.NaN])];
  if (typeof name !== 'string' || !kinds.includes(type) || !numbers.every(Number.isFinite)) {
    return null;
  }
  return {
    ...{ action, name, kind: type as FunctionKind, memory },
    request: Math.round(1000 * request),
    limit: Math.round(1000 * limit),
  };
}

interface Raw {
  service_name: string;
  type: string;
  sm_requests: number;
  sm_limits: number;
  memory: number[];
}
