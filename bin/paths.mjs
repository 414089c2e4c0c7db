// Where a checkout or an installation lies, and what is built in it. All others take their paths from
// here, so that a clone may be anywhere and a developer may keep a second build folder
// (OUTBOARD_BUILD) without disturbing the first.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

/**
 * The repository's root: the nearest folder above this file with a package.json. Searched rather
 * than counted in `..`, because this file also runs as a checked copy, from build/js/bin, and
 * where Outboard is installed.
 */
function findRoot() {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = resolve(folder, '..');
    if (parent === folder) throw new Error(`no package.json above ${import.meta.dirname}`);
    folder = parent;
  }
  return folder;
}

export const root = findRoot();
export const build = resolve(root, process.env['OUTBOARD_BUILD'] || 'build');
/** Compiled TypeScript; mirrors the source tree. Not under OUTBOARD_BUILD: tsconfig.json names it. */
export const js = join(root, 'build', 'js');
/** What is run of it, in few files: see scripts/setup/programs.mjs. */
export const programs = join(root, 'build', 'programs');
