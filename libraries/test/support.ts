// What tests of libraries share: programs with NVIDIA's own, and with ours in their place.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { build, guestLibrary, softwareDevice } from '../../test/support/paths.js';
import { native } from '../../test/support/program.js';
import { startServer } from '../../test/support/server.js';

/** NVIDIA's, as test/clients has it. */
function realLibraries(): string | null {
  const lib = path.join(build, 'clients', 'lib');
  const pythons = existsSync(lib) ? readdirSync(lib) : [];
  const folders = pythons.map((one) => path.join(lib, one, 'site-packages/nvidia/cu13/lib'));
  return folders.find((folder) => existsSync(path.join(folder, 'libcublas.so.13'))) ?? null;
}

export const real = realLibraries();
export const skip = real === null && 'cuBLAS is not there: npm test installs it (build/clients)';
const folders = (...all: string[]) => ({ LD_LIBRARY_PATH: all.join(':') });
const guest = path.dirname(guestLibrary);
// The real library has no machine code that the software device runs, and PTX for this.
const capability = { SOFTWARE_DEVICE_COMPUTE_CAPABILITY: '13.0' };
const few = ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'];

export const withReal = (args: string[]) => ({ args, env: folders(guest, real ?? '') });
export const withOurs = (args: string[]) => ({
  args,
  env: folders(path.join(build, 'libraries'), guest),
});
/** Real ones are where the program looks; ours are bound in their place. */
export const withBound = (args: string[]) => {
  const LD_AUDIT = path.join(build, 'libraries', 'outboard-binding.so');
  return { args, env: { ...folders(guest, real ?? ''), LD_AUDIT } };
};
export const natively = (program: string, args: string[]) =>
  native(program, {
    args,
    env: { ...folders(path.dirname(softwareDevice), real ?? ''), ...capability },
  });
export const serve = (libraries: string, more: string[] = [], env: Record<string, string> = {}) =>
  startServer({
    args: [...few, '--libraries', libraries, ...more],
    env: { ...capability, ...env },
  });
