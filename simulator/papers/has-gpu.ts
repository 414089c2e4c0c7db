// HAS-GPU: its logs replayed through its scaling, and its violations recomputed from its own tables of requests.
import { clusterPolicy } from '../../monitor/policies/cluster/registry.js';
import type { ClusterEvent } from '../../monitor/policies/cluster/state.js';
import { Cluster, Decider } from '../cluster/cluster.js';
import { LatencyPredictor, readTrees, type Trees } from '../predictor/latency.js';
import { numberIn, parseTable, readTable } from '../traces/table.js';
import { readTar } from '../traces/tar.js';
import { type Table, tables } from './has-gpu-tables.js';
import type { Data, Row } from './row.js';

const archive = 'has_gpu/request_and_usage_csv.tar.gz';

const row = (where: string, what: string, unit: string, rest: Partial<Row>): Row => ({
  ...{ paper: 'HAS-GPU', where, what, unit, theirs: null, ours: null, within: null, why: '' },
  ...rest,
});

export function hasGpuRows(data: Data): Row[] {
  const files = readTar(data.file(archive));
  return [...replayRows(files), ...violationRows(files), ...latencyRows(data)];
}

// ---- replays ---------------------------------------------------------------------------------------

interface Tick {
  /** Seconds. */
  at: number;
  sm: number;
  quota: number;
}

interface Run {
  ticks: readonly Tick[];
  /** Seconds at which requests came, in order. */
  requests: readonly number[];
}

/** The log of a run: its ticks of two seconds, and its requests. Throws where the archive has it not. */
function runOf(files: ReadonlyMap<string, Buffer>, folder: string): Run {
  const named = (pattern: RegExp) => {
    const name = [...files.keys()].find(
      (one) => one.startsWith(`HAS/${folder}/`) && pattern.test(one),
    );
    if (!name) throw new Error(`${archive}: no ${pattern} in HAS/${folder}`);
    return { name, cells: parseTable(String(files.get(name)), name, ['timestamp']) };
  };
  const usage = named(/\/has-usage-/);
  const requests = named(/\/has-\d/);
  return {
    ticks: usage.cells.map((cells) => ({
      at: seconds(cells['timestamp'], usage.name),
      sm: numberIn(cells, 'sm_usage' in cells ? 'sm_usage' : 'sm_partition', usage.name),
      quota: numberIn(cells, 'quota_usage' in cells ? 'quota_usage' : 'quota', usage.name),
    })),
    requests: requests.cells
      .map((cells) => seconds(cells['timestamp'], requests.name))
      .sort((a, b) => a - b),
  };
}

/** Both logs are of one clock; that of requests does not say that it is UTC. */
function seconds(text: string | undefined, file: string): number {
  const value = Date.parse(`${text?.replace(/Z$/, '')}Z`) / 1000;
  if (!Number.isFinite(value)) throw new Error(`${file}: "${text}" is no time`);
  return value;
}

/** Ticks after which the first pod is ready, as the logs show: nothing is scaled before. */
const ready = 3;
/** The rate that Prometheus gives is of so many seconds. */
const window = 10;

/** Percent of time at each tick, as the policy would have had it. `shift`: seconds by which its rates are late. */
function quotas({ ticks, requests }: Run, table: Table, shift: number, step: number): number[] {
  const device = { node: 0, server: 'kgpu1', gpu: 0, slice: null, memory: 16_000 };
  const cluster = new Cluster([device]);
  const [first] = ticks;
  if (!first) throw new Error('a run without ticks');
  const sm = 10 * first.sm;
  const resources = { sm, smLimit: sm, time: 10 * first.quota, memory: 3700 };
  const about = { name: 'f', kind: 'inference', class: 'strict', devices: 1, batch: 4 } as const;
  cluster.functions.set('f', { ...about, slo: null, solo: null, resources });
  const given = { authors: 1, overhead: 70, step: 10 * step };
  const decider = new Decider(clusterPolicy('scaling', 'has-gpu'), cluster, given);
  for (const [sms, times] of Object.entries(table)) {
    for (const [time, latency] of Object.entries(times)) {
      const timed = { batch: 4, sm: 10 * Number(sms), time: 10 * Number(time), latency };
      decider.tell({ kind: 'timed', name: 'f', ...timed });
    }
  }
  return ticks.map(({ at }, tick) => {
    if (tick === ready) {
      cluster.ledger.claim({
        ...{ instance: 1, name: 'f', how: 'running' },
        parts: [{ device: 0, resources }],
      });
    }
    cluster.now = 1000 * at;
    const until = at + shift;
    const count = before(requests, until) - before(requests, until - window);
    const event: ClusterEvent = { kind: 'rate', name: 'f', requests: count, period: 1000 * window };
    decider.tell(event);
    const part = cluster.ledger.entry(1)?.parts[0]?.resources ?? resources;
    return part.time / 10;
  });
}

/** How many of the sorted values are at most `value`. */
function before(sorted: readonly number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Mean difference, in points of time, for the shift with which it is least. */
function difference(run: Run, table: Table, step = 10): number {
  let least = Number.POSITIVE_INFINITY;
  for (let shift = -8; shift <= 8; shift += 0.5) {
    const mine = quotas(run, table, shift, step);
    const off = mine.reduce(
      (sum, quota, tick) => sum + Math.abs(quota - (run.ticks[tick]?.quota ?? 0)),
      0,
    );
    least = Math.min(least, off / mine.length);
  }
  return least;
}

function replayRows(files: ReadonlyMap<string, Buffer>): Row[] {
  const aligned = 'rates aligned within 8 s; their table, batches of 4, one pod';
  const of = (folder: string, what: string, ours: number, rest: Partial<Row>) =>
    row('logs', `${folder}: quota against the log${what}`, 'points', { ours, ...rest });
  const plain = (folder: string, rest: Partial<Row>) => {
    const model = folder.split('-')[1] ?? '';
    return of(folder, '', difference(runOf(files, folder), tables[model] ?? {}), rest);
  };
  const rows = ['5-resnet', '1-convnext', '2-convnext'].map((folder) =>
    plain(folder, { most: 0.5, why: aligned }),
  );
  for (const folder of ['2-resnet', '3-resnet', '4-resnet']) {
    rows.push(plain(folder, { why: `${aligned}; the log goes to 70 and more: an older build` }));
  }
  for (const folder of ['2-resnet', '3-resnet', '4-resnet']) {
    const twenty = difference(runOf(files, folder), tables['resnet'] ?? {}, 20);
    const why = `${aligned}; some of the log's steps are of 20`;
    rows.push(of(folder, ', steps of 20', twenty, { why }));
  }
  for (const folder of ['1-mobilenet', '2-mobilenet']) {
    rows.push(
      plain(folder, { why: `${aligned}; in their code the name of the table is another one` }),
    );
    const none = difference(runOf(files, folder), {});
    const why =
      'their fault replayed: there is no table of the name that is asked for, so nothing is ever enough';
    rows.push(of(folder, ', no table', none, { most: 0.5, why }));
  }
  for (const folder of ['1-bert', '2-bert', '3-bert', '4-bert']) {
    rows.push(plain(folder, { why: `${aligned}; four runs that differ from each other` }));
  }
  return rows;
}

// ---- violations ------------------------------------------------------------------------------------

/** Percent of requests that took more than twice as long as the fastest of KServe, or failed. */
function violations(
  files: ReadonlyMap<string, Buffer>,
  model: string,
  system: string,
): number | null {
  const served = requestsOf(files, 'kserve', model).filter(({ well }) => well);
  const base = Math.min(...served.map(({ took }) => took));
  const all = requestsOf(files, system, model);
  if (all.length === 0 || !Number.isFinite(base)) return null;
  const late = all.filter(({ took, well }) => !well || took > 2 * base).length;
  return (100 * late) / all.length;
}

interface Request {
  /** Seconds. */
  took: number;
  well: boolean;
}

function requestsOf(files: ReadonlyMap<string, Buffer>, system: string, model: string): Request[] {
  const requests: Request[] = [];
  for (const [name, bytes] of files) {
    const isOf = name.startsWith(`${system}/`) && name.split('/')[1]?.includes(model);
    // A table of HAS lies in a folder of FaST-GShare, and one of KServe is of a stress run.
    const stray = (system !== 'HAS' && name.includes('/has-')) || name.includes('pressure');
    if (!isOf || stray || name.includes('stress') || name.includes('usage')) continue;
    for (const cells of parseTable(String(bytes), name, ['duration', 'success'])) {
      const took = numberIn(cells, 'duration', name);
      requests.push({ took, well: cells['success'] === 'True' });
    }
  }
  return requests;
}

function violationRows(files: ReadonlyMap<string, Buffer>): Row[] {
  const why: Record<string, string> = {
    resnet:
      'all plain runs together; base: the single fastest request of KServe, so that all are harsh',
    mobilenet: 'as for ResNet',
    convnext: 'as for ResNet',
    bert: 'as for ResNet; on BERT KServe is far better, which contradicts the text',
  };
  return Object.entries(why).flatMap(([model, reason]) =>
    [
      ['HAS', 'HAS-GPU'],
      ['fast-gshare', 'FaST-GShare'],
      ['kserve', 'KServe'],
    ].map(([folder = '', name]) =>
      row('Fig. 6', `${model}, ${name}: requests above twice the base`, '%', {
        ...{ ours: violations(files, model, folder), why: reason },
      }),
    ),
  );
}

// ---- latencies -------------------------------------------------------------------------------------

const latencies = 'rapp/rapp_latency_v100.csv.gz';

/** The trees of tools/train-latency.py: its own errors, and those of TypeScript on models that they have not seen. */
function latencyRows(data: Data): Row[] {
  const trees = readTrees();
  const { withAnchors, without, held, heldError, folds } = trees;
  const how = `${folds} folds by model, so that none that is predicted was learned from`;
  const anchors = 'from 11 cells that were measured of each model and batch';
  const bare =
    "only the time on the whole GPU is known: theirs has the model's graph and profiles of its parts, too";
  const of = (what: string, rest: Partial<Row>) => row('Fig. 5', what, '%', rest);
  return [
    of('error for models not seen, with anchors', {
      ...{ theirs: 5.285, ours: withAnchors.error, most: 5.3, why: `${anchors}; ${how}` },
    }),
    of('the base beside it', {
      ...{
        ours: withAnchors.base,
        why: 'the larger of two lines between these cells, without trees',
      },
    }),
    of('error without anchors', { ours: without.error, why: `${bare}; ${how}` }),
    of('the base beside it, without anchors', {
      ours: without.base,
      why: 'the time on the whole GPU',
    }),
    of(`the same trees in TypeScript, ${held.length} models not seen`, {
      ...{ theirs: heldError, ours: errorOn(data, trees), within: 0.01 },
      why: 'theirs is what the training script says of these models: both have to agree',
    }),
  ];
}

/** Mean error in percent over the cells of the models that were held back, those that were measured excepted. */
function errorOn(data: Data, trees: Trees): number {
  const predictor = new LatencyPredictor(trees);
  const file = data.file(latencies);
  const held = new Set(trees.held);
  const cells = new Map<string, Map<string, number>>();
  for (const line of readTable(file, ['model', 'batch', 'sm_pct', 'quota_pct', 'latency_ms'])) {
    if (!held.has(line['model'] ?? '')) continue;
    const key = `${line['batch']},${line['model']}`;
    const of = cells.get(key) ?? new Map<string, number>();
    of.set(`${line['sm_pct']},${line['quota_pct']}`, numberIn(line, 'latency_ms', file));
    cells.set(key, of);
  }
  let sum = 0;
  let count = 0;
  for (const [key, of] of cells) {
    if (!of.has('100,100')) continue;
    const points = (some: readonly number[], at: (one: number) => string) =>
      some.flatMap((one) => {
        const latency = of.get(at(one));
        return latency === undefined ? [] : [[one, latency] as const];
      });
    const bySm = points(trees.sms, (sm) => `${sm},100`);
    const byTime = points([...trees.times, 100], (time) => `100,${time}`);
    const known = new Set([
      ...bySm.map(([sm]) => `${sm},100`),
      ...byTime.map(([time]) => `100,${time}`),
    ]);
    const anchors = { batch: Number.parseInt(key, 10), bySm, byTime };
    for (const [at, latency] of of) {
      if (known.has(at)) continue;
      const [sm = 0, time = 0] = at.split(',').map(Number);
      sum += Math.abs(predictor.predict(anchors, sm, time) / latency - 1);
      count++;
    }
  }
  return (100 * sum) / count;
}
