// npm run bench -- latency [--quick] [--only PROGRAM,...] [--repeat N] [--out FOLDER]
//
// Example programs over networks of 0.1 to 100 ms and 0.1 to 10 Gbit/s, each a pair of processes
// that delay and pace bytes (bench-link). What a program takes must be what it takes without a
// network, and its round trips, and its bytes: nothing else may wait. Beside it the same programs
// natively on the software device. Writes bench/results/latency.{json,md,svg}.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { counted, example, native, remoted } from '../../test/support/program.js';
import { exampleRuns, secondsOf } from '../src/example-runs.js';
import { type Link, overLink, withSoftwareServer } from '../src/link.js';
import { machine } from '../src/machine.js';
import { short } from '../src/row.js';
import { byRate, byRoundTrip, expected, type Travel } from './links.js';
import { plot } from './plot.js';

const mark = 1.1;
const chosen = ['vector-add', 'matrix-multiply', 'reduction', 'histogram', 'mandelbrot', 'stencil'];

interface Row extends Link {
  program: string;
  /** Seconds. */
  native: number;
  /** Through guest and server on this machine, without a link. */
  near: number;
  measured: number;
  expected: number;
  /** Measured over what is expected from `near`. */
  ratio: number;
  roundTrips: number;
  bytes: number;
  met: boolean;
}

const { quick, repeat, out, programs } = exampleRuns(chosen, 5);

await withSoftwareServer(measure);

async function measure(address: string) {
  const rows: Row[] = [];
  for (const program of programs) {
    const file = example(program.name);
    const args = quick ? program.testArgs : program.args;
    // As in all runs that are timed, the server has the program's modules, and expects it to want them.
    await counted(file, address, { args });
    const once = await counted(file, address, { args });
    if (once.code !== 0) throw new Error(`${program.name}: ${once.stderr}`);
    const travel: Travel = {
      roundTrips: once.cost.roundTrips,
      bytesSent: once.cost.bytesSent + once.imageBytes,
      bytesReceived: once.cost.bytesReceived,
    };
    const here = await secondsOf(repeat, () => native(file, { args }));
    const near = await secondsOf(repeat, () => remoted(file, address, { args }));
    const links = quick ? byRoundTrip.slice(1, 2) : [...byRoundTrip, ...byRate.slice(1)];
    for (const link of links) {
      const measured = await overLink(link, address, (through) =>
        secondsOf(repeat, () => remoted(file, through, { args })),
      );
      const due = expected(near, travel, link);
      const ratio = measured / due;
      rows.push({
        program: program.name,
        ...link,
        native: short(here),
        near: short(near),
        measured: short(measured),
        expected: short(due),
        ratio: short(ratio),
        roundTrips: travel.roundTrips,
        bytes: travel.bytesSent + travel.bytesReceived,
        met: ratio <= mark,
      });
      console.log(
        `${program.name.padEnd(16)} ${link.roundTrip} ms ${link.rate} Gbit/s: ` +
          `${measured.toFixed(3)} s, expected ${due.toFixed(3)} (${ratio.toFixed(2)})`,
      );
    }
  }
  write(rows);
}

function write(rows: Row[]) {
  mkdirSync(out, { recursive: true });
  const file = (ending: string) => path.join(out, `latency.${ending}`);
  const record = { date: new Date().toISOString(), machine: machine(), repeat, mark, rows };
  writeFileSync(file('json'), `${JSON.stringify(record, null, 2)}\n`);
  writeFileSync(
    file('svg'),
    plot([
      { title: '10 Gbit/s', axis: 'round trip, ms', lines: lines(rows, byRoundTrip, 'roundTrip') },
      { title: '1 ms there and back', axis: 'Gbit/s', lines: lines(rows, byRate, 'rate') },
    ]),
  );
  writeFileSync(file('md'), page(rows));
  const met = rows.filter((row) => row.met).length;
  console.log(`${met} of ${rows.length} within ${mark} of what is expected.`);
}

function lines(rows: Row[], links: readonly Link[], axis: keyof Link) {
  const on = (row: Row) =>
    links.some((link) => link.roundTrip === row.roundTrip && link.rate === row.rate);
  return [...new Set(rows.map(({ program }) => program))].map((name) => ({
    name,
    points: rows
      .filter((row) => row.program === name && on(row))
      .map((row) => ({ x: row[axis], measured: row.measured, expected: row.expected }))
      .sort((a, b) => a.x - b.x),
  }));
}

function page(rows: Row[]): string {
  return `# Programs over longer and narrower networks

Made by \`npm run bench -- latency\`. Seconds, medians of ${repeat} runs. *near*: remoted on one machine. *expected*: near, one
round trip for connecting and one for each time the program waited, and all its bytes at the link's rate; the mark is
${mark} times that. ${new Date().toISOString().slice(0, 10)}, ${machine().cpu}, ${machine().cores} cores.

![measured and expected](latency.svg)

| program | round trip, ms | Gbit/s | native | near | round trips | MB | measured | expected | ratio |
|---|---|---|---|---|---|---|---|---|---|
${rows
  .map((row) =>
    [
      `| ${row.program}`,
      row.roundTrip,
      row.rate,
      row.native,
      row.near,
      row.roundTrips,
      (row.bytes / 1e6).toFixed(2),
      row.measured,
      row.expected,
      `${row.ratio}${row.met ? '' : ' **not met**'} |`,
    ].join(' | '),
  )
  .join('\n')}
`;
}
