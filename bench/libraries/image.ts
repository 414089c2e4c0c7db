// A function's environment with cuBLAS and cuBLASLt and one without: how large they are, and how soon the first result of
// a program in them is there.
import { spawnSync } from 'node:child_process';
import { cpSync, linkSync, lstatSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { real, serve } from '../../libraries/test/support.js';
import { clients } from '../../test/clients/scripts.js';
import { guestLibrary } from '../../test/support/paths.js';
import type { TestServer } from '../../test/support/server.js';
import { overLink } from '../src/link.js';
import { median } from '../src/row.js';
import { type Steady, type Taken, take } from './steps.js';

const own = 'with cuBLAS, its own';
const served = "with cuBLAS, the server's";
const slim = "without cuBLAS, the server's";

export interface Imaged {
  name: string;
  /** Of all files of the environment's packages. */
  bytes: number;
  /** The first session of a server that nobody had used. */
  fresh: number;
  /** Of the sessions behind it, medians; ratios are of pairs with the environment that calls its own. */
  first: number;
  firstRatio: number;
  steady: number;
}

const sitePackages = (folder: string) => path.resolve(folder, '../../..');

/** What a program with CuPy's products needs, as paths below site-packages. */
function filesOf(python: string): string[] {
  const script = path.join(root, 'bench', 'libraries', 'environment.py');
  const args = [script, 'cupy-cuda13x', 'nvidia-cublas'];
  const { status, stdout, stderr } = spawnSync(python, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 27,
  });
  if (status !== 0) throw new Error(`${script}: ${stderr}`);
  return [...new Set(stdout.split('\n').filter(Boolean))];
}

/** The packages alone, by hard links: in an environment of their own below `folder`. */
function environment(folder: string, files: readonly string[], from: string) {
  const to = path.join(folder, path.relative(clients.folder, from));
  mkdirSync(path.join(folder, 'bin'), { recursive: true });
  cpSync(path.join(clients.folder, 'pyvenv.cfg'), path.join(folder, 'pyvenv.cfg'));
  for (const name of ['python', 'python3'])
    cpSync(path.join(clients.folder, 'bin', name), path.join(folder, 'bin', name), {
      verbatimSymlinks: true,
    });
  let bytes = 0;
  for (const file of files) {
    const [source, target] = [path.join(from, file), path.join(to, file)];
    mkdirSync(path.dirname(target), { recursive: true });
    linkSync(source, target);
    bytes += lstatSync(source).size;
  }
  return { folder, bytes };
}

function program(what: string, folder: string, bound: boolean, rounds: number): Steady {
  return {
    what,
    file: path.join(folder, 'bin', 'python'),
    options: {
      args: [path.join(root, 'bench', 'libraries', 'products.py'), String(rounds)],
      env: {
        LD_LIBRARY_PATH: path.dirname(guestLibrary),
        PYTHONNOUSERSITE: '1',
        PYTHONPYCACHEPREFIX: path.join(clients.folder, 'pycache'),
        CUPY_CACHE_DIR: path.join(clients.folder, 'cupy-cache'),
        CUPY_COMPILE_WITH_PTX: '1',
        ...(bound && { LD_AUDIT: path.join(build, 'libraries', 'outboard-binding.so') }),
      },
    },
  };
}

/** CuPy's products, with the server's cuBLAS. */
export const cupyProducts = (rounds: number) =>
  program(`CuPy: ${rounds} products`, clients.folder, true, rounds);

/** Null where CuPy is not installed. */
export async function measureImages(
  rounds: number,
  roundTrip: number,
  rate: number,
  repeat: number,
): Promise<Imaged[] | null> {
  if (clients.skip || real === null) return null;
  const folder = mkdtempSync(path.join(build, 'image-'));
  const servers: TestServer[] = [];
  try {
    const files = filesOf(path.join(clients.folder, 'bin', 'python'));
    const isBlas = (file: string) => /\/libcublas(Lt)?\.so/.test(file);
    if (!files.some(isBlas)) throw new Error('there is no cuBLAS in the environment');
    const from = sitePackages(real);
    const whole = environment(path.join(folder, 'with'), files, from);
    const lean = environment(
      path.join(folder, 'without'),
      files.filter((file) => !isBlas(file)),
      from,
    );
    const ways = [
      { name: own, image: whole, bound: false },
      { name: served, image: whole, bound: true },
      { name: slim, image: lean, bound: true },
    ].map(({ name, image, bound }) => ({
      name,
      bytes: image.bytes,
      program: program(name, image.folder, bound, rounds),
      runs: [] as Taken[],
    }));
    for (const _ of ways) servers.push(await serve(real, ['--module-memory', '1G']));
    // Once before, so that what is timed has been read from the disk; on a server of its own.
    const before = await serve(real, ['--module-memory', '1G']);
    servers.push(before);
    for (const { program } of ways) await take(program, before.address);
    for (let i = 0; i <= repeat; i++) {
      for (const [w, { program, runs }] of ways.entries()) {
        const server = servers[w] as TestServer;
        runs.push(
          await overLink({ roundTrip, rate }, server.address, (through) => take(program, through)),
        );
        await server.rested();
      }
    }
    const base = ways[0]?.runs ?? [];
    return ways.map(({ name, bytes, runs }) => {
      const ratios = runs.map(({ first }, i) => first / (base[i]?.first ?? Number.NaN));
      return {
        name,
        bytes,
        fresh: runs[0]?.first ?? Number.NaN,
        first: median(runs.slice(1).map(({ first }) => first)),
        firstRatio: median(ratios.slice(1)),
        steady: median(runs.slice(1).map(({ steady }) => steady)),
      };
    });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    rmSync(folder, { recursive: true });
  }
}
