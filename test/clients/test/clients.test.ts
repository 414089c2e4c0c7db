// Real clients, unpatched, on the software device: CuPy, Numba and tinygrad compare what it computes with
// NumPy (../*.py), natively and remoted; what they compute must be the same to the bit. `npm test`
// installs them.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { versionsOfClients } from '../../../scripts/setup/clients.mjs';
import { root } from '../../support/paths.js';
import { BESIDE_NODES, recorded, recordedSteps } from '../costs.js';
import { inferenceLines, stepLines } from '../page.js';
import {
  cupyAndNumba,
  frameworks,
  libraries,
  runNatively,
  runRemoted,
  small,
  startServerFor,
} from '../scripts.js';

/** For each change only this; run.test.ts has others of CuPy and Numba. At night all. */
const usual = ['cupy_machine_code'];

const checks: Record<string, number> = {
  cupy_arrays: 11,
  cupy_devices: 5,
  cupy_libraries: 8,
  cupy_machine_code: 3,
  numba_kernels: 11,
  tinygrad_training: 6,
};

for (const script of [...cupyAndNumba, ...small]) {
  if (!process.env['NIGHTLY'] && !usual.includes(script.name)) continue;
  t.test(script.name, { skip: script.installed.skip }, async (t) => {
    const here = await runNatively(script);
    const lines = here.stdout.trim().split('\n');
    for (const line of lines) t.match(line, /^ok /);
    t.equal(lines.length, checks[script.name], 'all checks were made');
    t.equal(here.signal ?? here.code, 0, here.stderr);

    const server = await startServerFor(script);
    t.teardown(() => server.stop());
    const there = await runRemoted(script, server);
    t.equal(there.stdout, here.stdout, 'the same remoted');
    t.equal(there.signal ?? there.code, 0, there.stderr);
    // The server has its modules now.
    const again = await runRemoted(script, server);
    t.equal(again.stdout, here.stdout, 'once more');
    t.equal(again.signal ?? again.code, 0, again.stderr);
  });
}

t.test('the page names what is run, and the versions', async (t) => {
  const page = readFileSync(path.join(root, 'docs', 'clients.md'), 'utf8');
  for (const { name, way } of [...cupyAndNumba, ...small, ...libraries, ...frameworks]) {
    t.ok(page.includes(`| \`${name}.py\`${way ? `, ${way}` : ''} |`), `${name} ${way}`);
  }
  for (const [name, version] of Object.entries(versionsOfClients())) {
    t.ok(page.includes(`| \`${name}\` | ${version} |`), `${name} ${version}`);
  }
});

t.test('steps of PyTorch wait for the device only where the program does', async (t) => {
  const page = readFileSync(path.join(root, 'docs', 'clients.md'), 'utf8');
  const steps = recordedSteps('torch.json');
  t.ok(Object.keys(steps).length > 15);
  for (const [name, { roundTrips }] of Object.entries(steps))
    t.ok(roundTrips <= 2, `${name}: ${roundTrips} round trips`);
  for (const line of stepLines(steps)) t.ok(page.includes(`${line}\n`), line);
});

t.test('an inference by calls of the server costs what its graph has nodes', async (t) => {
  const page = readFileSync(path.join(root, 'docs', 'clients.md'), 'utf8');
  const { inferences } = recorded();
  for (const line of inferenceLines(inferences)) t.ok(page.includes(`${line}\n`), line);
  const all = Object.values(recordedSteps('onnx-served.json'));
  t.ok(all.length > 0);
  for (const { nodes, commands } of all) t.ok(nodes && commands <= nodes + BESIDE_NODES);
});
