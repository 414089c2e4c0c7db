// The CUDA programs of examples/, compiled by nvcc into build/examples.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, root } from './paths.mjs';
import { SetupError } from './step.mjs';

/**
 * @param {(detail?: string) => void} begin
 * @param {import('./nvcc.mjs').Nvcc} nvcc
 */
export async function ensureExamples(begin, nvcc) {
  const script = join(root, 'examples', 'build.mjs');
  if (!existsSync(script)) return;
  const { buildExamples } = await import(pathToFileURL(script).href);
  try {
    await buildExamples({
      nvcc: nvcc.path,
      out: join(build, 'examples'),
      libcuda: join(build, 'software-device'),
      log: () => begin(),
    });
  } catch (error) {
    throw new SetupError(/** @type {Error} */ (error).message);
  }
}
