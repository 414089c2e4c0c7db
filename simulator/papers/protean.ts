// PROTEAN: what its machines cost, what its scaling spares, and what its queue takes. No code and no data of it are published.
import { readFileSync } from 'node:fs';
import { protean as procurement } from '../../monitor/policies/cluster/procurement/protean.js';
import { protean as queue } from '../../monitor/policies/cluster/queue/protean.js';
import { protean as scaling } from '../../monitor/policies/cluster/scaling/protean.js';
import type {
  ClusterEvent,
  FunctionState,
  RequestState,
} from '../../monitor/policies/cluster/state.js';
import { Cluster, Decider } from '../cluster/cluster.js';
import { Random } from '../server/random.js';
import { attainment, fitted, molecule, naive, protean } from './protean-slo.js';
import type { Data, Row } from './row.js';

const row = (where: string, what: string, unit: string, rest: Partial<Row>): Row => ({
  ...{ paper: 'PROTEAN', where, what, unit, theirs: null, ours: null, within: null, why: '' },
  ...rest,
});

export function proteanRows(data: Data): Row[] {
  return [...savingRows(), coldStarts(data), queueCost(), ...sloRows(), ...notMade()];
}

// ---- machines --------------------------------------------------------------------------------------

/** Dollars an hour for 8 A100 (AWS), as the paper has them. */
const prices = { 'on-demand': 32.7726, spot: 9.8318 };
const machines = 8;
const periods = 20_000;

/**
 * What spot machines save, in percent of what machines on demand cost. In each period a machine of the spot market is
 * revoked with probability `revoked`; `retry` is the probability with which one that was just revoked is replaced by
 * another of that market at once. Who is on demand asks the spot market again in the next period.
 */
export function savings(revoked: number, retry: number, seed = 1): number {
  const random = new Random(seed);
  const decider = new Decider(procurement, new Cluster([]), { machines });
  const there = { spot: 0, 'on-demand': 0 };
  /** Carries out what is decided; a spot machine is granted with that probability. */
  const tell = (granted: number, ...events: ClusterEvent[]) => {
    for (const effect of decider.tell(...events)) {
      if (effect.kind === 'give up') there[effect.market] -= effect.count;
      if (effect.kind !== 'procure') continue;
      const { market, count } = effect;
      for (let one = 0; one < count; one++) {
        const has = market === 'on-demand' || random.uniform() < granted;
        if (has) there[market]++;
        tell(granted, { kind: 'machine', market, what: has ? 'granted' : 'refused' });
      }
    }
  };
  let cost = 0;
  for (let period = 0; period < periods; period++) {
    const before = there.spot;
    tell(1 - revoked, { kind: 'rate', name: '', requests: 0, period: 60_000 });
    for (let one = 0; one < before; one++) {
      if (random.uniform() >= revoked) continue;
      there.spot--;
      tell(retry, { kind: 'eviction', node: one, notice: 30_000 });
      tell(retry, { kind: 'machine', market: 'spot', what: 'gone' });
    }
    cost += there.spot * prices.spot + there['on-demand'] * prices['on-demand'];
  }
  return 100 * (1 - cost / (periods * machines * prices['on-demand']));
}

function savingRows(): Row[] {
  const theirs = [
    [0, 70.0],
    [0.354, 45.2],
    [0.708, 20.4],
  ] as const;
  const why = (reading: string) =>
    `${machines} machines over ${periods.toLocaleString('en')} periods with AWS' prices; ${reading}`;
  const first = theirs.map(([revoked, paper]) =>
    row('Fig. 9', `saved by spot machines, revoked with ${revoked}`, '%', {
      ...{ theirs: paper, ours: savings(revoked, 0), within: 0.5 },
      why: why(
        'who is revoked is on demand for the rest of the period, and asks again in the next',
      ),
    }),
  );
  const second = theirs.slice(1).map(([revoked, paper]) =>
    row('Fig. 9', `the same, revoked with ${revoked}, another at once`, '%', {
      ...{ theirs: paper, ours: savings(revoked, 1 - revoked) },
      why: why(
        'the other reading: another spot machine is asked for at once, and granted as any is',
      ),
    }),
  );
  return [...first, ...second];
}

// ---- scaling ---------------------------------------------------------------------------------------

/** Cold starts that ten minutes of keeping spare, in percent of those without. */
function coldStarts(data: Data): Row {
  const file = data.file('infless/Bursty.txt');
  const rates = readFileSync(file, 'utf8').match(/\d+(\.\d+)?/g) ?? [];
  if (rates.length === 0) throw new Error(`${file}: no numbers`);
  const count = (delay: number) => {
    const cluster = new Cluster([]);
    cluster.functions.set('f', functionOf('f', 4));
    const decider = new Decider(scaling, cluster, { delay });
    let starts = 0;
    for (const [second, requests] of rates.entries()) {
      cluster.now = 1000 * second;
      const event = { kind: 'rate', name: 'f', requests: Number(requests), period: 1000 } as const;
      for (const effect of decider.tell(event)) {
        if (effect.kind === 'scale' && effect.by > 0) starts += effect.by;
      }
    }
    return starts;
  };
  return row('4.2', 'cold starts spared by terminating ten minutes later', '%', {
    ...{ theirs: 98, ours: 100 * (1 - count(600) / count(0)) },
    why: "INFless' bursty trace (17 minutes), batches of 4; the paper's own trace is not to be had",
  });
}

function functionOf(name: string, batch: number): FunctionState {
  const resources = { sm: 0, smLimit: 0, time: 1000, memory: 1 };
  const about = { name, kind: 'inference', class: 'strict', devices: 1, resources } as const;
  return { ...about, slo: 300, batch, solo: 100 };
}

// ---- the queue -------------------------------------------------------------------------------------

/** What ordering and batching takes for as many requests as come in 128 ms of its heaviest load. */
function queueCost(): Row {
  const waiting = Array.from({ length: 640 }, (_, id): RequestState => {
    const strict = id % 2 === 0;
    const name = strict ? 'strict' : 'rest';
    return { id, name, class: strict ? 'strict' : 'best-effort', arrived: id / 5, deadline: null };
  });
  const cluster = new Cluster([]);
  cluster.waiting.push(...waiting);
  cluster.now = 128;
  for (const name of ['strict', 'rest']) cluster.functions.set(name, functionOf(name, 128));
  const input = {
    ...{ state: cluster.state, events: [], memory: null },
    parameters: { patience: 50, guard: 0 },
  };
  const times = 50;
  const took = Array.from({ length: 20 }, () => {
    const begun = process.cpuUsage();
    for (let time = 0; time < times; time++) queue.decide(input);
    const { user, system } = process.cpuUsage(begun);
    return (user + system) / 1000 / times;
  });
  return row('4.1', 'reordering and batching 640 requests (queue `protean`)', 'ms', {
    ...{
      ours: Math.min(...took),
      most: 1,
      why: 'processor time, best of twenty rounds; the paper: below 1 ms',
    },
  });
}

// ---- what is done in time --------------------------------------------------------------------------

/** Table 4: all batches strict, of one model. Two figures are fitted, one follows. */
function sloRows(): Row[] {
  const [time, shared, sliced] = [60.12, 94.19, 54.31];
  const alone = fitted(time, (seconds) => attainment(molecule, seconds, 0.5), 0.02, 0.5);
  const bandwidth = fitted(shared, (part) => attainment(protean, alone, part), 0.01, 1);
  const what = (scheme: string) => `SLO attainment of 100 % strict ResNet 50, ${scheme}, synthetic`;
  const load = 'synthetic: batches at random, 5,000 requests a second on eight GPUs';
  return [
    row('Table 4', what('Molecule'), '%', {
      ...{ theirs: time, ours: attainment(molecule, alone, bandwidth), within: 0.5 },
      why: `${load}; fitted: a batch takes ${(1000 * alone).toFixed(0)} ms alone, which is not published`,
    }),
    row('Table 4', what('PROTEAN'), '%', {
      ...{ theirs: shared, ours: attainment(protean, alone, bandwidth), within: 0.5 },
      why: `${load}, on slices of 4g and 3g by least slowdown; fitted: it uses ${(100 * bandwidth).toFixed(0)} % of a GPU's bandwidth, which is not published`,
    }),
    row('Table 4', what('Naive'), '%', {
      ...{ theirs: sliced, ours: attainment(naive, alone, bandwidth) },
      why: `${load}; what follows with these two for slices of 4g, 2g and 1g in turn; INFless' 0.42 follows from nothing that is said of it`,
    }),
  ];
}

// ---- what cannot be made ---------------------------------------------------------------------------

function notMade(): Row[] {
  const why =
    'neither bandwidths, nor times alone, nor traces are published: any figure would be one that was put in';
  return [
    row('Fig. 5', 'SLO attainment of strict VGG 19', '%', { theirs: 99.74, why }),
    row('Fig. 12', 'SLO attainment of large models, best gain', 'points', { theirs: 93, why }),
  ];
}
