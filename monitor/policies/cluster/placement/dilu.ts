// Dilu's Algorithm 1 for a cluster: devices with a partner first, then used ones, then an unused one; of each the fullest
// within the bounds. A large language model that fits nowhere is spread over several GPUs of a node. All of it or nothing.
import type { LedgerView } from '../ledger.js';
import type { ClusterPolicy, Parameters } from '../policy.js';
import { type Bounds, type Resources, whole } from '../resources.js';
import type { ClusterState, Effect } from '../state.js';
import { alone, type Places, spread } from './nodes.js';

type Names = 'omega' | 'gamma' | 'alpha' | 'beta';

export const dilu: ClusterPolicy<null, Names> = {
  name: 'dilu',
  kind: 'placement',
  summary:
    'the fullest device within sums of requests and limits, beside the partners of its function',
  source: { paper: 'Dilu', section: 'Algorithm 1; Principle 1 for partners' },
  parameters: {
    omega: {
      ...{ default: 1, least: 0.01, most: 1 },
      summary: 'the most that requests add up to, as part of a device',
      source: { paper: 'Dilu', section: '4.2' },
    },
    gamma: {
      ...{ default: 1.5, least: 1, most: 10 },
      summary: 'the most that limits add up to, as part of a device',
      source: { paper: 'Dilu', section: '4.2, Fig. 18a' },
    },
    alpha: {
      ...{ default: 0.6, least: 0, most: 1 },
      summary: 'what SMs that are left over count for',
      source: { paper: 'Dilu', section: "not in the paper; the authors' code" },
    },
    beta: {
      ...{ default: 0.4, least: 0, most: 1 },
      summary: 'what memory that is left over counts for',
      source: { paper: 'Dilu', section: "not in the paper; the authors' code" },
    },
  },
  start: () => null,
  decide: ({ state, events, parameters }) => {
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.kind !== 'instance wanted') continue;
      const { instance, name, parts } = event;
      const found = find(state, name, parts, parameters);
      effects.push(
        found
          ? { kind: 'place', instance, name, parts: found.places, reason: { text: found.why } }
          : { kind: 'wait', instance, name, reason: { text: 'no devices have room for it' } },
      );
    }
    return { effects, memory: null };
  },
};

interface Found {
  places: Places;
  why: string;
}

function find(
  { ledger, functions }: ClusterState,
  name: string,
  parts: readonly Resources[],
  parameters: Parameters<Names>,
): Found | null {
  const bounds = boundsOf(parameters);
  const kind = functions.get(name)?.kind ?? 'inference';
  const [first] = parts;
  if (!first) return null;
  if (parts.length > 1) {
    const places = alone(ledger, parts, bounds);
    return (
      places && { places, why: `${parts.length} devices of one node with room, used ones first` }
    );
  }
  const place = (device: number, why: string) => ({ places: [{ device, resources: first }], why });
  const beside = fullest(ledger, affine(ledger, name), first, bounds, parameters);
  if (beside !== null) return place(beside, 'beside a partner of its function');
  const used = fullest(ledger, ledger.used, first, bounds, parameters);
  if (used !== null) return place(used, 'the fullest device that is used');
  const over = kind === 'llm-inference' ? spread(ledger, first, bounds) : null;
  if (over) return { places: over, why: `over ${over.length} devices, the emptiest memory first` };
  const unused = lowest(ledger, first, bounds);
  return unused === null ? null : place(unused, 'no used device has room');
}

export function boundsOf({ omega, gamma }: Parameters<'omega' | 'gamma'>): Bounds {
  return { sm: Math.floor(omega * whole), smLimit: Math.floor(gamma * whole) };
}

/** Devices with an instance of a partner and none of the function itself. */
export function affine(ledger: LedgerView, name: string): number[] {
  const own = ledger.of(name);
  if (own.size === 0) return [];
  const partners = new Set<string>();
  const taken = new Set<number>();
  for (const instance of own) {
    for (const { device } of ledger.entry(instance)?.parts ?? []) {
      taken.add(device);
      for (const other of ledger.on(device)) partners.add(ledger.entry(other)?.name ?? name);
    }
  }
  partners.delete(name);
  const beside = new Set<number>();
  for (const partner of partners) {
    for (const instance of ledger.of(partner)) {
      for (const { device } of ledger.entry(instance)?.parts ?? []) {
        if (!taken.has(device)) beside.add(device);
      }
    }
  }
  return [...beside];
}

/** The least alpha*(1 - SMs) + beta*(1 - memory), both with the newcomer; of equals the lowest index. */
function fullest(
  ledger: LedgerView,
  among: readonly number[],
  resources: Resources,
  bounds: Bounds,
  { alpha, beta }: Parameters<Names>,
): number | null {
  let best: number | null = null;
  let most = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < among.length; at++) {
    const device = among[at] as number;
    if (!ledger.fits(device, resources, bounds)) continue;
    const memory = ledger.devices[device]?.memory || 1;
    const sms = ((ledger.sm[device] as number) + resources.sm) / whole;
    const used = ((ledger.memory[device] as number) + resources.memory) / memory;
    const score = alpha * sms + beta * used;
    if (score > most || (score === most && best !== null && device < best)) {
      most = score;
      best = device;
    }
  }
  return best;
}

/** Of the unused devices with room, the one with the lowest index. */
function lowest(ledger: LedgerView, resources: Resources, bounds: Bounds): number | null {
  let least: number | null = null;
  for (const device of ledger.unused) {
    if (least !== null && device > least) continue;
    if (ledger.fits(device, resources, bounds)) least = device;
  }
  return least;
}
