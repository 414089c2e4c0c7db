// npm run bench -- uploads [--quick] [--out FILE]
//
// What the upload cache saves, and what it costs who sends something new: 64 MiB of random bytes to
// the device over links of 1 and 10 Gbit/s, by a process of its own each time. *plain*: the server
// keeps nothing; *new*: it keeps what nobody has sent before; *again*: another process sends the
// same. In turn, on two servers. Prints a table and writes bench/results/uploads.json.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { build } from '../../bin/paths.mjs';
import { type Link, overLink, withSoftwareServer } from '../src/link.js';
import { machine } from '../src/machine.js';
import { record } from '../src/record.js';
import { median, short } from '../src/row.js';

const mebibytes = 64;
const links: readonly Link[] = [1, 10].map((rate) => ({ roundTrip: 0.2, rate }));
const ways = ['plain', 'new', 'again'] as const;

/** Milliseconds of the upload of the contents that the number chooses. */
async function upload(address: string, contents: number): Promise<number> {
  const measure = path.join(build, 'bench', 'bench-measure');
  const child = spawn(measure, [`only-upload-${mebibytes}`, '1', String(contents)], {
    env: {
      ...process.env,
      OUTBOARD_SERVER: address,
      LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`bench-measure ended with ${code}`);
  const { value } = JSON.parse(text) as { value: number };
  return (mebibytes / 1024 / value) * 1e3;
}

/** The server writes what it keeps behind the session's back. */
async function kept(folder: string, parts: number) {
  const everybody = path.join(folder, 'everybody');
  const count = () =>
    existsSync(everybody)
      ? readdirSync(everybody).filter((name) => /^[0-9a-f]{64}$/.test(name)).length
      : 0;
  while (count() < parts) await sleep(20);
}

async function measure(link: Link, repeat: number, plain: string, keeping: string, folder: string) {
  const times: Record<(typeof ways)[number], number[]> = { plain: [], new: [], again: [] };
  const before = links.indexOf(link) * repeat;
  for (let run = before; run < before + repeat; run++) {
    const contents = run + 1;
    times.plain.push(await overLink(link, plain, (address) => upload(address, contents)));
    await overLink(link, keeping, async (address) => {
      times.new.push(await upload(address, contents));
      await kept(folder, (run + 1) * mebibytes);
      times.again.push(await upload(address, contents));
    });
  }
  const values = Object.fromEntries(ways.map((way) => [way, short(median(times[way]))]));
  return { mebibytes, ...link, ...values, repeat };
}

async function main() {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } },
  });
  const repeat = values.quick ? 1 : 7;
  const usual = values.quick ? path.join(build, 'bench') : record;
  const out = values.out ?? path.join(usual, 'uploads.json');
  const folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-uploads-'));
  try {
    const rows = await withSoftwareServer(
      (plain) =>
        withSoftwareServer(
          async (keeping) => {
            const rows = [];
            for (const link of links)
              rows.push(await measure(link, repeat, plain, keeping, folder));
            return rows;
          },
          { OUTBOARD_UPLOAD_CACHE: folder },
        ),
      { OUTBOARD_UPLOAD_CACHE: 'none' },
    );
    mkdirSync(path.dirname(out), { recursive: true });
    const whole = { date: new Date().toISOString(), machine: machine(), unit: 'ms', rows };
    writeFileSync(out, `${JSON.stringify(whole, null, 2)}\n`);
    console.table(rows);
    console.log(`Milliseconds for ${mebibytes} MiB. Written to ${path.relative('.', out)}.`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

await main();
