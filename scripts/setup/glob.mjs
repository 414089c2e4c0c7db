// File patterns with `*` inside a path segment; all that Node 20 lacks and we need.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Existing paths that match an absolute pattern, in alphabetical order.
 * @param {string} pattern
 * @returns {string[]}
 */
export function glob(pattern) {
  let found = ['/'];
  for (const segment of pattern.split('/').filter(Boolean)) {
    found = segment.includes('*')
      ? found.flatMap((folder) => children(folder, segment))
      : found.map((folder) => join(folder, segment)).filter((path) => existsSync(path));
  }
  return found;
}

/** @param {string} folder @param {string} segment */
function children(folder, segment) {
  const parts = segment.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  const expression = new RegExp(`^${parts.join('.*')}$`);
  try {
    return readdirSync(folder)
      .filter((name) => expression.test(name))
      .sort()
      .map((name) => join(folder, name));
  } catch {
    return []; // Not a folder, or not ours to read: nothing matches in it.
  }
}
