// What users run, from build/js to build/programs: each program with the libraries that it needs at once, in few files.
// Node looks for, opens and compiles each module by itself, and there are some 700 of them: `outboard serve` starts in half
// the time this way. Names stay readable in stacks, because nothing is minified.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { js, programs, root } from '../../bin/paths.mjs';
import { SetupError } from './step.mjs';

/** Below build/js and, afterwards, below build/programs. */
const entries = [
  'monitor/src/commands/main',
  'monitor/src/quota/runner-worker',
  'monitor/src/tls/front-process',
  'api-server/src/main',
  'api-server/src/probe',
  'simulator/scenario/main',
];
/** Those load files of their own by path (native code, threads), or are loaded by few. */
export const apart = /^(?:msgpackr|pino|pino-pretty|@opentelemetry\/.*)$/;
const stamp = join(programs, '.inputs');
/** Names of the npm packages that are in it, a line each. */
export const inside = join(programs, 'packages.txt');

/** @param {(detail?: string) => void} begin */
export async function ensurePrograms(begin) {
  const hash = createHash('sha256');
  for (const file of ['package-lock.json', 'scripts/setup/programs.mjs'])
    hash.update(readFileSync(join(root, file)));
  const wanted = hash.update(readFileSync(join(js, '.inputs'))).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  begin();
  rmSync(programs, { recursive: true, force: true });
  // What npm has not installed yet when this file is loaded.
  const { rolldown } = await import('rolldown');
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, join(js, `${name}.js`)])),
    platform: 'node',
    external: (/** @type {string} */ name) => apart.test(name),
    onwarn(/** @type {{ message: string }} */ { message }) {
      throw new SetupError(`The programs of build/programs: ${message}`);
    },
  });
  const { output } = await bundle.write({
    dir: programs,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'parts/[name]-[hash].js',
  });
  const packages = output
    .flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []))
    .map((id) => /\/(node_modules\/(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1]);
  writeFileSync(inside, [...new Set(packages.filter(Boolean))].sort().join('\n'));
  writeFileSync(stamp, wanted);
}
