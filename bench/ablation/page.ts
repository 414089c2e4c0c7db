// The table of results.
import type { Machine } from '../src/machine.js';

export interface Measured {
  program: string;
  setting: string;
  calls: number;
  commands: number;
  roundTrips: number;
  bytes: number;
  /** For each round-trip time. */
  seconds: number[];
}

export interface Made {
  date: string;
  machine: Machine;
  repeat: number;
  rate: number;
}

export function page(rows: readonly Measured[], roundTrips: readonly number[], made: Made): string {
  const titles = ['program', 'setting', 'forwarded', 'round trips', 'kB'];
  const head = [...titles, ...roundTrips.map((ms) => `${ms} ms`)];
  const lines = rows.map((row) => [
    row.program,
    row.setting,
    `${row.commands} of ${row.calls}`,
    String(row.roundTrips),
    (row.bytes / 1e3).toFixed(0),
    ...row.seconds.map((seconds) => seconds.toFixed(3)),
  ]);
  return `# What each decision saves

Made by \`npm run bench -- ablation\`: example programs with one decision left out at a time. *forwarded*: commands sent, of the
driver calls that the program made (a copy in pieces is several). Times in seconds, medians of ${made.repeat}, over ${made.rate} Gbit/s and
these round trips. ${made.date.slice(0, 10)}, ${made.machine.cpu}, ${made.machine.cores} cores.

${summary(rows)}

DGSF's paper: its optimisations forwarded 48 % fewer calls for ONNX and 96 % fewer for TensorFlow.

![times](ablation.svg)

| ${head.join(' | ')} |
|${head.map(() => '---').join('|')}|
${lines.map((line) => `| ${line.join(' | ')} |`).join('\n')}
`;
}

/** Over all programs, what is forwarded and waited for as it is, beside all of it left out. */
export function summary(rows: readonly Measured[]): string {
  const total = (setting: string, field: 'commands' | 'roundTrips') =>
    rows.filter((row) => row.setting === setting).reduce((sum, row) => sum + row[field], 0);
  const fewer = (field: 'commands' | 'roundTrips') => {
    const [is, was] = [total('as it is', field), total('none of them', field)];
    return `${((1 - is / was) * 100).toFixed(0)} % fewer (${is} instead of ${was})`;
  };
  return `All programs together: calls forwarded ${fewer('commands')}, round trips ${fewer('roundTrips')}.`;
}
