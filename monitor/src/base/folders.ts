// Folders that a server writes to.
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';

/**
 * Makes the folder, with those above it. Without `make` nothing is made, but the same things are refused. Throws
 * the system's error. True: the folder is there.
 */
export function ensureFolder(folder: string, make: boolean, mode = 0o777): boolean {
  if (make) {
    makeFolder(path.resolve(folder), mode);
    return true;
  }
  const wanted = path.resolve(folder);
  const above = nearest(wanted);
  if (!statSync(above).isDirectory()) {
    // In the words of mkdir.
    const why = above === wanted ? 'EEXIST: file already exists' : 'ENOTDIR: not a directory';
    throw new Error(`${why}, mkdir '${folder}'`);
  }
  if (above === wanted) return true;
  accessSync(above, constants.W_OK | constants.X_OK);
  return false;
}

/**
 * As `recursive: true` of mkdirSync, which tries for ever where the folder above is there and the system says ENOENT
 * all the same, as in /proc.
 */
function makeFolder(folder: string, mode: number) {
  try {
    mkdirSync(folder, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
    const above = path.dirname(folder);
    if (code !== 'ENOENT' || existsSync(above)) throw error;
    makeFolder(above, mode);
    mkdirSync(folder, { mode });
  }
}

function nearest(folder: string): string {
  return existsSync(folder) || path.dirname(folder) === folder
    ? folder
    : nearest(path.dirname(folder));
}
