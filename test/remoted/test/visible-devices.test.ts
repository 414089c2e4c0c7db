// CUDA_VISIBLE_DEVICES leaves the same devices natively and remoted, those that
// driver-abi/test/visible.tsv says (each row at night); NVML, of which it is no matter, has them all.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { onDevice, onlySoftware } from '../../support/device.js';
import { sample } from '../../support/features.js';
import { build, guestLibrary, mustBeBuilt, root, softwareDevice } from '../../support/paths.js';
import { outcome } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const gpus = 3;
const table = readFileSync(path.join(root, 'driver-abi/test/visible.tsv'), 'utf8');
const all = table
  .split('\n')
  .filter((line) => line.includes('\t') && !line.startsWith('#'))
  .map((line) => line.split('\t') as [value: string, devices: string]);
const rows = sample(all, 1);

/** What the program says of each value: UUIDs of CUDA's devices, and of NVML's. */
async function seen(library: string, env: Record<string, string>, values: string[]) {
  const program = path.join(build, 'test', 'visible-devices');
  const child = spawn(program, [], {
    env: { ...process.env, LD_LIBRARY_PATH: path.dirname(library), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.end(values.map((value) => `${value}\n`).join(''));
  const { code, stdout, stderr } = await outcome(child);
  if (code !== 0) throw new Error(`exit ${code}: ${stderr}${stdout}`);
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('|') as [cuda: string, nvml?: string]);
}

/** The value of a row, with the UUIDs of this machine. */
function valueFor(pattern: string, uuids: string[]): string {
  return pattern.replace(/\{(\d)(?::(\d+)|(\^))?\}/g, (_, place, length, capitals) => {
    const uuid = uuids[Number(place)] ?? '';
    const whole = capitals ? `GPU-${uuid.slice(4).toUpperCase()}` : uuid;
    return whole.slice(0, length ? Number(length) : whole.length);
  });
}

t.test('what each row leaves', { skip: onlySoftware }, async (t) => {
  mustBeBuilt('test/visible-devices');
  t.ok(all.length >= 90, `${all.length} rows`);
  const args = [...onDevice, '--gpus', `${gpus}`, '--servers-per-gpu', '1'];
  const server = await startServer({ args });
  t.teardown(() => server.stop());
  for (const [where, library, env] of [
    ['natively', softwareDevice, { SOFTWARE_DEVICE_GPUS: `${gpus}` }],
    ['remoted', guestLibrary, { OUTBOARD_SERVER: server.address, OUTBOARD_GPUS: `${gpus}` }],
  ] as const) {
    const [[machine = '', others] = ['']] = await seen(library, env, []);
    const uuids = machine.split(' ');
    t.equal(uuids.length, gpus, `${where}: ${machine}`);
    const values = rows.map(([pattern]) => valueFor(pattern, uuids));
    const found = await seen(library, env, values);
    t.equal(found.length, rows.length, `${where}: an answer to each`);
    const wrong = rows.flatMap(([pattern, expected], i) => {
      const [cuda = '', nvml] = found[i] ?? [];
      const places = cuda.split(' ').map((uuid) => uuids.indexOf(uuid));
      const devices = cuda === 'CUDA_ERROR_NO_DEVICE' ? '-' : places.join('');
      const same = devices === expected && nvml === others;
      return same ? [] : [`"${pattern}": ${devices}, and not ${expected}; NVML: ${nvml}`];
    });
    t.same(wrong, [], where);
    if (where === 'remoted') t.equal(others, machine, 'NVML has them in the same order');
  }
});
