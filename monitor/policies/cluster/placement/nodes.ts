// Instances that want several devices, which have to be of one node.
import type { LedgerView, Part } from '../ledger.js';
import type { Bounds, Resources } from '../resources.js';

export type Places = readonly Part[];

/**
 * A device of its own for each part, all of one node: of the nodes with room that where the fewest unused devices are
 * taken, of equals the first. Null: there is no such node.
 */
export function alone(
  ledger: LedgerView,
  parts: readonly Resources[],
  bounds: Bounds,
): Places | null {
  const least = smallest(parts);
  let best: { places: Places; unused: number } | null = null;
  for (const [node, devices] of ledger.nodes.entries()) {
    // No node is looked at closely that cannot be better: most cannot.
    if (best !== null && parts.length - (ledger.usedOf[node] as number) >= best.unused) continue;
    if (!devices || devices.length < parts.length) continue;
    let used = 0;
    let unused = 0;
    for (const device of devices) {
      if (!ledger.fits(device, least, bounds)) continue;
      if (ledger.on(device).size > 0) used++;
      else unused++;
    }
    if (used + unused < parts.length) continue;
    if (best !== null && parts.length - used >= best.unused) continue;
    const places = onNode(ledger, devices, parts, bounds);
    if (!places) continue;
    const taken = places.filter(({ device }) => ledger.on(device).size === 0).length;
    if (taken === 0) return places;
    if (best === null || taken < best.unused) best = { places, unused: taken };
  }
  return best?.places ?? null;
}

function smallest(parts: readonly Resources[]): Resources {
  const least = (of: (part: Resources) => number) => Math.min(...parts.map(of));
  return {
    sm: least(({ sm }) => sm),
    smLimit: least(({ smLimit }) => smLimit),
    time: least(({ time }) => time),
    memory: least(({ memory }) => memory),
  };
}

function onNode(
  ledger: LedgerView,
  devices: readonly number[],
  parts: readonly Resources[],
  bounds: Bounds,
): Places | null {
  const order = [...devices].sort(
    (one, other) =>
      Number(ledger.on(one).size === 0) - Number(ledger.on(other).size === 0) || one - other,
  );
  const places: Part[] = [];
  const taken = new Set<number>();
  // The largest part first: it fits on the fewest devices.
  const bySize = [...parts].sort((one, other) => other.memory - one.memory);
  for (const resources of bySize) {
    const device = order.find((one) => !taken.has(one) && ledger.fits(one, resources, bounds));
    if (device === undefined) return null;
    taken.add(device);
    places.push({ device, resources });
  }
  return places;
}

/**
 * One model over used devices of a node, its memory in parts, the emptiest first: worst fit. Each of them promises the
 * SMs. Null: no node has so much memory left on devices with room for that.
 */
export function spread(ledger: LedgerView, resources: Resources, bounds: Bounds): Places | null {
  const none = { ...resources, memory: 0 };
  const free = (device: number) =>
    (ledger.devices[device]?.memory ?? 0) - (ledger.memory[device] as number);
  const open = (device: number) =>
    ledger.on(device).size > 0 && free(device) > 0 && ledger.fits(device, none, bounds);
  for (const [node, devices] of ledger.nodes.entries()) {
    if (!devices || ledger.usedOf[node] === 0) continue;
    let room = 0;
    for (const device of devices) if (open(device)) room += free(device);
    if (room < resources.memory || room === 0) continue;
    const order = devices.filter(open).sort((one, other) => free(other) - free(one) || one - other);
    const places: Part[] = [];
    let left = resources.memory;
    for (const device of order) {
      if (left <= 0) break;
      const memory = Math.min(left, free(device));
      places.push({ device, resources: { ...resources, memory } });
      left -= memory;
    }
    return places;
  }
  return null;
}
