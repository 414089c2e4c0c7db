// NVIDIA's own nvidia-smi on our library, where the machine has it: on the way, or named by
// NVIDIA_SMI. It may not be passed on, so nothing here brings it.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { noPrograms, nvmlLibrary } from '../../test/support/paths.js';
import { startRemoted, testProgram } from '../../test/support/program.js';
import { startServer, type TestServer } from '../../test/support/server.js';

const binary =
  process.env['NVIDIA_SMI'] ??
  (process.env['PATH'] ?? '')
    .split(':')
    .map((folder) => path.join(folder, 'nvidia-smi'))
    .find((file) => existsSync(file));
const skip = binary ? noPrograms : 'there is no nvidia-smi here';
const gpus = '2';
let server: TestServer;

t.before(async () => {
  if (skip) return;
  const args = ['--device', 'software', '--gpus', gpus, '--servers-per-gpu', '1'];
  server = await startServer({ args });
});
t.teardown(() => server?.stop());

async function smi(...args: string[]): Promise<string> {
  const env = {
    ...process.env,
    LD_LIBRARY_PATH: path.dirname(nvmlLibrary),
    OUTBOARD_SERVER: server.address,
    OUTBOARD_GPUS: gpus,
  };
  return (await promisify(execFile)(binary ?? '', args, { env })).stdout;
}

const uuid = 'GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';

t.test('which devices there are', { skip }, async (t) => {
  const lines = (await smi('-L')).trim().split('\n');
  t.equal(lines.length, 2);
  for (const [i, line] of lines.entries())
    t.match(line, new RegExp(`^GPU ${i}: Software Device \\(UUID: ${uuid}\\)$`));
  const asked = 'name,uuid,memory.total,memory.used,utilization.gpu';
  const [head, ...rows] = (await smi(`--query-gpu=${asked}`, '--format=csv')).trim().split('\n');
  t.match(head, /^name, uuid, memory.total \[MiB\]/);
  t.equal(rows.length, 2);
  for (const row of rows)
    t.match(row, new RegExp(`^Software Device, ${uuid}, [0-9]+ MiB, 0 MiB, 0 %$`));
  t.equal((await smi('-i', '1', '--query-gpu=index', '--format=csv,noheader')).trim(), '1');
});

t.test('what a program does on them', { skip }, async (t) => {
  const program = startRemoted(testProgram('endless-launch'), server.address, {
    env: { OUTBOARD_GPUS: gpus },
  });
  const ended = new Promise((resolve) => program.once('exit', resolve));
  await new Promise((resolve) => program.stdout?.once('data', resolve));
  const { pid } = program;
  const table = await smi();
  t.match(table, /\|\s+0\s+Software Device /);
  t.match(table, new RegExp(`\\|\\s+1 +N/A +N/A +${pid} +C +endless-launch +[0-9]+MiB`));
  const apps = await smi('--query-compute-apps=pid,name', '--format=csv,noheader');
  t.same(apps.trim().split('\n'), [`${pid}, endless-launch`, `${pid}, endless-launch`]);
  t.match(await smi('-q'), new RegExp(`Process ID +: ${pid}`));
  t.match(await smi('pmon', '-c', '1'), new RegExp(`^ +1 +${pid} +C .*endless-launch`, 'm'));
  t.match(await smi('dmon', '-c', '1'), /^ +1 +- +- +- +[0-9]+ +0 /m);
  program.kill('SIGKILL');
  await ended;
});
