// Where tests find what was built.
import { existsSync } from 'node:fs';
import path from 'node:path';
import { build, programs, root } from '../../bin/paths.mjs';

export { build, root };

export const guestLibrary = path.join(build, 'guest-lib', 'libcuda.so.1');
export const nvmlLibrary = path.join(build, 'guest-lib', 'libnvidia-ml.so.1');
export const softwareDevice = path.join(build, 'software-device', 'libcuda.so.1');
export const cli = path.join(programs, 'monitor', 'src', 'commands', 'main.js');

/** A reason to skip a test where one of the files is missing, which are named from the build folder, or false. */
export function notBuilt(...files: string[]): string | false {
  const missing = files.filter((file) => !existsSync(path.join(build, file)));
  return missing.length > 0 && `not built: ${missing.join(', ')}`;
}

/** Throws in that case, before a test waits for what is not there. */
export function mustBeBuilt(...files: string[]): void {
  const missing = notBuilt(...files);
  if (missing) throw new Error(`${missing} in ${build}; npm test builds them first`);
}

/** A reason to skip a test that runs compiled CUDA programs, or false. */
/** Why the guest has no TLS; false: it has. */
export const noTls = existsSync(path.join(build, 'tls', 'liboutboard_tls.a'))
  ? false
  : 'built without TLS: there was no cargo';

export const noPrograms = existsSync(path.join(build, 'examples', 'vector-add'))
  ? false
  : process.env['NVCC']
    ? 'the CUDA programs are not built'
    : 'no nvcc';

/** The shared runtime library, for programs that were linked with it. */
export const cudartFolder = process.env['CUDA_HOME']
  ? path.join(process.env['CUDA_HOME'], 'lib64')
  : '';
