// Dilu: how many GPUs its placement needs, and what a decision costs.
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
  return [...rows, cost(events)];
}

/**
 * Of the processor's time, what the whole replay takes: what else the machine does meanwhile is not the policy's. Best of
 * several, since the first ones are still being compiled.
 */
function cost(events: readonly InstanceEvent[]): Row {
  const took = Array.from({ length: 8 }, () => {
    const begun = process.cpuUsage();
    replay(events, 'dilu');
    const { user, system } = process.cpuUsage(begun);
    return (user + system) / 1e6;
  });
  return {
    ...{ paper: 'Dilu', where: '5.3', what: 'placing 3,200 instances (`dilu`)', unit: 's' },
    ...{ theirs: 1.12, ours: Math.min(...took), within: null, most: 0.1 },
    why: 'processor time of the whole replay with its 2,240 ends, best of eight; sums by device are kept, not made anew',
  };
}
