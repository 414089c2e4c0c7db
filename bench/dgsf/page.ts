// The tables, and what they can and cannot say.

import type { Result } from '../../simulator/dgsf/plan.js';
import { gpuMemory, paper, workloads } from '../../simulator/dgsf/workloads.js';
import type { Change, Row, WorkingRow } from './main.js';

export interface Measured {
  date: string;
  scale: number;
  seed: number;
  gain: number;
  orders: number;
  rows: Row[];
  compared: Change[];
  working: WorkingRow[];
}

export function page({
  date,
  scale,
  seed,
  gain,
  orders,
  rows,
  compared,
  working,
}: Measured): string {
  return `# DGSF's experiment

Made by \`npm run bench -- dgsf\` on ${date.slice(0, 10)}. The shape is that of DGSF (Fingler et al., IPDPS 2022), section 7: six
functions, ten of each in random order (seed ${seed}, our own generator), exponential arrivals (heavy: 2 s on average; low: 3 s), GPUs
with ${gpuMemory} MB for sessions, one queue, first come, first served. All times are in the paper's seconds.

**What is real.** Each *real* row is an \`outboard serve\` with software GPUs of that size: admission, queue, placement,
reservations, API server processes and hand-overs are what they always are, ${scale} times faster than in the paper. A function is a
guest that holds its session for its time (preparation and GPU time, as in the table) and leaves.
**What is not.** A guest does no GPU work, so functions on one GPU do not slow each other down: with sharing, *real* shows
how long it would take if GPUs had room for both. *Simulated* is the same order on the simulated server of \`simulator/server\`, once
without contention, to be held against *real*, once with it: functions on one GPU share it equally, and different ones gain
by overlapping, together ${gain} times what one does. The difference is what contention costs, in this model. Nothing migrates there; 7.5 has been played with functions that work, too.

| function | memory, MB | preparation, s | GPU, s |
|---|---|---|---|
${workloads.map(({ name, memory, prepare, gpu }) => `| ${name} | ${memory} | ${prepare} | ${gpu} |`).join('\n')}

Sums are the runtimes with DGSF of the paper's Table 1; how they divide is our estimate (\`workloads.ts\` says from what).

## Two NLP and two ResNet on two GPUs (7.5)

Seconds until all are done. NLP and ResNet were divided so that the first and the last row fit; the row between them is a prediction.

| | paper | simulated with contention | simulated without | real, no contention | GPUs on the real server |
|---|---|---|---|---|---|
${four(rows)}

Best fit puts like ones together, worst fit unlike ones.

### With functions that work, and move

${worked(working)}

## Sixty functions

| load | GPUs | servers per GPU | policy | done: real | sim. | sim. contention | queue: real | sim. | sim. contention |
|---|---|---|---|---|---|---|---|---|---|
${sixty(rows)}

Done: seconds until the last has ended. Queue: mean seconds from arrival to a session. With one server per GPU both policies do
the same. ${agreement(rows, scale)}

## Sharing against none, heavy load, 4 GPUs (7.3, Fig. 5)

Two servers per GPU against one, simulated with contention over ${orders} orders: mean, and least to most. The paper has one order.
Blocked: what is left of the wait when preparation is over, which goes on meanwhile; the paper does not say which of the two it counts.

| | gain | all done | mean queue | of it blocked | mean time of a function | of ResNet | it blocked |
|---|---|---|---|---|---|---|---|
| paper | | ${percent(paper.sharing.done)} | ${percent(paper.sharing.queue)} | | | ${percent(-0.2)} | halved |
${compared.map(change).join('\n')}

${verdict(compared)}
`;
}

function four(rows: readonly Row[]): string {
  const lines = rows.filter(({ setting }) => setting.load === 'four');
  return lines
    .map(({ setting, real, apart, together, gpus }) => {
      const name = setting.servers === 1 ? 'none' : setting.policy;
      const title = name === 'none' ? 'no sharing' : `sharing, ${name}`;
      const [first, second, third, fourth] = gpus.split(' ');
      const who = real ? `NLP ${first}, ${second}; ResNet ${third}, ${fourth}` : '-';
      const times = [String(paper.four[name]), one(together), one(apart), one(real)];
      return `| ${[title, ...times, who].join(' | ')} |`;
    })
    .join('\n');
}

function worked(rows: readonly WorkingRow[]): string {
  const [first] = rows;
  if (!first) return 'Not run.';
  const lines = rows.map(({ setting: { servers, policy }, migration, functions }) => {
    const name = servers === 1 ? 'none' : policy;
    const title =
      name === 'none' ? 'no sharing' : `sharing, ${name}${migration ? ', migration' : ''}`;
    const inPaper = migration ? paper.migration : paper.four[name];
    const each = functions.map(({ gpus, ended }) => `${ended.toFixed(1)} (${gpus.join(' to ')})`);
    const done = Math.max(...functions.map(({ ended }) => ended));
    return `| ${[title, String(inPaper), done.toFixed(1), ...each].join(' | ')} |`;
  });
  return `On ${first.date.slice(0, 10)}. Functions are programs here, and time is the paper's: each has its session at once, fills its memory (${first.memoryScale} times less
than in the paper, on GPUs that have ${first.memoryScale} times less), prepares, keeps its GPU busy with kernels of 5 ms for its time, and checks
its memory. Kernels wait for the clock, so what makes functions slow each other down is \`--quota device-time\` alone: of a GPU that two
want each has half, and unlike ones gain nothing by overlapping, as they do on a real GPU. *Migration* is \`--migration imbalance\`, DGSF's rule.

| | paper | done | NLP | NLP | ResNet | ResNet |
|---|---|---|---|---|---|---|
${lines.join('\n')}

Seconds until a function was done, and the GPUs it was on.`;
}

function sixty(rows: readonly Row[]): string {
  return rows
    .filter(({ setting }) => setting.load !== 'four')
    .map(({ setting: { load, gpus, servers, policy }, real, apart, together }) => {
      const which = [load, String(gpus), String(servers), servers === 1 ? 'either' : policy];
      const done = [real, apart, together].map(one);
      const queue = [real, apart, together].map((result) => result?.queue.toFixed(1) ?? '-');
      return `| ${[...which, ...done, ...queue].join(' | ')} |`;
    })
    .join('\n');
}

/** How far the simulation is from what it simulates. */
function agreement(rows: readonly Row[], scale: number): string {
  const off = rows.flatMap(({ real, apart }) =>
    real ? [Math.abs(real.done / apart.done - 1)] : [],
  );
  if (off.length === 0) return 'The real servers were not run.';
  const most = (100 * Math.max(...off)).toFixed(1);
  return `Real and simulated ends without contention differ by ${most} % at most: a millisecond here is ${scale / 1000} s there, and
whoever comes a moment later may find another GPU free.`;
}

function change({
  policy,
  gain,
  done,
  queue,
  blocked,
  whole,
  resnet,
  resnetBlocked,
}: Change): string {
  const cells = [done, queue, blocked, whole, resnet, resnetBlocked].map(
    ({ least, mean, most }) => `${percent(mean)} (${percent(least)} to ${percent(most)})`,
  );
  return `| ${[`simulated, ${policy}`, String(gain), ...cells].join(' | ')} |`;
}

function verdict(compared: readonly Change[]): string {
  const reaches = (value: number, least: number) => value <= least;
  const done = compared.some(({ done }) => reaches(done.least, paper.sharing.done));
  const queue = compared.some(({ queue }) => reaches(queue.least, paper.sharing.queue));
  const blocked = compared.some(({ blocked }) => reaches(blocked.least, paper.sharing.queue));
  const less = percent(paper.sharing.queue);
  const first = `The paper's ${percent(paper.sharing.done)} of time until all are done is ${within(done)}`;
  if (queue === blocked) return `${first}; its ${less} of queueing is ${within(queue)}.`;
  return `${first}. Its ${less} of queueing is ${within(queue)} for the whole wait, and ${within(blocked)} for the time blocked.`;
}

function within(reached: boolean): string {
  return reached ? 'within the range of these orders' : 'reached in none of these orders';
}

function one(result: Result | null): string {
  return result?.done.toFixed(1) ?? '-';
}

function percent(part: number): string {
  return `${(100 * part).toFixed(0)} %`;
}
