// The layer for AWS Lambda, which unpacks it to /opt: lib/ is in the library path of functions, programs in
// extensions/ are started beside them.
import { rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { which } from '../setup/command.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask } from './control.mjs';
import { evenOut } from './deb.mjs';
import { staged, stageLibraries, stageTerms } from './guest.mjs';
import { copy, files, strip } from './tree.mjs';

/** Of the 50 MB that Lambda takes by its API, and of the patience of those who start cold. */
const bytesMost = 10 * 1000 * 1000;

/** @param {string} out the folder for it @param {import('./deb.mjs').Release} release */
export async function lambdaLayer(out, release) {
  if (!which('zip')) throw new SetupError('The layer is a zip file: apt-get install zip.');
  const name = `outboard-lambda_${release.version}_${release.architecture}`;
  const stage = staged(join(out, name));
  await stageLibraries(join(stage, 'lib'));
  const extension = join(stage, 'extensions', 'outboard');
  copy(join(build, 'lambda', 'outboard'), extension, 0o755);
  await strip([extension]);
  const own = join(stage, 'outboard');
  stageTerms(own);
  copy(join(root, 'deploy', 'lambda', 'README.md'), join(own, 'README.md'));
  await evenOut(stage, release.epoch);
  const archive = join(out, `${name}.zip`);
  rmSync(archive, { force: true });
  // Names in an order of ours, times without a zone; no owners, no folders.
  const names = files(stage).map((file) => relative(stage, file));
  const env = { ...process.env, TZ: 'UTC' };
  await ask(['zip', '-q', '-9', '-X', '-D', archive, ...names], { cwd: stage, env });
  rmSync(stage, { recursive: true });
  const { size } = statSync(archive);
  if (size > bytesMost)
    throw new SetupError(`${archive} has ${size} bytes: more than ${bytesMost}`);
  return archive;
}
