// node_modules as package-lock.json has it.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from '../../bin/paths.mjs';
import { mustRun, newLog } from './command.mjs';

// Inside node_modules, not in build/: whoever removes or replaces the folder takes the stamp along.
const stamp = join(root, 'node_modules', '.outboard-lock-hash');
const npmsOwn = join(root, 'node_modules', '.package-lock.json');

/** @param {(detail?: string) => void} begin */
export async function ensureNodeModules(begin) {
  const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
  const wanted = createHash('sha256').update(lock).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  if (!sameAsInstalled(lock)) {
    begin();
    newLog('npm');
    await mustRun('npm ci', 'npm', ['npm', 'ci', '--no-audit', '--no-fund']);
  }
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, wanted);
}

/**
 * Whether somebody has already run npm here with this very lock file; npm leaves a record of what
 * it installed, which differs from the lock only in leaving out the root package and the packages
 * of other platforms.
 * @param {string} lock
 */
function sameAsInstalled(lock) {
  if (!existsSync(npmsOwn)) return false;
  const wanted = JSON.parse(lock).packages;
  const installed = JSON.parse(readFileSync(npmsOwn, 'utf8')).packages;
  return Object.entries(wanted).every(([path, { version, integrity, optional }]) => {
    if (path === '') return true;
    const here = installed[path];
    if (here === undefined) return optional === true;
    return here.version === version && here.integrity === integrity;
  });
}
