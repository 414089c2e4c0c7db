// What policies of a cluster decide on: functions, their instances and the requests for them. Plain data with indexes:
// a decision does not go through everything to find what concerns it.
import type { LedgerView } from './ledger.js';
import type { Resources } from './resources.js';

/** Of this description. Whoever stores states or a policy's memory stores it, too, and refuses another. */
export const contractVersion = 1;

/** strict: has a deadline. best-effort: has none, and fills what is left. */
export type RequestClass = 'strict' | 'best-effort';

export type FunctionKind = 'inference' | 'llm-inference' | 'training';

export interface FunctionState {
  name: string;
  kind: FunctionKind;
  class: RequestClass;
  /** Milliseconds from arrival to answer that are promised; null: nothing is. */
  slo: number | null;
  /** Devices that each instance wants, all different; what follows is wanted of each. */
  devices: number;
  resources: Resources;
  /** Requests that an instance takes at once. */
  batch: number;
  /** Milliseconds that a batch takes on a whole device with nobody beside, measured; null: it was never profiled. */
  solo: number | null;
}

export type RequestId = number;

export interface RequestState {
  id: RequestId;
  name: string;
  class: RequestClass;
  /** Milliseconds, on the clock of ClusterState.now. */
  arrived: number;
  /** Milliseconds on the same clock; null: it has no deadline. */
  deadline: number | null;
}

export interface ClusterState {
  version: typeof contractVersion;
  /** Goes up with each change: an effect that was decided on an older one is checked again. */
  revision: number;
  /** Milliseconds. Policies have no clock of their own, and bear one that goes backwards. */
  now: number;
  ledger: LedgerView;
  functions: ReadonlyMap<string, FunctionState>;
  /** Requests that wait, in the order of arrival. */
  waiting: readonly RequestState[];
}

/** Requests of one function that run together. */
export interface BatchState {
  id: number;
  name: string;
  class: RequestClass;
  requests: readonly RequestId[];
}

export type Market = 'spot' | 'on-demand';

/** What has happened, with what was measured. */
export type ClusterEvent =
  /** Of these there is one at most in a decision: what that places is in the ledger for the next. */
  | { kind: 'instance wanted'; instance: number; name: string; parts: readonly Resources[] }
  | { kind: 'instance ended'; instance: number; name: string }
  | { kind: 'request arrived'; request: RequestState }
  /** Milliseconds of service. */
  | { kind: 'request served'; request: RequestState; took: number }
  /** Requests of a function that have come in the period that just ended, and how long that was, in milliseconds. */
  | { kind: 'rate'; name: string; requests: number; period: number }
  /** By what part `beside` makes `name` slower where the two share a device, measured when nobody else was there. */
  | { kind: 'profiled'; name: string; beside: string; degradation: number }
  /** On a slice: what part of its bandwidth a function uses, and how often longer it takes than on a whole GPU. */
  | { kind: 'sliced'; name: string; slice: string; bandwidth: number; slowdown: number }
  /** Milliseconds of a batch with these thousandths of SMs and time, measured or predicted. */
  | { kind: 'timed'; name: string; batch: number; sm: number; time: number; latency: number }
  /** A batch of one function that a queue policy has made. */
  | { kind: 'batch ready'; batch: BatchState }
  /** A machine of the cloud is there, or was refused, or has gone. */
  | { kind: 'machine'; market: Market; what: 'granted' | 'refused' | 'gone' }
  /** By what part an instance was slower than alone, among those that shared its device. */
  | { kind: 'measured'; name: string; beside: readonly string[]; degradation: number }
  | { kind: 'device lost'; device: number; instances: readonly number[] }
  /** A machine of the spot market, which is a node, will be taken away in so many milliseconds. */
  | { kind: 'eviction'; node: number; notice: number }
  /** What came of an effect; null: it was carried out. */
  | { kind: 'acknowledged'; effect: Effect; failed: string | null };

/** A count that was lost, or a period without end or length, says nothing of the requests to come. */
export function isMeasured({ requests, period }: { requests: number; period: number }): boolean {
  return requests >= 0 && Number.isFinite(requests) && period > 0 && Number.isFinite(period);
}

/** Why, for people: one line, and the figures that it rests on. */
export interface Reason {
  text: string;
  figures?: Readonly<Record<string, number>>;
}

/** What is to be done. */
export type Effect = { reason: Reason } & (
  | {
      kind: 'place';
      instance: number;
      name: string;
      parts: readonly { device: number; resources: Resources }[];
    }
  | { kind: 'wait'; instance: number; name: string }
  /** The instance ends, once it has done what it has begun. */
  | { kind: 'end'; instance: number }
  /** From now on this instance has so much of each of its devices. */
  | { kind: 'quota'; instance: number; resources: Resources }
  /** Of the function's instances there should be so many more, or fewer. */
  | { kind: 'scale'; name: string; by: number }
  /** So many containers of the function should be warm, until the time; 0: none. */
  | { kind: 'prewarm'; name: string; containers: number; until: number }
  /** The GPU should have these slices; what runs on the touched ones ends first. */
  | { kind: 'partition'; gpu: number; slices: readonly string[] }
  | { kind: 'procure'; market: Market; count: number }
  /** So many machines fewer. */
  | { kind: 'give up'; market: Market; count: number }
  | { kind: 'drain'; node: number; within: number }
  /** The requests that run next, first first. */
  | { kind: 'order'; requests: readonly RequestId[] }
  /** These run together, as soon as there is a device for them. */
  | { kind: 'batch'; name: string; class: RequestClass; requests: readonly RequestId[] }
  /** Their deadlines cannot be met any more. */
  | { kind: 'drop'; requests: readonly RequestId[] }
  | { kind: 'dispatch'; batch: number; device: number }
);

export type EffectKind = Effect['kind'];

/** What is wrong with an effect in this state; null: it can be carried out. Whoever carries effects out asks first. */
export function problemOf(effect: Effect, { ledger, functions, waiting }: ClusterState) {
  switch (effect.kind) {
    case 'place': {
      const { instance, parts } = effect;
      if (ledger.entry(instance)) return `instance ${instance} has its place already`;
      if (parts.length === 0) return `instance ${instance} is placed nowhere`;
      const devices = new Set(parts.map(({ device }) => device));
      if (devices.size < parts.length) return `instance ${instance} is twice on one device`;
      const memory = { sm: Number.POSITIVE_INFINITY, smLimit: Number.POSITIVE_INFINITY };
      const full = parts.find(({ device, resources }) => {
        return !ledger.devices[device] || !ledger.fits(device, resources, memory);
      });
      return full ? `device ${full.device} has no room for instance ${instance}` : null;
    }
    case 'end':
    case 'quota':
      return ledger.entry(effect.instance) ? null : `there is no instance ${effect.instance}`;
    case 'scale':
    case 'prewarm':
      return functions.has(effect.name) ? null : `there is no function ${effect.name}`;
    case 'dispatch':
      return ledger.devices[effect.device] ? null : `there is no device ${effect.device}`;
    case 'batch':
    case 'order':
    case 'drop':
      return unknown(effect.requests, waiting);
    default:
      return null;
  }
}

function unknown(requests: readonly RequestId[], waiting: readonly RequestState[]): string | null {
  const known = new Set(waiting.map(({ id }) => id));
  const stray = requests.find((id) => !known.has(id));
  if (stray !== undefined) return `request ${stray} does not wait`;
  return new Set(requests).size < requests.length ? 'a request is named twice' : null;
}
