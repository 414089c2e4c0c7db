// The repository's files by kind: what is formatted, linted and run.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { js, root } from '../../bin/paths.mjs';
import { captured } from '../setup/command.mjs';
import { glob } from '../setup/glob.mjs';
import { SetupError } from '../setup/step.mjs';

const MACHINE_MADE = /(?:^|\/)(?:generated|corpus|corpora)\//;

/** Files under git's control that are still there. @returns {Promise<string[]>} */
export async function trackedFiles() {
  const { status, output } = await captured(['git', 'ls-files', '-z']);
  if (status !== 0) throw new SetupError(`git ls-files failed: ${output}`);
  return output
    .split('\0')
    .filter((path) => path && !MACHINE_MADE.test(path) && existsSync(join(root, path)));
}

/** @param {string[]} files */
export function nativeSources(files) {
  return files.filter((path) => /\.(?:c|h|cc|cpp|hpp|cu|cuh)$/.test(path));
}

/** Shell scripts, by name or by first line. @param {string[]} files */
export function shellScripts(files) {
  return files.filter((path) => {
    if (/\.(?:sh|bash)$/.test(path)) return true;
    if (/\.\w+$/.test(path)) return false;
    return /^#!.*\b(?:ba)?sh\b/.test(readFileSync(join(root, path), 'utf8').slice(0, 80));
  });
}

/** Sources of tests in TypeScript, as a person names them: what `compiledTests` will be, once compiled. */
export function testSources() {
  const parts = glob(`${root}/*`).filter((path) => !/\/(?:node_modules|build)$/.test(path));
  const depths = ['', '/*', '/*/*', '/*/*/*'];
  return parts
    .flatMap((part) => depths.flatMap((depth) => glob(`${part}${depth}/*.test.ts`)))
    .map((path) => path.slice(root.length + 1))
    .filter((path) => /\/test\//.test(path));
}

/** Compiled tests: every *.test.js below a folder named test. */
export function compiledTests() {
  const depths = ['', '/*', '/*/*', '/*/*/*', '/*/*/*/*'];
  return depths
    .flatMap((depth) => glob(`${js}${depth}/*.test.js`))
    .filter((path) => /\/test\//.test(path.slice(js.length)));
}
