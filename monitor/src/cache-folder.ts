// Where the API servers keep images of modules on disk. What is in the folder is the executor's
// (api-server/executor/module_files.h).
import { lstatSync, mkdirSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { OutboardError } from './errors.js';
import type { Log } from './log.js';

export interface ModuleCache {
  folder: string;
  /** Bytes at most. */
  bytes: bigint;
}

/** systemd's folder for the service, else the user's; null: there is neither. */
export function usualFolder(env: NodeJS.ProcessEnv): string | null {
  // systemd names several with colons between them.
  const ofService = env['CACHE_DIRECTORY']?.split(':')[0];
  if (ofService) return path.join(ofService, 'modules');
  const ofUser = env['XDG_CACHE_HOME'] || path.join(env['HOME'] || os.homedir(), '.cache');
  return path.isAbsolute(ofUser) ? path.join(ofUser, 'outboard', 'modules') : null;
}

/**
 * Makes the folder if need be. Null: nothing is kept on disk, because the usual folder, with `named`
 * null, cannot be used; one that is named must be right, or an OutboardError is thrown.
 */
export function openModuleCache(
  named: string | null,
  bytes: bigint,
  env: NodeJS.ProcessEnv,
  log: Log,
): ModuleCache | null {
  const folder = named ?? usualFolder(env);
  if (folder === null) return null;
  try {
    prepare(folder);
    return { folder, bytes };
  } catch (error) {
    const why = (error as Error).message;
    if (named !== null) throw new OutboardError('OB_MODULE_CACHE', folder, why);
    log.warn({ folder, why }, 'modules are not kept on disk; see --module-cache');
    return null;
  }
}

/** Whoever could write there could not make a server load what it should not, but fill it; whoever
 * could read there would see the tenants' programs. */
function prepare(folder: string) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(folder);
  if (uid !== process.geteuid?.()) throw new Error('it belongs to somebody else');
  if (mode & 0o077) throw new Error('others may read or write it (chmod 700)');
}
