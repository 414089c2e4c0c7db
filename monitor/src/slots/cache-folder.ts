// The folders in which API servers keep what guests would otherwise send again: images of modules, and
// uploads. The executor says what is in them (api-server/executor/images/hashed_files.h).
import { lstatSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type ErrorCode, OutboardError } from '../base/errors.js';
import { ensureFolder } from '../base/folders.js';
import type { Log } from '../base/log.js';

export interface CacheFolder {
  folder: string;
  /** Bytes at most. */
  bytes: bigint;
}

export interface CacheKind {
  /** Also the folder's name, where none is given. */
  what: 'modules' | 'uploads';
  option: string;
  error: ErrorCode;
}

export const moduleCache: CacheKind = {
  what: 'modules',
  option: '--module-cache',
  error: 'OB_MODULE_CACHE',
};
export const uploadCache: CacheKind = {
  what: 'uploads',
  option: '--upload-cache',
  error: 'OB_UPLOAD_CACHE',
};

/** Inside systemd's folder for the service, else the user's; null: there is neither. */
function usualFolder(env: NodeJS.ProcessEnv, { what }: CacheKind): string | null {
  // systemd names several with colons between them.
  const ofService = env['CACHE_DIRECTORY']?.split(':')[0];
  if (ofService) return path.join(ofService, what);
  const ofUser = env['XDG_CACHE_HOME'] || path.join(env['HOME'] || os.homedir(), '.cache');
  return path.isAbsolute(ofUser) ? path.join(ofUser, 'outboard', what) : null;
}

/**
 * Makes the folder if need be, and if `make` says so. `named` null: the usual one; where that cannot be used, the
 * result is null and nothing is kept on disk. A folder that is named must be usable, or an OutboardError is thrown.
 */
export function openCacheFolder(
  kind: CacheKind,
  named: string | null,
  bytes: bigint,
  env: NodeJS.ProcessEnv,
  log: Log,
  make = true,
): CacheFolder | null {
  const folder = named ?? usualFolder(env, kind);
  if (folder === null) return null;
  try {
    prepare(folder, make);
    return { folder, bytes };
  } catch (error) {
    const why = (error as Error).message;
    if (named !== null) throw new OutboardError(kind.error, folder, why);
    log.warn({ folder, why }, `${kind.what} are not kept on disk; see ${kind.option}`);
    return null;
  }
}

/**
 * Throws where others can read or write the folder. Who can read sees the tenants' programs and data. Who
 * can write cannot make a server load something else, as files go by their hash, but can fill the disk.
 */
function prepare(folder: string, make: boolean) {
  if (!ensureFolder(folder, make, 0o700)) return;
  const { uid, mode } = lstatSync(folder);
  if (uid !== process.geteuid?.()) throw new Error('it belongs to somebody else');
  if (mode & 0o077) throw new Error('others may read or write it (chmod 700)');
}
