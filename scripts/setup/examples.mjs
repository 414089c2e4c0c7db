// The CUDA programs of examples/ and, for tests, of test/programs/, compiled by nvcc into
// build/examples and build/test-programs.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, root } from '../../bin/paths.mjs';
import { SetupError } from './step.mjs';

/**
 * @param {(detail?: string) => void} begin
 * @param {import('./nvcc.mjs').Nvcc} nvcc
 * @param {{ names: string[], tests: boolean }} options names: these of examples/, or all where there
 *   are none; tests: what only tests run, too
 */
export async function ensureExamples(begin, nvcc, { names, tests }) {
  const script = join(root, 'examples', 'build.mjs');
  if (!existsSync(script)) return;
  const { buildExamples } = await import(pathToFileURL(script).href);
  try {
    const common = {
      nvcc: nvcc.path,
      libcuda: join(build, 'software-device'),
      log: () => begin(),
    };
    await buildExamples({ ...common, names, out: join(build, 'examples') });
    const sources = join(root, 'test', 'programs');
    if (tests && existsSync(join(sources, 'programs.json'))) {
      await buildExamples({ ...common, sources, out: join(build, 'test-programs') });
    }
  } catch (error) {
    throw new SetupError(/** @type {Error} */ (error).message);
  }
}
