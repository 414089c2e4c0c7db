// npm run test:clients -- [--write] [NAME...]: runs unpatched programs from PyPI natively on the
// software device and remoted through a server on it, and compares what they compute: CuPy, Numba,
// tinygrad, PyTorch, ONNX Runtime (the scripts of this folder), and the CUDA runtimes (runtimes/; NAME is `runtimes`).
//   --write   writes docs/clients.md (only with all of them, on the software device)
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ALL_RUNTIMES } from '../../scripts/setup/runtimes.mjs';
import { named } from '../support/device.js';
import { root } from '../support/paths.js';
import { native, type Outcome, remoted } from '../support/program.js';
import { startServer } from '../support/server.js';
import { page, type ScriptRow } from './page.js';
import { allRuntimeRuns, compileLookups, missingInRuntimeRun } from './runtimes.js';
import {
  cupyAndNumba,
  frameworks,
  runNatively,
  runRemoted,
  type Script,
  small,
  startServerFor,
} from './scripts.js';

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
    const there = await runRemoted(script, server);
    const row: ScriptRow = { script, remoted: passed('remoted', there, troubles) };
    if (!script.notNatively) {
      const here = await runNatively(script);
      row.natively = passed('natively', here, troubles);
      if (here.stdout !== there.stdout) {
        troubles.push(`not the same: natively\n${here.stdout}\nremoted\n${there.stdout}`);
      }
    }
    tell(script.way ? `${script.name}, ${script.way}` : script.name, troubles);
    return row;
  } finally {
    await server.stop();
  }
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

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { write: { type: 'boolean' } },
});
const wanted = (name: string) => positionals.length === 0 || positionals.includes(name);
const rows: ScriptRow[] = [];
for (const script of [...cupyAndNumba, ...small, ...frameworks]) {
  if (wanted(script.name)) rows.push(await runScript(script));
}
if (wanted('runtimes')) await runRuntimes();
if (values.write && positionals.length === 0 && failed === 0 && named === null) {
  writeFileSync(path.join(root, 'docs', 'clients.md'), page(rows, ALL_RUNTIMES));
}
process.exitCode = failed > 0 ? 1 : 0;
