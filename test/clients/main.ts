// npm run test:clients -- [--write] [NAME...]: runs unpatched programs from PyPI natively on the
// software device and remoted through a server on it, and compares what they compute: CuPy, Numba,
// tinygrad, PyTorch, ONNX Runtime (the scripts of this folder), and the CUDA runtimes (runtimes/; NAME is `runtimes`).
// Where cuBLAS is the server's, round trips must not be more than with the program's own.
//   --write   writes docs/clients.md, on the software device: with names of scripts, what the steps of PyTorch's host
//             side cost, and that to test/costs/torch.json
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ALL_RUNTIMES } from '../../scripts/setup/runtimes.mjs';
import { named } from '../support/device.js';
import { root } from '../support/paths.js';
import { native, type Outcome, remoted } from '../support/program.js';
import { startServer } from '../support/server.js';
import { BESIDE_NODES, differences, recorded, recordedSteps, recordSteps } from './costs.js';
import { page, type ScriptRow, withRecorded } from './page.js';
import { allRuntimeRuns, compileLookups, missingInRuntimeRun } from './runtimes.js';
import {
  costsOfLibraries,
  cupyAndNumba,
  frameworks,
  libraries,
  runCounted,
  runNatively,
  runRemoted,
  type Script,
  type Servers,
  small,
  startServerFor,
} from './scripts.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { write: { type: 'boolean' } },
});
/** Figures of another device than the usual one are no record. */
const writes = Boolean(values.write) && named === null;

let failed = 0;

function tell(what: string, troubles: string[]) {
  console.log(`${troubles.length > 0 ? 'FAILED' : 'ok    '} ${what}`);
  for (const trouble of troubles) console.log(trouble.trim().replace(/^/gm, '    '));
  if (troubles.length > 0) failed++;
}

/** The checks that an outcome says were passed; what went wrong goes to `troubles`. */
function passed(where: string, { code, signal, stdout, stderr }: Outcome, troubles: string[]) {
  const lines = stdout.trim().split('\n');
  const bad = lines.filter((line) => !line.startsWith('ok '));
  if (bad.length > 0 || code !== 0) {
    troubles.push(`${where}, ended with ${signal ?? code}:\n${bad.join('\n')}\n${stderr}`);
  }
  return lines.length - bad.length;
}

async function runScript(script: Script): Promise<ScriptRow> {
  const troubles: string[] = [];
  const server = await startServerFor(script);
  try {
    const there = script.countsSteps
      ? await countSteps(script, script.countsSteps, server, troubles)
      : await runRemoted(script, server);
    const row: ScriptRow = { script, remoted: passed('remoted', there, troubles) };
    if (!script.notNatively) {
      const here = await runNatively(script);
      row.natively = passed('natively', here, troubles);
      const said = ({ stdout }: Outcome) =>
        script.anotherRelease ? stdout.replace(/ \w+$/gm, '') : stdout;
      if (said(here) !== said(there)) {
        troubles.push(`not the same: natively\n${here.stdout}\nremoted\n${there.stdout}`);
      }
    }
    if (script.served && troubles.length === 0) troubles.push(...(await moreThanItsOwn(script)));
    tell(script.way ? `${script.name}, ${script.way}` : script.name, troubles);
    return row;
  } finally {
    await server.stop();
  }
}

/** Calls that travel whole must not have a program wait more often than its own library has it. */
async function moreThanItsOwn(script: Script): Promise<string[]> {
  const { own, served } = await costsOfLibraries(script);
  const figures = (cost: typeof own.cost) =>
    `${cost.roundTrips} round trips, ${cost.commands} commands, ${cost.bytesSent} bytes sent, ${cost.bytesReceived} received`;
  const both = `with its own cuBLAS ${figures(own.cost)}, with the server's ${figures(served.cost)}`;
  console.log(`      ${script.name}: ${both}`);
  const troubles: string[] = [];
  for (const one of [own, served]) passed('counted', one, troubles);
  if (served.cost.roundTrips > own.cost.roundTrips) troubles.push(`more round trips: ${both}`);
  return troubles;
}

async function countSteps(
  script: Script,
  file: string,
  server: Servers,
  troubles: string[],
): Promise<Outcome> {
  const [outcome, costs] = await runCounted(script, server);
  if (costs === null) {
    troubles.push('no costs of its steps were told');
    return outcome;
  }
  for (const [name, { nodes, commands }] of Object.entries(costs))
    if (script.served && nodes && commands > nodes + BESIDE_NODES)
      troubles.push(`${name}: ${commands} commands for a graph of ${nodes} nodes`);
  if (writes) recordSteps(file, costs);
  else if (named === null) troubles.push(...differences(costs, recordedSteps(file)));
  return outcome;
}

async function runRuntimes() {
  const server = await startServer();
  try {
    for (const run of allRuntimeRuns(ALL_RUNTIMES)) {
      const { program, args } = run;
      const here = await native(program, { args });
      const there = await remoted(program, server.address, { args });
      const troubles = missingInRuntimeRun(run, here.stdout).map((each) => `natively no ${each}`);
      if (here.code !== 0) troubles.push(`natively: ${here.signal ?? here.code}\n${here.stderr}`);
      if (there.code !== 0)
        troubles.push(`remoted: ${there.signal ?? there.code}\n${there.stderr}`);
      if (here.stdout !== there.stdout) troubles.push(`not the same remoted:\n${there.stdout}`);
      tell(`runtime ${run.name}`, troubles);
    }
    const program = compileLookups();
    const here = await native(program);
    const there = await remoted(program, server.address);
    tell('look-ups by any version', here.stdout === there.stdout ? [] : [there.stdout]);
  } finally {
    await server.stop();
  }
}

/** Each by itself, behind a driver of a version: it says what it says natively, also where it refuses that driver. */
async function runRuntimesBehind(version: string) {
  const env = { SOFTWARE_DEVICE_TRAITS: `driver=${version},newer-ptx` };
  const server = await startServer({ env });
  try {
    for (const run of allRuntimeRuns(ALL_RUNTIMES).filter(({ runtimes }) => runtimes === 1)) {
      const { program, args } = run;
      const here = await native(program, { args, env });
      const there = await remoted(program, server.address, { args });
      const troubles = here.code === 0 ? missingInRuntimeRun(run, here.stdout) : [];
      const natively = `natively ${here.signal ?? here.code}:\n${here.stdout}${here.stderr}`;
      const far = `remoted ${there.signal ?? there.code}:\n${there.stdout}${there.stderr}`;
      if (natively.replace('natively', 'remoted') !== far) troubles.push(natively, far);
      if (Number(run.name.split('.')[0]) < 13 && here.code !== 0) troubles.push(natively);
      tell(`runtime ${run.name}, driver ${version}`, troubles);
    }
  } finally {
    await server.stop();
  }
}

const wanted = (name: string) => positionals.length === 0 || positionals.includes(name);
const rows: ScriptRow[] = [];
for (const script of [...cupyAndNumba, ...small, ...libraries, ...frameworks]) {
  if (wanted(script.name)) rows.push(await runScript(script));
}
if (wanted('runtimes')) {
  await runRuntimes();
  for (const version of ['12.4', '12.8', '13.0', '13.5']) await runRuntimesBehind(version);
}
if (writes && failed === 0) {
  const file = path.join(root, 'docs', 'clients.md');
  const all = positionals.length === 0;
  const text = all
    ? page(rows, ALL_RUNTIMES, recorded())
    : withRecorded(readFileSync(file, 'utf8'), recorded());
  writeFileSync(file, text);
}
process.exitCode = failed > 0 ? 1 : 0;
