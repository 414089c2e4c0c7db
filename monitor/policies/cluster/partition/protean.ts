// PROTEAN's Algorithm 2: best-effort batches get slices that hold them, strict ones the rest of the GPU.
import type { ClusterPolicy } from '../policy.js';
import type { Effect } from '../state.js';

type Names = 'weight' | 'least' | 'most' | 'patience' | 'part';

export interface ProteanPartitionMemory {
  /** Best-effort batches that are expected in a period. */
  expected: number | null;
  /** By GPU (of all nodes in order): its slices, and how often in a row others would have been better. */
  gpus: readonly { slices: readonly string[]; mismatches: number }[];
  /** Best-effort batches since the last period. */
  batches: number;
  /** Memory of the largest of them, in the ledger's unit. */
  memory: number;
}

/** Small slices for best-effort batches, as an A100 of 40 GB has them, and what they hold of a GPU's memory. */
const choices: readonly { small: readonly string[]; eighths: number }[] = [
  { small: ['1g', '2g'], eighths: 3 },
  { small: ['3g'], eighths: 4 },
];
const balanced = ['4g', '3g'] as const;
export const firstSlices = ['4g', '2g', '1g'] as const;

export const protean: ClusterPolicy<ProteanPartitionMemory, Names> = {
  name: 'protean',
  kind: 'partition',
  summary: 'slices that hold the best-effort batches to come, and the rest for strict ones',
  source: { paper: 'PROTEAN', section: 'Algorithm 2' },
  parameters: {
    weight: {
      ...{ default: 0.5, least: 0, most: 1 },
      summary: 'what the last period counts of what is expected',
      source: { paper: 'ours', section: 'an EWMA in the paper, its weight is not published' },
    },
    least: {
      ...{ default: 0.1, least: 0, most: 1 },
      summary: 'part of the small slices below which they are not worth it',
      source: { paper: 'ours', section: 'T_low, not published' },
    },
    most: {
      ...{ default: 0.9, least: 0, most: 1 },
      summary: 'part of the small slices above which they are too full',
      source: { paper: 'ours', section: 'T_high, not published' },
    },
    patience: {
      ...{ default: 3, least: 1, most: 1000 },
      summary: 'mismatches in a row after which a GPU is divided anew',
      source: { paper: 'PROTEAN', section: 'Algorithm 2, wait_limit' },
    },
    part: {
      ...{ default: 0.3, least: 0, most: 1 },
      summary: 'the most GPUs that are divided anew at once, as a part; one at least',
      source: { paper: 'PROTEAN', section: '4.4, about 30 %' },
    },
  },
  needs: { placement: ['protean-slices'] },
  start: () => ({ expected: null, gpus: [], batches: 0, memory: 0 }),
  decide: ({ state: { ledger, functions }, events, memory, parameters }) => {
    let { expected, batches, memory: largest } = memory;
    let gpus = [...memory.gpus];
    const effects: Effect[] = [];
    const known = gpusOf(ledger.devices);
    for (const [index, slices] of known.entries()) {
      gpus[index] ??= { slices: slices.length > 0 ? slices : ['7g'], mismatches: 0 };
    }
    for (const event of events) {
      if (event.kind === 'batch ready' && event.batch.class === 'best-effort') {
        batches++;
        largest = Math.max(largest, functions.get(event.batch.name)?.resources.memory ?? 0);
      } else if (event.kind === 'acknowledged' && event.effect.kind === 'partition') {
        // What could not be divided is as it was, and is tried again after as many mismatches.
        const { gpu } = event.effect;
        if (event.failed !== null) gpus[gpu] = { slices: known[gpu] ?? ['7g'], mismatches: 0 };
      } else if (event.kind === 'rate') {
        expected =
          expected === null
            ? batches
            : parameters.weight * batches + (1 - parameters.weight) * expected;
        const whole = Math.max(0, ...known.map((_, gpu) => memoryOf(ledger.devices, gpu)));
        const wanted = wantedFor(
          (expected * largest) / Math.max(1, known.length),
          whole,
          parameters,
        );
        const divided = divide(gpus, wanted, parameters);
        gpus = divided.gpus;
        const reason = { text: 'for the best-effort batches to come', figures: { expected } };
        for (const gpu of divided.anew)
          effects.push({ kind: 'partition', gpu, slices: wanted, reason });
        batches = 0;
        largest = 0;
      }
    }
    return { effects, memory: { expected, gpus, batches, memory: largest } };
  },
};

interface Placed {
  node: number;
  gpu: number;
  slice: string | null;
  memory: number;
}

/** Slices of each GPU, GPUs in the order of their devices. */
function gpusOf(devices: readonly Placed[]): string[][] {
  const gpus = new Map<string, string[]>();
  for (const { node, gpu, slice } of devices) {
    const key = `${node}:${gpu}`;
    const there = gpus.get(key) ?? [];
    if (slice !== null) there.push(slice.split('.')[0] ?? slice);
    gpus.set(key, there);
  }
  return [...gpus.values()];
}

/** Memory of all slices of a GPU together. */
function memoryOf(devices: readonly Placed[], index: number): number {
  const keys = [...new Set(devices.map(({ node, gpu }) => `${node}:${gpu}`))];
  return devices
    .filter(({ node, gpu }) => `${node}:${gpu}` === keys[index])
    .reduce((sum, { memory }) => sum + memory, 0);
}

/** The slices for so much best-effort memory on a GPU of `whole`. */
export function wantedFor(
  memory: number,
  whole: number,
  { least, most }: Readonly<Record<'least' | 'most', number>>,
): readonly string[] {
  const fitting = choices.find(({ eighths }) => (eighths * whole) / 8 >= memory);
  if (!fitting || whole <= 0) return balanced;
  const occupied = memory / ((fitting.eighths * whole) / 8);
  if (occupied < least || occupied > most) return balanced;
  return ['4g', ...fitting.small];
}

type Gpus = ProteanPartitionMemory['gpus'];

/** As printed the comparison is not reached where the slices are too full; here it is always made. */
function divide(
  gpus: Gpus,
  wanted: readonly string[],
  { patience, part }: Readonly<Record<'patience' | 'part', number>>,
) {
  const key = (slices: readonly string[]) => [...slices].sort().join();
  let left = Math.max(1, Math.floor(part * gpus.length));
  const anew: number[] = [];
  const after = gpus.map(({ slices, mismatches }, index) => {
    if (key(slices) === key(wanted)) return { slices, mismatches: 0 };
    if (mismatches + 1 < patience || left === 0) return { slices, mismatches: mismatches + 1 };
    left--;
    anew.push(index);
    return { slices: wanted, mismatches: 0 };
  });
  return { gpus: after, anew };
}
