// npm run bench -- faults [--only storm,monitor,log,cuts] [--seed 1]
//
// A real server in bad hands: clients, API server processes and the monitor are killed at random
// points under load, clocks jump, logs cannot be written. Writes what was seen to
// bench/results/faults.json. A seed draws what is done and who is hit; when, the machine decides.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../../bin/paths.mjs';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { cutConnections } from './cuts.js';
import { logFaults, Unheard } from './log-lost.js';
import { killMonitor } from './monitor-killed.js';
import { Scope } from './scope.js';
import { Storm } from './storm.js';

interface Row {
  name: string;
  what: string;
  value: number;
  /** What it must be; null: only shown. */
  mark: number | null;
  /** What is behind a value that it should not have. */
  details: string[];
}

const row = (
  name: string,
  what: string,
  value: number,
  mark: number | null = null,
  details: string[] = [],
): Row => ({ name, what, value, mark, details });

const { values } = parseArgs({ options: { only: { type: 'string' }, seed: { type: 'string' } } });
const wanted = values.only?.split(',');
const seed = Number(values.seed ?? 1);

async function storm(scope: Scope): Promise<Row[]> {
  const { jobs, programs, killedJobs, killedSlots, lost, survivors, wrong, left } = await Storm.run(
    scope,
    {
      ...{ seed, jobs: 1000, atOnce: 10, gpus: 2, serversPerGpu: 3 },
      ...{ killedJobs: 0.2, killedSlots: 0.1 },
    },
  );
  return [
    row('storm.jobs', 'clients, ten at a time, with clocks that jump', jobs),
    row('storm.programs', 'of them real CUDA programs', programs),
    row('storm.killed', 'clients killed at random points', killedJobs),
    row('storm.slots', 'API server processes killed at random points', killedSlots),
    row('storm.lost', 'sessions that ended with their process', lost),
    row('storm.survivors', 'clients that were not hit', survivors),
    row('storm.wrong', 'of these failed, or not as natively', wrong.length, 0, wrong),
    row('storm.left', 'processes, descriptors, files, shared memory', left.length, 0, left),
  ];
}

async function monitor(scope: Scope): Promise<Row[]> {
  const report = await killMonitor(scope, { seed, rounds: 20 });
  return [
    row('monitor.killed', 'times, by SIGKILL, with sessions and a queue', report.rounds),
    row('monitor.clients', 'that all heard of it', report.clients),
    row('monitor.programs', 'of them CUDA programs', report.programs),
    row('monitor.left', 'processes, files, memory', report.left.length, 0, report.left),
  ];
}

async function log(scope: Scope): Promise<Row[]> {
  const rows: Row[] = [];
  const sessions = 2000;
  for (const fault of logFaults) {
    const served = row(`log.${fault}`, `sessions served of ${sessions}`, 0, sessions);
    rows.push(served);
    try {
      const server = await Unheard.start(scope, fault);
      await server.serve(500);
      const before = server.memory;
      await server.serve(sessions);
      served.value = sessions;
      const grown = Math.round((server.memory - before) / 1e6);
      rows.push(row(`log.${fault}.growth`, 'MB more resident after them', grown));
      rows.push(
        row(`log.${fault}.exit`, 'exit code after SIGTERM', Number(await server.stop()), 0),
      );
    } catch (error) {
      served.details.push((error as Error).message);
    }
  }
  return rows;
}

async function cuts(): Promise<Row[]> {
  const report = await cutConnections({ seed, cuts: 1000 });
  return [
    row('cuts', 'connections cut at a random byte', report.cuts),
    row('cuts.unharmed', 'programs that had what they needed', report.unharmed),
    row(
      'cuts.slowest',
      'milliseconds from a cut to the end of its program',
      Math.round(report.slowest),
    ),
    row('cuts.wrong', 'hung, crashed, lied or said nothing', report.wrong.length, 0, report.wrong),
  ];
}

const rows: Row[] = [];
for (const [name, run] of Object.entries({ storm, monitor, log, cuts })) {
  if (wanted && !wanted.includes(name)) continue;
  for (const one of await Scope.with(run)) {
    rows.push(one);
    const { value, mark, what, details } = one;
    const judged = mark === null ? '' : value === mark ? 'met' : `NOT MET: ${mark}`;
    console.log(`${one.name.padEnd(20)} ${String(value).padStart(6)} ${judged.padEnd(12)} ${what}`);
    for (const detail of details) console.log(`  ${detail}`);
  }
}
const folder = wanted ? path.join(build, 'bench') : record;
mkdirSync(folder, { recursive: true });
const file = path.join(folder, 'faults.json');
const said = rows.map(({ details, ...row }) => ({ ...row, details: details.join('; ') }));
const result = { date: new Date().toISOString(), machine: machine(), seed, rows: said };
writeFileSync(file, `${JSON.stringify(result, null, 2)}\n`);
console.log(`\nWritten to ${path.relative(process.cwd(), file)}.`);
