// What a policy of a cluster is: a pure function from state, events and its own memory to effects with reasons. It has
// no clock, no sockets and no chance, changes nothing that it was given, and its memory is plain data that can be stored.
import type { ClusterEvent, ClusterState, Effect } from './state.js';

/**
 * queue: which request is next. placement: which devices an instance gets. quota: how much of them it may use.
 * scaling: how many instances a function has. prewarm: which functions are kept warm. partition: into which slices a GPU
 * is divided. procurement: which machines are rented.
 */
export const policyKinds = [
  'queue',
  'placement',
  'quota',
  'scaling',
  'prewarm',
  'partition',
  'procurement',
] as const;

export type PolicyKind = (typeof policyKinds)[number];

/** Where something is written. */
export interface Source {
  paper: 'Dilu' | 'SMORE' | 'PROTEAN' | 'HAS-GPU' | 'DGSF' | 'ours';
  /** Section, algorithm or figure; what is not in the paper says so. */
  section: string;
}

export interface Parameter {
  default: number;
  least: number;
  most: number;
  /** One line, with the unit. */
  summary: string;
  source: Source;
}

export type Parameters<Names extends string> = Readonly<Record<Names, number>>;

export interface Input<Memory, Names extends string> {
  state: ClusterState;
  /** What has happened since the last decision, oldest first. */
  events: readonly ClusterEvent[];
  memory: Memory;
  parameters: Parameters<Names>;
}

export interface Decision<Memory> {
  effects: readonly Effect[];
  memory: Memory;
}

export interface ClusterPolicy<Memory = unknown, Names extends string = string> {
  name: string;
  kind: PolicyKind;
  /** One line, for `outboard policies`. */
  summary: string;
  source: Source;
  parameters: Readonly<Record<Names, Parameter>>;
  /** Names of policies of other kinds without which this one makes no sense; of each kind that is named, one of them. */
  needs?: Partial<Record<PolicyKind, readonly string[]>>;
  /** What it remembers at first. */
  start(): Memory;
  decide(input: Input<Memory, Names>): Decision<Memory>;
}

/** The values of a policy's parameters, those that are not given by default. Throws where one is unknown or out of range. */
export function parametersOf<Names extends string>(
  { name, parameters }: Pick<ClusterPolicy<unknown, Names>, 'name' | 'parameters'>,
  given: Readonly<Record<string, number>> = {},
): Parameters<Names> {
  const known = Object.keys(parameters) as Names[];
  for (const [parameter, value] of Object.entries(given)) {
    const about = parameters[parameter as Names];
    if (!about || !Object.hasOwn(parameters, parameter)) {
      const which = known.length > 0 ? `one of ${known.join(', ')}` : 'none';
      throw new RangeError(`${name} has no parameter ${parameter}: expected ${which}`);
    }
    const { least, most } = about;
    if (!(value >= least && value <= most)) {
      throw new RangeError(
        `${name}: ${parameter} is ${value}: expected a number from ${least} to ${most}`,
      );
    }
  }
  const values = known.map((parameter) => [
    parameter,
    given[parameter] ?? parameters[parameter].default,
  ]);
  return Object.fromEntries(values) as Parameters<Names>;
}
