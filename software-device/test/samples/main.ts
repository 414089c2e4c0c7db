// npm run test:samples -- DIR [NAME...]: builds the samples of a checkout of NVIDIA's cuda-samples,
// runs each natively on the software device, then remoted, and says how it went.
//   --libraries DIR   a folder with include/ and lib/ for what the toolkit lacks (may be repeated)
//   --out DIR         where programs are built; build/samples
//   --seconds N       how much processor time one run may take; 300
//   --natively        leaves out the remoted runs
//   --write           writes docs/software-device/samples.md from the last result of every sample,
//                     here or, for the same versions, in the table that is there
//   --verbose         shows the output of what did not pass
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { build as buildFolder, root } from '../../../bin/paths.mjs';
import { guestLibrary } from '../../../test/support/paths.js';
import { build, libraryFolders, type Toolkit } from './build.js';
import { type Result, type Run, run, type Verdict } from './run.js';
import { findSamples, type Sample } from './sample.js';
import { Servers } from './servers.js';
import { type Row, readTable, table, VERDICTS } from './table.js';

const DOCUMENT = path.join(root, 'docs', 'software-device', 'samples.md');

process.exitCode = await main();

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      libraries: { type: 'string', multiple: true },
      out: { type: 'string' },
      seconds: { type: 'string' },
      natively: { type: 'boolean' },
      write: { type: 'boolean' },
      verbose: { type: 'boolean' },
    },
  });
  const [checkout, ...names] = positionals;
  if (!checkout || !existsSync(path.join(checkout, 'Samples'))) {
    console.error('Name a checkout of https://github.com/NVIDIA/cuda-samples: it has a Samples/.');
    return 1;
  }
  const toolkit = findToolkit((values.libraries ?? []).map((each) => path.resolve(each)));
  const all = findSamples(path.resolve(checkout), path.join(toolkit.home, 'include'));
  const chosen = all.filter(({ name }) => names.length === 0 || names.includes(name));
  const unknown = names.filter((name) => !all.some((sample) => sample.name === name));
  if (unknown.length > 0) {
    console.error(`There is no sample called ${unknown.join(' or ')}.`);
    return 1;
  }
  const device = path.join(buildFolder, 'software-device');
  const out = path.resolve(values.out ?? path.join(buildFolder, 'samples'));
  mkdirSync(out, { recursive: true });
  const runs = readRuns(checkout);
  // Programs that compile kernels as they run get PTX from NVRTC that way.
  const keepPtx = path.join(device, 'keep-ptx');
  const libraryPath = [keepPtx, device, ...libraryFolders(toolkit)];
  const guestPath = [keepPtx, path.dirname(guestLibrary), ...libraryFolders(toolkit)];
  const servers = new Servers();

  const rows: Row[] = [];
  const resultsFile = path.join(out, 'results.json');
  const last: Record<string, Row> = existsSync(resultsFile)
    ? JSON.parse(readFileSync(resultsFile, 'utf8'))
    : {};
  for (const sample of chosen) {
    const { row, results } = await one(sample);
    rows.push(row);
    last[row.place] = row;
    writeFileSync(resultsFile, JSON.stringify(last, null, 1));
    const took = results.reduce((sum, { seconds }) => sum + seconds, 0);
    const { remoted } = row;
    console.log(
      `${row.verdict.padEnd(9)} ${row.place}${row.why ? `: ${row.why}` : ''}` +
        (remoted && remoted.verdict !== row.verdict
          ? `; REMOTED ${remoted.verdict}: ${remoted.why}`
          : '') +
        (took ? ` (${took.toFixed(1)} s)` : ''),
    );
    if (values.verbose && (remoted ?? row).verdict !== 'pass') {
      for (const { output } of results) console.log(output.replace(/^/gm, '    '));
    }
  }
  await servers.stop();
  for (const verdict of VERDICTS) {
    console.log(`${rows.filter((row) => row.verdict === verdict).length} ${verdict}`);
  }
  if (values.write) {
    const versions = { samples: commitOf(checkout), nvcc: toolkit.version };
    const document = existsSync(DOCUMENT) ? readFileSync(DOCUMENT, 'utf8') : '';
    const written = new Map(readTable(document, versions).map((row) => [row.place, row]));
    const known = all.flatMap(({ place }) => last[place] ?? written.get(place) ?? []);
    if (known.length < all.length) {
      console.error(`${all.length - known.length} samples have no result yet: no table.`);
      return 1;
    }
    mkdirSync(path.dirname(DOCUMENT), { recursive: true });
    writeFileSync(DOCUMENT, table(known, versions));
  }
  const bad = (each?: { verdict: Row['verdict'] }) =>
    each?.verdict === 'fail' || each?.verdict === 'refused';
  return rows.some((row) => bad(row) || bad(row.remoted)) ? 1 : 0;

  async function one(sample: Sample): Promise<{ row: Row; results: Result[] }> {
    const { place } = sample;
    const built = await build(sample, toolkit, device, out);
    if ('notBuilt' in built) {
      return { row: { place, verdict: 'not built', why: built.notBuilt }, results: [] };
    }
    const limit = Number(values.seconds ?? 300);
    const results: Result[] = [];
    for (const each of runs(sample)) {
      results.push(await run(built.program, each, libraryPath, limit));
    }
    const row: Row = { place, ...overall(results) };
    const tried = ['pass', 'waived'].includes(row.verdict) && !values.natively;
    if (!tried) return { row, results };
    const remoted: Result[] = [];
    for (const each of runs(sample)) {
      const address = await servers.address(each.computeCapability, each.devices);
      remoted.push(await run(built.program, each, guestPath, limit, address));
    }
    return { row: { ...row, remoted: overall(remoted) }, results: [...results, ...remoted] };
  }
}

function overall(results: Result[]): { verdict: Verdict; why: string } {
  const worst = results.find(({ verdict }) => verdict !== 'pass');
  const { why = '' } = worst ?? results.find(({ why }) => why !== '') ?? {};
  return { verdict: worst?.verdict ?? 'pass', why };
}

function findToolkit(libraries: string[]): Toolkit {
  const nvcc = process.env['NVCC'] ?? 'nvcc';
  const home = process.env['CUDA_HOME'] ?? path.dirname(path.dirname(nvcc));
  const text = execFileSync(nvcc, ['--version'], { encoding: 'utf8' });
  const version = /, V([\d.]+)/.exec(text)?.[1] ?? 'unknown';
  return { nvcc, version, home, libraries };
}

/** How the samples themselves say that they are tested. */
function readRuns(checkout: string): (sample: Sample) => Run[] {
  interface Entry {
    args?: string[];
    runs?: { args?: string[] }[];
    min_gpus?: number;
  }
  const file = path.join(checkout, 'test_args.json');
  const entries: Record<string, Entry> = existsSync(file)
    ? JSON.parse(readFileSync(file, 'utf8'))
    : {};
  return ({ name, libraries }) => {
    const { args = [], runs = [{ args }], min_gpus: devices = 1 } = entries[name] ?? {};
    // NVIDIA's libraries take PTX for a device that is newer than they are.
    const old = libraries.every(
      (library) => !/^(cu(blas|fft|rand|sparse|solver)|npp|nvjpeg)/.test(library),
    );
    const computeCapability = old ? '12.0' : '13.0';
    return runs.map((each) => ({ args: each.args ?? [], devices, computeCapability }));
  };
}

function commitOf(checkout: string): string {
  try {
    const git = ['-C', checkout, 'log', '-1', '--format=commit %h of %cs'];
    return execFileSync('git', git, { encoding: 'utf8' }).trim();
  } catch {
    return 'an unknown commit';
  }
}
