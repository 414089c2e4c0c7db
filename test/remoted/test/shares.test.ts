// Shares of a GPU that sessions of several processes use in turn. What each has received is counted by the
// kernels of the programs themselves. Whatever else runs on the machine slows both down alike.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { onlySoftware } from '../../support/device.js';
import { noPrograms } from '../../support/paths.js';
import { startRemoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

const lines = 320;
/** Turns of a kernel, and kernels of a line: the work of a line is the same. */
const kernels = [
  ['25000', '16'],
  ['400000', '1'],
];

t.test(
  'halves, by time slices, with short kernels and long ones',
  { skip: noPrograms || onlySoftware },
  async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'outboard-slices-'));
    const server = await startServer({
      args: ['--device', 'software', '--servers-per-gpu', '2', '--quota', 'device-time'],
      env: { SOFTWARE_DEVICE_TRAITS: `time-slices=${folder}/device`, SOFTWARE_DEVICE_WORKERS: '2' },
    });
    t.teardown(async () => {
      await server.stop();
      rmSync(folder, { recursive: true });
    });
    // Counted from when both have work on the GPU.
    const counts = [0, 0];
    const begun = [false, false];
    await new Promise<void>((resolve, reject) => {
      kernels.forEach((args, index) => {
        const program = startRemoted(testProgram('busy-kernels'), server.address, {
          args,
          env: { OUTBOARD_SHARE: '50:100' },
        });
        t.teardown(() => program.kill('SIGKILL'));
        program.once('exit', (code) => reject(new Error(`the program ended with ${code}`)));
        createInterface({ input: program.stdout as NodeJS.ReadableStream }).on('line', () => {
          begun[index] = true;
          if (!begun.every(Boolean)) return;
          counts[index] = (counts[index] ?? 0) + 1;
          if ((counts[0] ?? 0) + (counts[1] ?? 0) === lines) resolve();
        });
      });
    });
    const part = (counts[0] ?? 0) / lines;
    t.ok(part > 0.4 && part < 0.6, `${counts[0]} to ${counts[1]}`);
  },
);
