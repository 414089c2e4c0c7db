// The monitor's web page, from monitor/web to build/web.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { mustRun, newLog } from './command.mjs';

const source = join(root, 'monitor', 'web');
/** Where the monitor finds the page. */
export const web = join(build, 'web');
const stamp = join(web, '.inputs');

/** @param {(detail?: string) => void} begin */
export async function ensureWebPage(begin) {
  const wanted = fingerprint();
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  begin();
  newLog('web');
  rmSync(stamp, { force: true });
  const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js');
  const config = join(source, 'vite.config.ts');
  await mustRun('The build of the web page', 'web', [
    process.execPath,
    vite,
    'build',
    '--config',
    config,
    '--logLevel',
    'warn',
  ]);
  writeFileSync(stamp, wanted);
}

/** Name, size and time of all that goes into the page, libraries by the lock file. */
function fingerprint() {
  const inputs = readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash('sha256');
  for (const path of [...inputs.sort(), join(root, 'package-lock.json')]) {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}
