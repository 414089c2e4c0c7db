// How the simulator behind Dilu's Fig. 17 decides, where that is not Algorithm 1: what its authors' code was seen to do,
// written anew. Devices are tried in the order in which they came into use; of equals the first wins (theirs are ordered
// by a set, which is by chance). Their sums are floating point; ours are whole numbers.
import type { LedgerView, Part } from '../ledger.js';
import type { ClusterPolicy, Decision, Parameter } from '../policy.js';
import { type Bounds, type Resources, whole } from '../resources.js';
import type { ClusterEvent, ClusterState, Effect, FunctionKind } from '../state.js';

interface Rules extends Differences {
  bounds: Bounds;
}

/** In what the policies differ that their simulator compares. */
export interface Differences {
  /** What a part of an instance counts as. */
  counted(resources: Resources): Resources;
  /** What memory counts beside SMs: 0, or 0.4 to 0.6. */
  alpha: number;
  beta: number;
  /** Whether a large language model may be split over the devices of a node. */
  splits: boolean;
  /** Whether each instance has its devices to itself. */
  exclusive?: boolean;
}

const gamma: Parameter = {
  ...{ default: 1.5, least: 1, most: 10 },
  summary: 'the most that limits add up to, as part of a device',
  source: { paper: 'Dilu', section: '4.2, Fig. 18a' },
};

/** A policy that differs from the others in this; `of`: what it is called in the paper's Fig. 17. */
export function asAuthorsDecide(
  name: string,
  of: string | null,
  summary: string,
  differences: Differences,
): ClusterPolicy<null, 'gamma'> {
  const figure = of === null ? 'Fig. 17' : `Fig. 17, ${of}`;
  return {
    ...{ name, kind: 'placement', summary, parameters: { gamma } },
    source: { paper: 'Dilu', section: `${figure}; the authors' code` },
    start: () => null,
    decide: ({ state, events, parameters: { gamma } }) => {
      const bounds = { sm: whole, smLimit: Math.floor(gamma * whole) };
      return decideBy({ bounds, ...differences }, state, events);
    },
  };
}

/** Places what is wanted by such rules; there is nothing to remember. */
function decideBy(
  rules: Rules,
  state: ClusterState,
  events: readonly ClusterEvent[],
): Decision<null> {
  const effects: Effect[] = [];
  for (const event of events) {
    if (event.kind !== 'instance wanted') continue;
    const { instance, name } = event;
    const parts = event.parts.map(rules.counted);
    const kind = state.functions.get(name)?.kind ?? 'inference';
    const places = find(rules, state.ledger, kind, parts);
    effects.push(
      places
        ? { kind: 'place', instance, name, parts: places, reason: { text: `as ${kind} is placed` } }
        : { kind: 'wait', instance, name, reason: { text: 'no devices have room for it' } },
    );
  }
  return { effects, memory: null };
}

function find(
  rules: Rules,
  ledger: LedgerView,
  kind: FunctionKind,
  parts: readonly Resources[],
): Part[] | null {
  const [first] = parts;
  if (!first) return null;
  if (rules.exclusive) return itsOwn(ledger, parts, rules.bounds);
  if (kind === 'training') return training(ledger, parts, rules.bounds);
  const best = fullest(ledger, first, rules);
  if (best !== null) return [{ device: best, resources: first }];
  const split = kind === 'llm-inference' && rules.splits ? over(ledger, first, rules.bounds) : null;
  if (split) return split;
  // Theirs does not look whether it fits there: all their devices are alike, and no instance is larger than one.
  const unused = ledger.unused.find((device) => ledger.fits(device, first, rules.bounds));
  return unused === undefined ? null : [{ device: unused, resources: first }];
}

function itsOwn(ledger: LedgerView, parts: readonly Resources[], bounds: Bounds): Part[] | null {
  const places: Part[] = [];
  for (const device of ledger.unused) {
    const resources = parts[places.length];
    if (!resources) break;
    if (ledger.fits(device, resources, bounds)) places.push({ device, resources });
  }
  return places.length === parts.length ? places : null;
}

function fullest(ledger: LedgerView, resources: Resources, rules: Rules): number | null {
  const { bounds, alpha, beta } = rules;
  let best: number | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const device of ledger.used) {
    if (!ledger.fits(device, resources, bounds)) continue;
    const memory = ledger.devices[device]?.memory || 1;
    const sms = ((ledger.sm[device] as number) + resources.sm) / whole;
    const used = ((ledger.memory[device] as number) + resources.memory) / memory;
    const score = alpha * (1 - sms) + beta * (1 - used);
    if (score < least) {
      least = score;
      best = device;
    }
  }
  return best;
}

/** Used devices by node, in the order in which the first of each came into use. */
function byNode(ledger: LedgerView, fits: (device: number) => boolean): Map<number, number[]> {
  const nodes = new Map<number, number[]>();
  for (const device of ledger.used) {
    if (!fits(device)) continue;
    const node = ledger.devices[device]?.node ?? 0;
    const there = nodes.get(node);
    if (there) there.push(device);
    else nodes.set(node, [device]);
  }
  return nodes;
}

/** The first node with enough used devices; else the first of all with enough when unused ones are taken, too. */
function training(ledger: LedgerView, parts: readonly Resources[], bounds: Bounds): Part[] | null {
  const count = parts.length;
  const fits = (device: number) => parts.every((one) => ledger.fits(device, one, bounds));
  const open = byNode(ledger, fits);
  const isOpen = (device: number) => ledger.on(device).size === 0 && fits(device);
  const place = (devices: readonly number[]) =>
    parts.map((resources, index) => ({ device: devices[index] as number, resources }));
  for (const devices of open.values()) if (devices.length >= count) return place(devices);
  for (const [node, devices] of ledger.nodes.entries()) {
    const used = open.get(node) ?? [];
    const unused = devices?.filter(isOpen) ?? [];
    if (used.length + unused.length >= count) return place([...used, ...unused]);
  }
  return null;
}

/** The first node with as much memory left on used devices, the fullest of them first; the request counts as the limit. */
function over(ledger: LedgerView, resources: Resources, bounds: Bounds): Part[] | null {
  const none = { ...resources, memory: 0 };
  for (const devices of byNode(ledger, (device) => ledger.fits(device, none, bounds)).values()) {
    const used = (device: number) => ledger.memory[device] as number;
    const free = (device: number) => (ledger.devices[device]?.memory ?? 0) - used(device);
    if (devices.reduce((sum, device) => sum + free(device), 0) < resources.memory) continue;
    const parts: Part[] = [];
    let left = resources.memory;
    for (const device of devices.toSorted((one, other) => used(other) - used(one))) {
      if (left <= 0) break;
      const memory = Math.min(free(device), left);
      parts.push({ device, resources: { ...resources, smLimit: resources.sm, memory } });
      left -= memory;
    }
    return parts;
  }
  return null;
}
