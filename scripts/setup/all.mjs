// The whole set-up, in order. Each step looks first and does nothing where nothing is to be done.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { build, js } from '../../bin/paths.mjs';
import { attached } from './command.mjs';
import { ensurePackages } from './debian.mjs';
import { ensureExamples } from './examples.mjs';
import { ensureNative } from './native.mjs';
import { ensureNodeModules } from './npm.mjs';
import { ensureNvcc, usersNvcc } from './nvcc.mjs';
import { buildPreset } from './presets.mjs';
import { ensurePrograms } from './programs.mjs';
import { SetupError, step } from './step.mjs';
import { ensureTls } from './tls.mjs';
import { ensureTypeScript } from './typescript.mjs';
import { ensureWebPage } from './web.mjs';

/** @typedef {import('./nvcc.mjs').Nvcc} Nvcc */

/**
 * @typedef {object} Ready
 * @property {Nvcc | { reason: string } | undefined} nvcc undefined only where it was not asked for
 * @property {SetupError | undefined} examplesFailed the example programs did not compile; everything
 *   else is ready
 */

/**
 * What there is to be set up for, from little to all:
 * - `demo`: what examples/demo.ts runs, for the processor of this machine;
 * - `runtime`: what `npx outboard` and the packages have;
 * - `programs`: also benchmarks, and the example programs by nvcc;
 * - `tests`: also what only tests need;
 * - `night`: also what only those of the night need.
 * @typedef {'demo' | 'runtime' | 'programs' | 'tests' | 'night'} Purpose
 */

/** @type {Record<Purpose, { native: import('./presets.mjs').BuildName, cuda: boolean }>} */
const needs = {
  demo: { native: 'demo', cuda: true },
  runtime: { native: 'runtime', cuda: false },
  programs: { native: 'release', cuda: true },
  tests: { native: 'release', cuda: true },
  night: { native: 'release', cuda: true },
};

/** @param {Purpose} purpose @returns {Promise<Ready>} */
export async function setUp(purpose) {
  const { native, cuda } = needs[purpose];
  const own = cuda ? await usersNvcc() : undefined;
  /** @type {import('./packages.mjs').Package['neededFor'][]} */
  const packages = ['build'];
  const tests = purpose === 'tests' || purpose === 'night';
  if (tests) packages.push('test');
  if (purpose === 'night') packages.push('night');
  if (cuda && !own && !existsSync(join(build, 'toolchain'))) packages.push('nvcc');

  await step('Debian packages', (begin) => ensurePackages(begin, packages));
  await step('npm packages', ensureNodeModules);
  if (purpose !== 'demo') await step('TLS of the guest', ensureTls);
  await step(buildPreset(native).title, (begin) => ensureNative(begin, native));
  await step('TypeScript build', ensureTypeScript);
  await step('programs', ensurePrograms);
  if (purpose !== 'demo') await step('web page', ensureWebPage);
  if (!cuda) return { nvcc: undefined, examplesFailed: undefined };

  const nvcc = await step('nvcc', (begin) => ensureNvcc(begin, own));
  /** @type {SetupError | undefined} */
  let examplesFailed;
  if ('path' in nvcc) {
    const names = purpose === 'demo' ? ['kmeans'] : [];
    const name = `${names[0] ?? 'examples'}, by nvcc ${nvcc.version}`;
    await step(name, (begin) => ensureExamples(begin, nvcc, { names, tests })).catch((error) => {
      if (!(error instanceof SetupError)) throw error;
      examplesFailed = error;
    });
  }
  return { nvcc, examplesFailed };
}

/**
 * The environment of tests, demonstrations and benchmarks: the caller's, without what would change
 * how CUDA programs run, and with our paths. See scripts/README.md.
 * @param {Pick<Ready, 'nvcc'>} ready
 * @returns {NodeJS.ProcessEnv}
 */
export function environment({ nvcc }) {
  const env = { ...process.env };
  for (const name of Object.keys(env)) {
    if (name.startsWith('OUTBOARD_')) delete env[name];
  }
  for (const name of ['NVCC', 'CUDA_HOME', 'CUDA_VISIBLE_DEVICES', 'LD_PRELOAD']) delete env[name];
  env['OUTBOARD_BUILD'] = build;
  // What earlier runs left on disk would change what these cost.
  env['OUTBOARD_MODULE_CACHE'] = 'none';
  if (nvcc && 'path' in nvcc) {
    env['NVCC'] = nvcc.path;
    env['CUDA_HOME'] = nvcc.home;
  }
  return env;
}

/**
 * Sets up for CUDA programs and runs one of our own on this terminal, with the same environment
 * as the tests.
 * @param {string} script below build/js
 * @param {string[]} args
 * @param {'demo' | 'programs'} [purpose]
 */
export async function runCompiled(script, args, purpose = 'programs') {
  const ready = await setUp(purpose);
  if (ready.nvcc && 'reason' in ready.nvcc) {
    throw new SetupError(
      `${ready.nvcc.reason}\nThis command compiles CUDA programs and needs nvcc >= 12: connect to ` +
        'the network, or set NVCC to one that is installed.',
    );
  }
  if (ready.examplesFailed) throw ready.examplesFailed;
  const file = join(js, script);
  if (!existsSync(file)) throw new SetupError(`${script.replace(/js$/, 'ts')} does not exist.`);
  return attached([process.execPath, '--enable-source-maps', file, ...args], {
    env: environment(ready),
  });
}
