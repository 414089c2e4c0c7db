// What devices a driver library has, asked in a process of its own: a library that is not what
// its name says may take the process with it, and the monitor needs no driver in its own.
//
//   node probe.js BUILD-FOLDER LIBRARY
//
// Answers over IPC with a Probed.
import { loadNative, type OfferedDevice } from './native.js';

export type Probed = { devices: OfferedDevice[] } | { code: string | null; message: string };

const [build = '', library = ''] = process.argv.slice(2);
process.send?.(probe(), () => process.exit(0));

function probe(): Probed {
  try {
    return { devices: loadNative(build).offeredDevices(library) };
  } catch (error) {
    const { code, message } = error as Error & { code?: unknown };
    return { code: typeof code === 'string' ? code : null, message };
  }
}
