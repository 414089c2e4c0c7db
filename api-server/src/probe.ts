// What devices a driver library has, asked in a process of its own: a library that is not what
// its name says may take the process with it, and the monitor needs no driver in its own.
//
//   node probe.js BUILD-FOLDER LIBRARY
//
// Answers over IPC with a Probed.
import { readFileSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { loadNative, type OfferedDevice } from './native.js';

/** `file`: where the loader has found the library; null: not known. */
export type Probed =
  | { devices: OfferedDevice[]; file: string | null }
  | { code: string | null; message: string };

const [build = '', library = ''] = process.argv.slice(2);
process.send?.(probe(), () => process.exit(0));

function probe(): Probed {
  try {
    return { devices: loadNative(build).offeredDevices(library), file: fileOf(library) };
  } catch (error) {
    const { code, message } = error as Error & { code?: unknown };
    return { code: typeof code === 'string' ? code : null, message };
  }
}

/** A library without a folder was looked for by the loader, as NVIDIA's is. Null: it cannot be told. */
function fileOf(library: string): string | null {
  try {
    return findFile(library);
  } catch {
    return null;
  }
}

function findFile(library: string): string | null {
  if (library.includes('/')) return realpathSync(library);
  const [name = ''] = library.split('.so');
  const maps = readFileSync('/proc/self/maps', 'utf8');
  const files = maps.split('\n').map((line) => line.slice(line.indexOf('/')));
  return files.find((file) => path.basename(file).startsWith(`${name}.so`)) ?? null;
}
