// Folders that a server writes to.
import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs';
import path from 'node:path';

/**
 * Makes the folder, with those above it. Without `make` nothing is made, but the same things are refused. Throws
 * the system's error. True: the folder is there.
 */
export function ensureFolder(folder: string, make: boolean, mode = 0o777): boolean {
  if (make) {
    mkdirSync(folder, { recursive: true, mode });
    return true;
  }
  const above = nearest(path.resolve(folder));
  if (!statSync(above).isDirectory()) throw new Error(`${above} is not a folder`);
  if (above === path.resolve(folder)) return true;
  accessSync(above, constants.W_OK | constants.X_OK);
  return false;
}

function nearest(folder: string): string {
  return existsSync(folder) || path.dirname(folder) === folder
    ? folder
    : nearest(path.dirname(folder));
}
