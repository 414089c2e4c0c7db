// npm run bench -- day [--hours 24] [--gpus 6] [--slots 4] [--seed 1]
//
// A day of mixed load on a server in simulated time, once with each placement policy, with and
// without skipping in the queue. What must hold is checked after every event; the first time that
// it does not ends the run.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { placementPolicies } from '../../monitor/policies/index.js';
import { checkEmpty, Invariants } from '../../simulator/server/invariants.js';
import { Simulation } from '../../simulator/server/simulation.js';
import { type Summary, summary } from '../../simulator/server/statistics.js';
import { makeDay } from './mix.js';

const usual = { hours: 24, gpus: 6, slots: 4, seed: 1 };
const { values } = parseArgs({
  options: {
    hours: { type: 'string' },
    gpus: { type: 'string' },
    slots: { type: 'string' },
    seed: { type: 'string' },
  },
});
const given = { ...usual };
for (const name of ['hours', 'gpus', 'slots', 'seed'] as const) {
  const text = values[name];
  if (text === undefined) continue;
  given[name] = Number(text);
  if (!(given[name] > 0)) throw new Error(`--${name} ${text}: expected a number above 0`);
}

const day = makeDay(given);
const { hours, gpus, slots, seed } = given;
const first = `${hours} hours, ${day.jobs.length} sessions, ${day.faults.length} faults; ${gpus} GPUs of 15 GiB with ${slots} slots each; seed ${seed}`;
console.log(first);
const rows: (Summary & { events: number; tookSeconds: number })[] = [];
for (const policy of placementPolicies.values()) {
  for (const queueSkip of [false, true]) {
    const invariants = new Invariants();
    const options = { ...day.options, policy, queueSkip, handOver: 0.02, replace: 2 };
    const simulation = new Simulation({ ...options, after: invariants.check });
    for (const job of day.jobs) simulation.add(job);
    for (const fault of day.faults) simulation.break(fault);
    const begun = performance.now();
    simulation.run();
    checkEmpty(simulation);
    const tookSeconds = (performance.now() - begun) / 1000;
    rows.push({ ...summary(simulation), events: simulation.events, tookSeconds });
    console.log(`${policy.name}: ${simulation.events} events in ${tookSeconds.toFixed(1)} s`);
  }
}
const text = table(rows);
console.log(`\n${text}`);
const asUsual = Object.entries(usual).every(([name, value]) => given[name as 'hours'] === value);
const folder = asUsual ? path.join(root, 'bench', 'results') : path.join(build, 'bench');
mkdirSync(folder, { recursive: true });
const result = { date: new Date().toISOString(), ...given, sessions: day.jobs.length, rows };
writeFileSync(path.join(folder, 'day.json'), `${JSON.stringify(result, null, 2)}\n`);
writeFileSync(path.join(folder, 'day.md'), `${page(first, text)}\n`);
console.log(
  `Written to ${path.relative(process.cwd(), path.join(folder, 'day.md'))} and day.json.`,
);

function table(rows: readonly Summary[]): string {
  const head = ['policy', 'skip', 'wait mean', 'p50', 'p90', 'p99', 'max', 'longest queue'];
  const more = ['memory', 'slots', 'done', 'lost', 'left', 'refused'];
  const lines = rows.map((row) => [
    row.policy,
    row.skip ? 'yes' : 'no',
    ...[row.wait.mean, row.wait.p50, row.wait.p90, row.wait.p99, row.wait.max].map(seconds),
    String(row.longestQueue),
    percent(row.memory),
    percent(row.slots),
    ...[row.done, row.lost, row.left].map(String),
    Object.entries(row.refused)
      .map(([why, count]) => `${count} ${why}`)
      .join(', '),
  ]);
  const all = [[...head, ...more], [...head, ...more].map(() => '---'), ...lines];
  return all.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function page(first: string, text: string): string {
  return `# A day in simulated time

Made by \`npm run bench -- day\`: ${first}. Waits are seconds, of those that got a place; memory and slots are
what was taken of what there is, on average over the day. \`left\` went away after waiting as long as
they would. Every policy gets the same day; invariants were checked after every event.

${text}`;
}

function seconds(value: number): string {
  return value.toFixed(value < 10 ? 2 : 0);
}

function percent(part: number): string {
  return `${(100 * part).toFixed(1)} %`;
}
