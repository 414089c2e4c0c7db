// npm run bench -- tls [--quick] [--out FILE]
//
// What TLS costs a guest that speaks it by itself (tls://), beside one in clear and one that has an agent do it: copies,
// a call that waits, attaching; on this machine, and copies over a link of 1 Gbit/s. In turn, with the server of one run. Prints a table and writes bench/results/tls.json.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { build, root } from '../../bin/paths.mjs';
import { overLink } from '../src/link.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { median, short } from '../src/row.js';
import { measuredDevice, startProcess } from '../src/serving.js';

const ways = ['plain', 'tls', 'agent'] as const;
type Way = (typeof ways)[number];

interface Figure {
  /** Of bench-measure, and how often it does it. */
  name: string;
  count: number;
  unit: 'GiB/s' | 'us' | 'ms';
  /** Gbit/s; without: as fast as this machine can. */
  link?: number;
}

const figures: Figure[] = [
  { name: 'upload-64', count: 4, unit: 'GiB/s' },
  { name: 'download-64', count: 4, unit: 'GiB/s' },
  { name: 'call', count: 1000, unit: 'us' },
  { name: 'attach', count: 1, unit: 'ms' },
  { name: 'upload-64', count: 1, unit: 'GiB/s', link: 1 },
  { name: 'download-64', count: 1, unit: 'GiB/s', link: 1 },
];

const outboard = path.join(root, 'bin', 'outboard.mjs');

/** Where each way's program connects, behind a link to a port of the server's or at it. */
interface Server {
  plain: string;
  tls: string;
}

async function measure(figure: Figure, address: string, ca: string): Promise<number> {
  const child = spawn(
    path.join(build, 'bench', 'bench-measure'),
    [figure.name, '1', String(figure.count)],
    {
      env: {
        ...process.env,
        OUTBOARD_SERVER: address,
        OUTBOARD_CA: ca,
        LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const values: number[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    values.push((JSON.parse(line) as { value: number }).value);
  });
  const [code] = await once(child, 'close');
  const [value] = values;
  if (code !== 0 || value === undefined) throw new Error(`bench-measure ended with ${code}`);
  return value;
}

/** Does something with an address by way of an agent. */
async function byAgent<T>(
  folder: string,
  server: string,
  ca: string,
  use: (at: string) => Promise<T>,
): Promise<T> {
  const socket = `unix:${path.join(folder, 'agent')}`;
  const agent = startProcess([
    ...([process.execPath, outboard, 'agent', '--listen', socket] as [string, ...string[]]),
    ...['--server', server, '--ca', ca, '--log-level', 'warn'],
  ]);
  try {
    await agent.line;
    return await use(socket);
  } finally {
    agent.child.kill('SIGTERM');
    await agent.exit;
  }
}

async function sample(figure: Figure, way: Way, server: Server, ca: string, folder: string) {
  const at = (port: string) =>
    way === 'agent'
      ? byAgent(folder, port, ca, (socket) => measure(figure, socket, ca))
      : measure(figure, way === 'tls' ? `tls://${port}` : port, ca);
  const port = way === 'plain' ? server.plain : server.tls;
  return figure.link ? overLink({ roundTrip: 0.2, rate: figure.link }, port, at) : at(port);
}

async function withServer<T>(folder: string, use: (server: Server, ca: string) => Promise<T>) {
  const [cert, key] = [path.join(folder, 'cert.pem'), path.join(folder, 'key.pem')];
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key];
  const named = ['-addext', 'subjectAltName=IP:127.0.0.1', '-subj', '/CN=bench'];
  execFileSync('openssl', ['req', '-x509', '-days', '2', ...made, ...named, '-out', cert], {
    stdio: 'ignore',
  });
  const serve = startProcess([
    ...([process.execPath, outboard, 'serve', '--listen', '127.0.0.1:0'] as [string, ...string[]]),
    ...['--tls-listen', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key],
    ...['--http', 'none', '--log-level', 'warn', '--device', measuredDevice.serve],
  ]);
  const listening: string[] = [];
  const both = new Promise<void>((resolve) => {
    createInterface({ input: serve.child.stdout ?? process.stdin }).on('line', (line) => {
      const [, address] = /^listening on (\S+)$/.exec(line) ?? [];
      if (address) listening.push(address);
      if (listening.length === 2) resolve();
    });
  });
  try {
    await both;
    const [plain = '', tls = ''] = listening;
    return await use({ plain, tls: tls.replace('tls://', '') }, cert);
  } finally {
    serve.child.kill('SIGTERM');
    await serve.exit;
  }
}

async function main() {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } },
  });
  const repetitions = values.quick ? 1 : 7;
  const usual = values.quick ? path.join(build, 'bench') : record;
  const out = values.out ?? path.join(usual, 'tls.json');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-tls-'));
  try {
    const rows = await withServer(folder, async (server, ca) => {
      const rows = [];
      for (const figure of figures) {
        const taken: Record<Way, number[]> = { plain: [], tls: [], agent: [] };
        for (let run = -1; run < repetitions; run++)
          for (const way of ways) {
            const value = await sample(figure, way, server, ca, folder);
            // The first time is for the compilers.
            if (run >= 0) taken[way].push(value);
          }
        // Of those that were measured one right after the other.
        const ratio = (way: Way) =>
          short(median(taken[way].map((value, i) => value / (taken.plain[i] ?? Number.NaN))));
        const { name, unit, link = null } = figure;
        const medians = Object.fromEntries(ways.map((way) => [way, short(median(taken[way]))]));
        const ratios = { tlsToPlain: ratio('tls'), agentToPlain: ratio('agent') };
        rows.push({ name, link, unit, ...medians, ...ratios, repetitions });
      }
      return rows;
    });
    mkdirSync(path.dirname(out), { recursive: true });
    const whole = { date: new Date().toISOString(), machine: machine(), rows };
    writeFileSync(out, `${JSON.stringify(whole, null, 2)}\n`);
    console.table(rows);
    console.log(`Written to ${path.relative('.', out)}.`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

await main();
