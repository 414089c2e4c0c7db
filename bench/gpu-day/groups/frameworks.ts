// What is installed on the machine: Python packages that bring kernels of their own, and a compiler.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../../bin/paths.mjs';
import type { Day, Group, Step } from '../day.js';
import { ending, lastLine, type Ran } from '../processes.js';
import type { Found } from '../results.js';

const folder = path.join(root, 'bench', 'gpu-day', 'frameworks');
/** A script that finds nothing to try ends with this, and says what is missing. */
const notThere = 77;
/** Results may differ so much where additions come in another order. */
const tolerance = 1e-3;

/** A line of a script's output: what it did, its result, how long it took. */
interface Line {
  name: string;
  result: number | string;
  seconds?: number;
}

const lines = ({ stdout }: Ran): Line[] =>
  stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);

function near(a: Line['result'], b: Line['result']): boolean {
  if (typeof a !== 'number' || typeof b !== 'number') return a === b;
  return Math.abs(a - b) <= tolerance * Math.max(Math.abs(a), Math.abs(b), 1e-9);
}

function script(file: string): Step {
  const name = path.basename(file, '.py');
  const seconds = 240;
  return {
    name,
    seconds,
    async run(day) {
      const { python } = day.options;
      if (day.driver.exclusive) await day.noServer();
      const argv = [python, path.join(folder, file)];
      const here = await day.native(argv, seconds / 2).catch((error: Error) => error);
      if (here instanceof Error) return { left: [{ name, why: `${python} is not installed` }] };
      if (here.code === notThere) return { left: [{ name, why: lastLine(here.stdout) }] };
      // What does not work on this machine by itself says nothing.
      if (here.code !== 0) {
        day.keep(name, { natively: here });
        const why = `natively it ${ending(here)}: ${lastLine(here.stderr)}`;
        return { left: [{ name, why }] };
      }
      const there = await day.remoted(argv, seconds / 2);
      const found = compared(name, here, there);
      if (found.differs?.length) day.keep(name, { natively: here, remoted: there });
      return found;
    },
  };
}

function compared(name: string, here: Ran, there: Ran): Found {
  const figures: Record<string, number | string> = {};
  const agrees: string[] = [];
  const differs: { name: string; how: string }[] = [];
  for (const [where, ran] of [
    ['natively', here],
    ['remoted', there],
  ] as const) {
    if (ran.code !== 0)
      differs.push({ name, how: `${where} ${ending(ran)}: ${lastLine(ran.stderr)}` });
    for (const { name: what, seconds } of lines(ran))
      if (seconds !== undefined)
        figures[`${what}, ${where}, ms`] = Number((seconds * 1000).toPrecision(4));
  }
  for (const { name: what, result } of lines(here)) {
    const other = lines(there).find((line) => line.name === what);
    if (!other) continue;
    if (near(result, other.result)) agrees.push(what);
    else differs.push({ name: what, how: `natively ${result}, remoted ${other.result}` });
    if (result !== other.result) figures[`${what}, to the bit`] = 'no';
  }
  return { figures, agrees, differs };
}

/** Machine code for the very device, which no program that was brought here has. */
async function compiled(day: Day): Promise<Found> {
  const name = 'a program compiled here';
  const home = process.env['CUDA_HOME'] ?? '/usr/local/cuda';
  const usual = path.join(home, 'bin', 'nvcc');
  const nvcc = existsSync(usual) ? usual : 'nvcc';
  const source = path.join(root, 'examples', 'vector-add.cu');
  const program = path.join(day.folder, 'compiled-here');
  const argv = [nvcc, '-arch=native', '-o', program, source];
  const made = await day.native(argv, 90).catch(() => null);
  if (made === null) return { left: [{ name, why: 'nvcc is not installed' }] };
  if (made.code !== 0)
    return { left: [{ name, why: `nvcc ${ending(made)}: ${lastLine(made.stderr)}` }] };
  if (day.driver.exclusive) await day.noServer();
  const here = await day.native([program], 60);
  const there = await day.remoted([program], 60);
  if (here.code === 0 && there.code === 0 && here.stdout === there.stdout)
    return { agrees: [name] };
  day.keep(name, { remoted: there });
  const how = `natively ${ending(here)}, remoted ${ending(there)}: ${lastLine(there.stderr)}`;
  return { differs: [{ name, how }] };
}

export const frameworks = (): Group => ({
  name: 'frameworks',
  what: "cuBLAS, PyTorch's, Triton's, JAX's and CuPy's own kernels, where these are installed",
  seconds: 600,
  steps: [
    ...readdirSync(folder)
      .filter((file) => file.endsWith('.py') && !file.startsWith('_'))
      .sort()
      .map(script),
    { name: 'nvcc', seconds: 120, run: compiled },
  ],
});
