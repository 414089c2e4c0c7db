// npm run bench -- agent [--quick] [--out FILE]
//
// What the way through `outboard agent` and the TLS front costs: bytes from a guest to a server and
// back, and round trips. Side by side, in turn, in the same run:
//  - over a network link of 1 Gbit/s (link.ts), plain and through both: what guests of other machines see;
//  - as fast as this machine can, plain, through both, and through two relays without TLS in their
//    places. All that passes is copied six times instead of twice, so this measures its processors.
// Guest, server, agent, front, relays and link are a process each. Prints a table and writes
// bench/results/agent.json.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { machine } from '../src/machine.js';
import { median, short } from '../src/row.js';
import { Guest } from './guest.js';
import { startWays, type Way, type Ways } from './ways.js';

interface Figure {
  name: string;
  what: string;
  unit: 'MiB/s' | 'us';
  /** The ratio is of these two. */
  plain: Way;
  through: Way;
  /** Measured beside them, for what it explains. */
  beside?: Way;
  mark?: { least: number };
  measure(guest: Guest): Promise<number>;
}

const linkMegabits = 1000;
const mebibytes = 256;
const roundTrips = 2000;
const mark = { least: 0.6 };
const here = { plain: 'direct', through: 'agent', beside: 'relays' } as const;
const link = { plain: 'link', through: 'linkAgent' } as const;

const upload = async (guest: Guest) => mebibytes / (await guest.upload(mebibytes));
const download = async (guest: Guest) => mebibytes / (await guest.download(mebibytes));
const roundTrip = async (guest: Guest) => ((await guest.roundTrips(roundTrips)) / roundTrips) * 1e6;
const sent = `${mebibytes} MiB from the guest, until the server has them all`;
const received = `${mebibytes} MiB to the guest`;
const there = `64 bytes there and back, one after the other, ${roundTrips} times`;

const figures: Figure[] = [
  { name: 'upload.link', what: sent, unit: 'MiB/s', ...link, mark, measure: upload },
  { name: 'download.link', what: received, unit: 'MiB/s', ...link, mark, measure: download },
  { name: 'upload.loopback', what: sent, unit: 'MiB/s', ...here, mark, measure: upload },
  { name: 'download.loopback', what: received, unit: 'MiB/s', ...here, mark, measure: download },
  { name: 'roundtrip.loopback', what: there, unit: 'us', ...here, measure: roundTrip },
];

async function main() {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } },
  });
  const repetitions = values.quick ? 1 : 7;
  const out =
    values.out ??
    (values.quick
      ? path.join(build, 'bench', 'agent.json')
      : path.join(root, 'bench', 'results', 'agent.json'));
  const folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-'));
  const ways = await startWays(folder, linkMegabits);
  try {
    const rows = await measure(ways, repetitions);
    mkdirSync(path.dirname(out), { recursive: true });
    writeFileSync(out, `${JSON.stringify(rows, null, 2)}\n`);
    console.table(
      rows.map(({ name, unit, plain, through, relays, ratio, mark }) => ({
        figure: name,
        unit,
        plain,
        through,
        relays: relays ?? '',
        ratio,
        mark: mark ? `>= ${mark.least}: ${mark.met ? 'met' : 'NOT met'}` : '',
      })),
    );
    console.log(`Written to ${path.relative(process.cwd(), out)}.`);
  } finally {
    await ways.stop();
    rmSync(folder, { recursive: true });
  }
}

async function measure({ addresses }: Ways, repetitions: number) {
  const date = new Date().toISOString();
  const rows = [];
  for (const figure of figures) {
    const { name, what, unit, mark, plain, through, beside } = figure;
    const ways = beside ? [plain, through, beside] : [plain, through];
    const values = await sample(figure, ways, addresses, repetitions);
    const [one = [], other = [], third] = values;
    // Of pairs that were measured one right after the other.
    const ratio = median(other.map((value, i) => value / (one[i] ?? Number.NaN)));
    rows.push({
      name,
      what,
      unit,
      plain: short(median(one)),
      through: short(median(other)),
      min: short(Math.min(...other)),
      max: short(Math.max(...other)),
      relays: third ? short(median(third)) : null,
      repetitions,
      ratio: short(ratio),
      mark: mark ? { ...mark, met: ratio >= mark.least } : null,
      date,
      machine: machine(),
    });
  }
  return rows;
}

/** The values of each way, measured in turn. */
async function sample(
  { measure }: Figure,
  ways: Way[],
  addresses: Ways['addresses'],
  repetitions: number,
): Promise<number[][]> {
  const guests = await Promise.all(ways.map((way) => Guest.connect(addresses[way])));
  const values: number[][] = ways.map(() => []);
  // The first time is for the compilers.
  for (let run = -1; run < repetitions; run++) {
    for (const [index, guest] of guests.entries()) {
      const value = await measure(guest);
      if (run >= 0) values[index]?.push(value);
    }
  }
  for (const guest of guests) guest.close();
  return values;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
