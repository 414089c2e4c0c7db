// npm run bench:agent [-- --quick] [--out FILE]
//
// What the way through `outboard agent` and the TLS front costs: bytes from a guest to a server and
// back, and round trips, through nothing (a TCP connection), through both, and through two relays
// without TLS in their places, in turn, in the same run. Guest, server, agent, front and relays are a
// process each. Prints a table and writes bench/results/agent.json.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build, root } from '../../scripts/setup/paths.mjs';
import { machine } from '../src/machine.js';
import { median } from '../src/row.js';
import { Guest } from './guest.js';
import { startWays, type Ways } from './ways.js';

interface Figure {
  name: string;
  what: string;
  unit: 'MiB/s' | 'us';
  mark?: { least: number };
  measure(guest: Guest): Promise<number>;
}

const mebibytes = 256;
const roundTrips = 2000;

const figures: Figure[] = [
  {
    name: 'agent.upload',
    what: `${mebibytes} MiB from the guest, until the server has them all`,
    unit: 'MiB/s',
    mark: { least: 0.6 },
    measure: async (guest) => mebibytes / (await guest.upload(mebibytes)),
  },
  {
    name: 'agent.download',
    what: `${mebibytes} MiB to the guest`,
    unit: 'MiB/s',
    mark: { least: 0.6 },
    measure: async (guest) => mebibytes / (await guest.download(mebibytes)),
  },
  {
    name: 'agent.roundtrip',
    what: `64 bytes there and back, one after the other, ${roundTrips} times`,
    unit: 'us',
    measure: async (guest) => ((await guest.roundTrips(roundTrips)) / roundTrips) * 1e6,
  },
];

type Way = keyof Ways['addresses'];
const order: Way[] = ['direct', 'agent', 'relays'];

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
  const ways = await startWays(folder);
  try {
    const rows = await measure(ways, repetitions);
    mkdirSync(path.dirname(out), { recursive: true });
    writeFileSync(out, `${JSON.stringify(rows, null, 2)}\n`);
    console.table(
      rows.map(({ name, unit, direct, agent, relays, ratio, mark }) => ({
        figure: name,
        unit,
        direct,
        agent,
        relays,
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

async function measure(ways: Ways, repetitions: number) {
  const guests = new Map<Way, Guest>();
  for (const way of order) guests.set(way, await Guest.connect(ways.addresses[way]));
  const date = new Date().toISOString();
  const here = machine();
  const rows = [];
  for (const figure of figures) {
    const samples: Record<Way, number[]> = { direct: [], agent: [], relays: [] };
    // The first time is for the compilers.
    for (let run = -1; run < repetitions; run++) {
      for (const way of order) {
        const guest = guests.get(way);
        if (!guest) throw new Error(`no way ${way}`);
        const value = await figure.measure(guest);
        if (run >= 0) samples[way].push(value);
      }
    }
    // Of pairs that were measured one right after the other.
    const ratio = median(samples.agent.map((one, i) => one / (samples.direct[i] ?? Number.NaN)));
    const { name, what, unit, mark } = figure;
    rows.push({
      name,
      what,
      unit,
      direct: short(median(samples.direct)),
      agent: short(median(samples.agent)),
      min: short(Math.min(...samples.agent)),
      max: short(Math.max(...samples.agent)),
      relays: short(median(samples.relays)),
      repetitions,
      ratio: short(ratio),
      mark: mark ? { ...mark, met: ratio >= mark.least } : null,
      date,
      machine: here,
    });
  }
  for (const guest of guests.values()) guest.close();
  return rows;
}

function short(value: number): number {
  return Number(value.toPrecision(4));
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
