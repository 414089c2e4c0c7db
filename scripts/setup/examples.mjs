// The CUDA programs of examples/ and, for tests, of test/programs/, compiled by nvcc into
// build/examples and build/test-programs.
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, root } from '../../bin/paths.mjs';
import { SetupError } from './step.mjs';

// As ccache's, which cannot hold what nvcc links.
const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'outboard-programs');
const CACHE_BYTES = 1 << 30;

/**
 * @param {import('./step.mjs').Begin} begin
 * @param {import('./nvcc.mjs').Nvcc} nvcc
 * @param {{ names: string[], tests: boolean }} options names: these of examples/, or all where there
 *   are none; tests: what only tests run, too
 */
export async function ensureExamples(begin, nvcc, { names, tests }) {
  const script = join(root, 'examples', 'build.mjs');
  if (!existsSync(script)) return;
  const { buildExamples, examples, listPrograms, shrinkCache } = await import(
    pathToFileURL(script).href
  );
  const parts = [{ sources: examples, names, out: join(build, 'examples') }];
  const sources = join(root, 'test', 'programs');
  if (tests && existsSync(join(sources, 'programs.json'))) {
    parts.push({ sources, names: [], out: join(build, 'test-programs') });
    // In the bundle for a day on a GPU.
    parts.push({ sources: join(root, 'bench', 'quota'), names: [], out: join(build, 'bench') });
  }
  const counts = parts.map((part) => part.names.length || listPrograms(part.sources).length);
  const all = counts.reduce((sum, count) => sum + count, 0);
  let done = 0;
  const options = {
    ...(tests ? { cache } : {}),
    nvcc: nvcc.path,
    libcuda: join(build, 'software-device'),
    log: () => begin().progress(`${done}/${all}`),
    done: () => {
      done++;
    },
  };
  try {
    for (const part of parts) await buildExamples({ ...options, ...part });
    if (tests) shrinkCache(cache, CACHE_BYTES);
  } catch (error) {
    throw new SetupError(/** @type {Error} */ (error).message);
  }
}
