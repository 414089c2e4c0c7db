// What benches of example programs have in common: which of them run, how often, and how long.
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { listPrograms } from '../../examples/build.mjs';
import { record } from './record.js';
import { median } from './row.js';

/** The command line: [--quick] [--only PROGRAM,...] [--repeat N] [--out FOLDER]. */
export function exampleRuns(chosen: string[], usualRepeat: number) {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string' },
      repeat: { type: 'string' },
      out: { type: 'string' },
    },
  });
  const wanted = values.only?.split(',') ?? chosen;
  return {
    quick: values.quick,
    repeat: values.quick ? 1 : Number(values.repeat ?? usualRepeat),
    out: values.out ?? record,
    programs: listPrograms().filter(({ name }) => wanted.includes(name)),
  };
}

/** Seconds that a program takes, the median of so many runs; each must end well. */
export async function secondsOf(
  repeat: number,
  run: () => Promise<{ code: number | null; stderr: string }>,
): Promise<number> {
  const taken: number[] = [];
  for (let i = 0; i < repeat; i++) {
    const start = performance.now();
    const { code, stderr } = await run();
    taken.push((performance.now() - start) / 1e3);
    if (code !== 0) throw new Error(`a program ended with ${code}: ${stderr}`);
  }
  return median(taken);
}
