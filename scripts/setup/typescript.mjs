// TypeScript to JavaScript, in build/js, which mirrors the source tree.
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { js, root } from '../../bin/paths.mjs';
import { mustRun, newLog } from './command.mjs';

const stamp = join(js, '.inputs');
const SOURCE = /(?:\.[mc]?ts|\.mjs|\.json)$/;

/** @param {(detail?: string) => void} begin */
export async function ensureTypeScript(begin) {
  const wanted = fingerprint();
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  begin();
  newLog('typescript');
  mkdirSync(js, { recursive: true });
  rmSync(stamp, { force: true });
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  await mustRun('The TypeScript build', 'typescript', [process.execPath, tsc, '-p', root]);
  removeOrphans(js);
  writeFileSync(stamp, wanted);
}

/**
 * Name, size and time of every source: tsc's own look at an unchanged tree takes a second or more,
 * this takes milliseconds.
 */
function fingerprint() {
  const hash = createHash('sha256');
  for (const path of sources(root)) {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${relative(root, path)} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

/** @param {string} folder @returns {Generator<string>} */
function* sources(folder) {
  const entries = readdirSync(folder, { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (path !== dirname(js)) yield* sources(path);
    } else if (SOURCE.test(entry.name)) {
      yield path;
    }
  }
}

/**
 * Removes what was compiled from a source that is gone; tsc leaves it, and a deleted test would go
 * on being run.
 * @param {string} folder
 */
function removeOrphans(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) removeOrphans(path);
    else if (/\.[mc]?js(?:\.map)?$/.test(entry.name) && !hasSource(path)) rmSync(path);
  }
}

/** @param {string} output */
function hasSource(output) {
  const source = join(root, relative(js, output)).replace(/\.map$/, '');
  const typed = source.replace(/js$/, 'ts');
  return existsSync(typed) || existsSync(source);
}
