// Dilu: how many GPUs its placement needs, and what a decision costs.
import { readFileSync } from 'node:fs';
import { hybridGrowth, type Trial } from '../../monitor/policies/cluster/profiling.js';
import { clusterPolicy } from '../../monitor/policies/cluster/registry.js';
import type { FunctionState } from '../../monitor/policies/cluster/state.js';
import { Cluster, Decider } from '../cluster/cluster.js';
import { type InstanceEvent, readInstances } from '../traces/instances.js';
import type { Data, Row } from './row.js';

/** The paper's: 1,000 nodes of 4 GPUs with 40 GB. Whole GPUs for each instance need more of them. */
const perNode = 4;
const memory = 40;

export interface Replay {
  /** GPUs in use, at most. */
  peak: number;
  /** Instances that found no place. */
  refused: number;
  placed: number;
  /** Milliseconds that all decisions took. */
  took: number;
  /** At the peak, on average over GPUs in use: parts that are not promised. */
  fragments: { sm: number; memory: number };
}

/** The list of events, with one placement policy. */
export function replay(
  events: readonly InstanceEvent[],
  name: string,
  given: Readonly<Record<string, number>> = {},
  nodes = 1000,
): Replay {
  const devices = Array.from({ length: nodes * perNode }, (_, index) => ({
    ...{ node: Math.floor(index / perNode), server: 'simulated', gpu: index % perNode },
    ...{ slice: null, memory },
  }));
  const cluster = new Cluster(devices);
  const decider = new Decider(clusterPolicy('placement', name), cluster, given);
  const numbers = new Map<string, number>();
  const result = { peak: 0, refused: 0, placed: 0, took: 0, fragments: { sm: 0, memory: 0 } };
  for (const event of events) {
    const number = numbers.get(event.name);
    if (event.action === 'delete') {
      if (number !== undefined) cluster.end(number);
      continue;
    }
    if (number !== undefined) throw new Error(`${event.name} starts twice`);
    const instance = numbers.size + 1;
    numbers.set(event.name, instance);
    const parts = event.memory.map((memory) => partOf(event, memory));
    cluster.functions.set(event.name, functionOf(event));
    const done = decider.tell({ kind: 'instance wanted', instance, name: event.name, parts });
    if (done.some(({ kind }) => kind === 'place')) result.placed++;
    else result.refused++;
    if (cluster.ledger.used.length > result.peak) {
      result.peak = cluster.ledger.used.length;
      result.fragments = fragments(cluster);
    }
  }
  return { ...result, took: decider.took };
}

function partOf({ request, limit }: InstanceEvent, memory: number) {
  return { sm: request, smLimit: limit, time: 1000, memory };
}

function functionOf(event: InstanceEvent): FunctionState {
  const { name, kind, memory } = event;
  const none = { slo: null, batch: 1, solo: null };
  const resources = partOf(event, memory[0] ?? 0);
  return { name, kind, class: 'strict', devices: memory.length, resources, ...none };
}

function fragments({ ledger }: Cluster) {
  const { used } = ledger;
  const mean = (part: (device: number) => number) =>
    used.reduce((sum, device) => sum + 1 - part(device), 0) / used.length;
  return {
    sm: mean((device) => (ledger.sm[device] ?? 0) / 1000),
    memory: mean((device) => (ledger.memory[device] ?? 0) / memory),
  };
}

export function diluRows(data: Data): Row[] {
  const events = readInstances(data.file('dilu/instances-3200.txt.gz'));
  const peak = (name: string, given: Record<string, number> = {}, nodes = 1000) => {
    const { peak, refused } = replay(events, name, given, nodes);
    if (refused > 0) throw new Error(`${name} has refused ${refused} instances`);
    return peak;
  };
  const gpus = (where: string, what: string, ours: number, rest: Partial<Row>): Row => ({
    ...{ paper: 'Dilu', where, what, unit: 'GPUs', theirs: null, ours, within: null, why: '' },
    ...rest,
  });
  const ties =
    'theirs breaks ties by the order of a set, and sums in floating point; ours by who came first, in whole numbers';
  const rows = [
    gpus('Fig. 17', 'Dilu, as its authors decide (`dilu-authors`)', peak('dilu-authors'), {
      ...{ theirs: 1323, within: 6, why: ties },
    }),
    gpus('Fig. 17', 'Dilu, Algorithm 1 as printed (`dilu`)', peak('dilu'), {
      ...{ theirs: 1323 },
      why: 'one algorithm for all kinds; affinity never fires, as each instance of the list is a function of its own',
    }),
    gpus(
      'Fig. 17',
      'Dilu without the splitting of large models (`dilu-whole`)',
      peak('dilu-whole'),
      {
        why: 'what the splitting brings; not in the paper',
      },
    ),
    gpus('Fig. 17', 'INFless-l (`infless-l`)', peak('infless-l'), {
      ...{ theirs: 1720, within: 3, why: `scored by SMs only; ${ties}` },
    }),
    gpus('Fig. 17', 'INFless-r (`infless-r`)', peak('infless-r'), {
      why: 'the figure has no number that can be read',
    }),
    gpus('Fig. 17', 'Exclusive (`exclusive`)', peak('exclusive', {}, 3000), {
      ...{ theirs: 1879, within: 0, why: 'the sum of what runs at the peak' },
    }),
  ];
  const theirs = [
    [1, 1724],
    [1.25, 1479],
    [1.5, 1324],
    [1.75, 1314],
    [2, 1322],
  ] as const;
  for (const [gamma, paper] of theirs) {
    const why = gamma > 1.5 ? 'beyond 1.5 memory is what is full, not limits' : ties;
    rows.push(
      gpus('Fig. 18a', `limits up to ${gamma} of a GPU`, peak('dilu-authors', { gamma }), {
        ...{ theirs: paper, within: 10, why },
      }),
    );
  }
  return [...rows, cost(events), ...trialRows(data), ...coldStartRows(data)];
}

// ---- Table 2: trials ------------------------------------------------------------------------------

const profiled = [
  { file: 'resnet152', name: 'ResNet 152', half: 40, trials: 8 },
  { file: 'roberta_large', name: 'RoBERTa', half: 60, trials: 6 },
  { file: 'gpt2_large', name: 'GPT2', half: 60, trials: 6 },
  { file: 'llama2', name: 'LLaMA2', half: 42, trials: 9 },
] as const;

function trialRows(data: Data): Row[] {
  return profiled.map(({ file: model, name, half, trials }) => {
    const file = data.file(`dilu/bs_sm_${model}.csv`);
    const measured = readMeasured(file);
    const found = hybridGrowth((sm, batch) => {
      const trial = measured.get(`${sm},${batch}`);
      if (!trial) throw new Error(`${file}: no trial with ${sm} % and batches of ${batch}`);
      return trial;
    }, 2 * half);
    const best = [...measured]
      .filter(([, { latency }]) => latency <= half)
      .map(([key, { throughput }]) => ({ key, efficiency: throughput / Number(key.split(',')[0]) }))
      .reduce((most, one) => (one.efficiency > most.efficiency ? one : most));
    const [sm, batch] = best.key.split(',');
    const picked = found ? `picks ${found.request} %, batches of ${found.batch}` : 'finds nothing';
    return {
      ...{
        paper: 'Dilu',
        where: 'Table 2',
        what: `trials of the search for ${name}`,
        unit: 'trials',
      },
      ...{ theirs: trials, ours: found?.trials ?? null, within: 1 },
      why: `${picked}; of all 60 trials the best is ${sm} %, ${batch}; the counting of the last step differs by one`,
    };
  });
}

/** By "percent of SMs,batch". */
function readMeasured(file: string): Map<string, Trial> {
  const text = readFileSync(file, 'utf8');
  return new Map(
    text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line, index) => {
        const [batch, sm, latency, throughput] = line.split(',').map(Number);
        if (!(batch && sm && latency && throughput)) {
          throw new Error(`${file}, line ${index + 1}: expected four numbers above 0`);
        }
        return [`${sm},${batch}`, { latency: 1000 * latency, throughput }] as const;
      }),
  );
}

// ---- Table 3: cold starts, calibrated ---------------------------------------------------------------

/** Seconds with their requests. */
function readRates(file: string): number[] {
  const rates = (readFileSync(file, 'utf8').match(/\d+(\.\d+)?/g) ?? []).map(Number);
  if (rates.length === 0) throw new Error(`${file}: no numbers`);
  return rates;
}

/** Instances that are started beyond the first, where one serves so many requests a second. */
function starts(rates: readonly number[], serves: number, lazy: boolean): number {
  const resources = { sm: 1, smLimit: 1, time: 1000, memory: 0 };
  const device = { node: 0, server: '', gpu: 0, slice: null, memory: 1 };
  const cluster = new Cluster([device]);
  const about = { name: 'f', kind: 'inference', class: 'strict', devices: 1, resources } as const;
  cluster.functions.set('f', { ...about, slo: null, batch: 1, solo: 1000 / serves });
  const decider = new Decider(clusterPolicy('scaling', 'dilu'), cluster, lazy ? {} : eager);
  let next = 0;
  let started = 0;
  const add = () => {
    const parts = [{ device: 0, resources }];
    cluster.ledger.claim({ instance: next++, name: 'f', how: 'running', parts });
  };
  add();
  for (const requests of rates) {
    const [effect] = decider.tell({ kind: 'rate', name: 'f', requests, period: 1000 });
    if (effect?.kind !== 'scale') continue;
    if (effect.by > 0) {
      add();
      started++;
    } else cluster.end(Math.max(...cluster.ledger.of('f')));
  }
  return started;
}

/** As FaST-GShare and INFless scale: at once. */
const eager = { window: 1, out: 1, in: 1 };

function coldStartRows(data: Data): Row[] {
  const traces = [
    ['bursty', 40, 7],
    ['periodic', 41, 11],
    ['sporadic', 4, 1],
  ] as const;
  return traces.map(([trace, eagerly, lazily]) => {
    const rates = readRates(data.file(`dilu/${trace}.txt`));
    const most = Math.max(...rates);
    // What an instance serves is not published: it is chosen so that who scales at once has as many starts as the paper.
    const scales = Array.from({ length: 200 }, (_, index) => (most * (index + 1)) / 200);
    const off = (serves: number) => Math.abs(starts(rates, serves, false) - eagerly);
    const serves = scales.reduce((best, one) => (off(one) < off(best) ? one : best));
    const reached = starts(rates, serves, false);
    return {
      ...{
        paper: 'Dilu',
        where: 'Table 3',
        what: `cold starts, ${trace}, calibrated`,
        unit: 'starts',
      },
      ...{ theirs: lazily, ours: starts(rates, serves, true), within: null },
      why: `calibrated: an instance serves ${(serves / most).toFixed(3)} of the peak, so that scaling at once has ${reached} starts (paper ${eagerly}); times of cold starts are not published`,
    };
  });
}

/**
 * Of the processor's time, what the whole replay takes: what else the machine does meanwhile is not the policy's. Best of
 * several, since the first ones are still being compiled.
 */
function cost(events: readonly InstanceEvent[]): Row {
  const took = Array.from({ length: 12 }, () => {
    const begun = process.cpuUsage();
    replay(events, 'dilu');
    const { user, system } = process.cpuUsage(begun);
    return (user + system) / 1e6;
  });
  return {
    ...{ paper: 'Dilu', where: '5.3', what: 'placing 3,200 instances (`dilu`)', unit: 's' },
    ...{ theirs: 1.12, ours: Math.min(...took), within: null, most: 0.1 },
    why: 'processor time of the whole replay with its 2,240 ends, best of twelve; sums by device are kept, not made anew',
  };
}
