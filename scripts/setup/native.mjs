// Native builds: CMake and ninja, one folder per configuration.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { mustRun, newLog } from './command.mjs';
import { glob } from './glob.mjs';

/**
 * @typedef {object} Configuration
 * @property {string} name
 * @property {string} folder
 * @property {string[]} options for CMake
 * @property {string[]} targets for ninja; none means all
 */

/** @type {Record<'release' | 'asan' | 'fuzz', Configuration>} */
export const configurations = {
  release: { name: 'native build', folder: build, options: [], targets: [] },
  asan: {
    name: 'native build with sanitizers',
    folder: join(build, 'asan'),
    options: ['-DOUTBOARD_SANITIZE=address,undefined'],
    targets: [],
  },
  fuzz: {
    name: 'fuzz targets',
    folder: join(build, 'fuzz'),
    options: [
      '-DOUTBOARD_FUZZ=ON',
      '-DOUTBOARD_SANITIZE=address,undefined',
      '-DCMAKE_C_COMPILER=clang',
      '-DCMAKE_CXX_COMPILER=clang++',
    ],
    targets: ['fuzz-targets'],
  },
};

/**
 * @param {(detail?: string) => void} begin
 * @param {Configuration} configuration
 */
export async function ensureNative(begin, { name, folder, options, targets }) {
  const log = folder === build ? 'native' : `native-${folder.slice(build.length + 1)}`;
  const stamp = join(folder, 'outboard-configured.txt');
  // CMake notices changes in the files it has read, but not a new part of the repository.
  const parts = glob(`${root}/*/CMakeLists.txt`).map((path) => path.slice(root.length + 1));
  const wanted = [...options, ...parts, ''].join('\n');
  const configured =
    existsSync(join(folder, 'build.ninja')) &&
    existsSync(stamp) &&
    readFileSync(stamp, 'utf8') === wanted;
  newLog(log);
  mkdirSync(folder, { recursive: true });
  if (!configured) {
    begin();
    const configure = ['cmake', '-G', 'Ninja', '-S', root, '-B', folder];
    await mustRun(`Configuring the ${name}`, log, [
      ...configure,
      '-DCMAKE_BUILD_TYPE=RelWithDebInfo',
      ...options,
    ]);
    writeFileSync(stamp, wanted);
  }
  // Only ninja knows whether there is work; its first line that tells of some announces the step.
  const onOutput = (/** @type {string} */ text) => {
    if (/^\[\d+\/\d+\] (?!Re-checking)/m.test(text)) begin();
  };
  await mustRun(`The ${name}`, log, ['ninja', '-C', folder, ...targets], { onOutput });
}
