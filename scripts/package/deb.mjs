// What Debian packages and archives of a release have in common: version, architecture, times, and how
// a staged folder becomes one file. The same sources give the same bytes.
import { readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { root } from '../../bin/paths.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask, installedSize, md5sums, sharedLibraries } from './control.mjs';
import { put } from './tree.mjs';

export const debian = join(root, 'deploy', 'debian');

/**
 * @typedef {object} Release
 * @property {string} version
 * @property {string} architecture as Debian calls it
 * @property {string} epoch seconds: the time of all files
 */

/** package.json says the version, and the change log must know it. @returns {Promise<Release>} */
export async function thisRelease() {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const newest = await changelog('Version');
  if (newest !== version) {
    throw new SetupError(
      `package.json has version ${version}, and deploy/debian/changelog begins with ${newest}: ` +
        'add an entry there.',
    );
  }
  const architecture = await ask(['dpkg', '--print-architecture']);
  const epoch = process.env['SOURCE_DATE_EPOCH'] || (await changelog('Timestamp'));
  return { version, architecture, epoch };
}

/** Of the newest entry. @param {'Version' | 'Timestamp'} field */
function changelog(field) {
  return ask(['dpkg-parsechangelog', '-l', join(debian, 'changelog'), '-S', field]);
}

/**
 * The fields that a control file leaves open, and the sums; everything else must be staged.
 * @param {string} stage
 * @param {Release} release
 * @param {string[]} linked programs and libraries, for what they need of others
 */
export async function controlFields(stage, { version, architecture }, linked) {
  put(join(stage, 'DEBIAN', 'md5sums'), md5sums(stage));
  return {
    Version: version,
    Architecture: architecture,
    'Installed-Size': installedSize(stage),
    'shlibs:Depends': await sharedLibraries(linked),
  };
}

/** @param {string} stage @param {string} deb @param {Release} release */
export async function buildDeb(stage, deb, { epoch }) {
  await evenOut(stage, epoch);
  // A higher level takes four times as long for a twentieth less.
  await ask(['dpkg-deb', '--root-owner-group', '-Zxz', '-z2', '--build', stage, deb], {
    env: { ...process.env, SOURCE_DATE_EPOCH: epoch },
  });
}

/** A .tar.gz with the staged folder in it. @param {string} stage @param {string} archive @param {Release} release */
export async function buildArchive(stage, archive, { epoch }) {
  await evenOut(stage, epoch);
  const same = ['--sort=name', '--owner=root:0', '--group=root:0', '--format=gnu'];
  await ask([
    ...['tar', ...same, '--use-compress-program=gzip -9n', '-cf', archive],
    ...['-C', dirname(stage), basename(stage)],
  ]);
}

/**
 * Modes that do not depend on who packages, and times that do not depend on when.
 * @param {string} stage
 * @param {string} epoch
 */
export async function evenOut(stage, epoch) {
  await ask(['find', stage, '-type', 'd', '-exec', 'chmod', '00755', '{}', '+']);
  await ask(['find', stage, '-exec', 'touch', '-h', '-d', `@${epoch}`, '{}', '+']);
}
