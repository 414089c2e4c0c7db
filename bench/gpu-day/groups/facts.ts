// What the driver is, and what of it is missing.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { root } from '../../../bin/paths.mjs';
import { type Day, type Group, guestFolder, named, probed } from '../day.js';
import { probe } from '../probe.js';
import { lastLine } from '../processes.js';

export const facts: Group = {
  name: 'facts',
  what: 'GPU, driver, compute mode, MIG, missing symbols',
  seconds: 90,
  steps: [
    {
      name: 'device',
      seconds: 30,
      run: async (day) => probed('facts', await day.probe('facts')),
    },
    {
      name: 'nvidia-smi',
      seconds: 30,
      async run(day) {
        const query = [
          'name',
          'driver_version',
          'compute_mode',
          'mig.mode.current',
          'persistence_mode',
        ];
        const argv = ['nvidia-smi', `--query-gpu=${query.join()}`, '--format=csv,noheader'];
        const ran = await day.native(argv, 20).catch(() => null);
        if (ran === null) return { left: [{ name: 'nvidia-smi', why: 'not installed' }] };
        if (ran.code !== 0)
          return { left: [{ name: 'nvidia-smi', why: lastLine(ran.stdout + ran.stderr) }] };
        const values = ran.stdout.split('\n')[0]?.split(', ') ?? [];
        return {
          figures: Object.fromEntries(query.map((name, i) => [name, values[i]?.trim() ?? ''])),
        };
      },
    },
    {
      name: 'symbols',
      seconds: 30,
      // All that our own library exports is what a driver may be asked for.
      async run(day) {
        const names = await exportedNames(day);
        const answers = await day.probe('symbols', { input: names.join('\n') });
        return { figures: named('symbols, ', answers) };
      },
    },
    {
      name: 'served',
      seconds: 60,
      async run(day) {
        const argv = [
          ...[process.execPath, path.join(root, 'bin', 'outboard.mjs')],
          ...['device', '--probe', '--json', '--device', day.driver.serve],
        ];
        // All that the machine has, and not what the day is about alone.
        const { CUDA_VISIBLE_DEVICES: _, ...env } = day.nativeEnvironment;
        const ran = await day.run(argv, env, 50);
        const name = 'outboard device --probe';
        if (ran.code !== 0) return { differs: [{ name, how: lastLine(ran.stderr) }] };
        return { agrees: [name], figures: servedFigures(JSON.parse(ran.stdout)) };
      },
    },
  ],
};

interface Served {
  devices: { name: string; gpuUuid: string | null; computeMode: number }[];
  left: { message: string }[];
}

/** What would be served of the machine. */
function servedFigures({ devices, left }: Served): Record<string, string | number> {
  const instances = devices.filter(({ gpuUuid }) => gpuUuid !== null);
  return {
    'served, devices': devices.length,
    'served, instances (MIG)': instances.length,
    'served, instances': instances.map(({ name }) => name).join(', ') || 'none',
    'not served': left.map(({ message }) => message).join('; ') || 'nothing',
  };
}

async function exportedNames(day: Day): Promise<string[]> {
  const library = path.join(guestFolder, 'libcuda.so.1');
  const text = await readFile(library, 'latin1');
  // The string tables of an ELF file: names with a zero before and behind; some are no functions.
  const found = [...new Set(text.match(/(?<=\0)cu[A-Z][A-Za-z0-9_]+(?=\0)/g) ?? [])].sort();
  const answers = await probe(day.processes, 'symbols', library, day.nativeEnvironment, {
    input: found.join('\n'),
  });
  const none = `${answers['names']}`.split(' ');
  return found.filter((name) => !none.includes(name));
}
