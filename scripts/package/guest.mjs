// What a container or a Lambda needs that only runs programs: two libraries, each by both of its names,
// without Node and without anything else.
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { filled } from './control.mjs';
import { licenseTexts } from './copyright.mjs';
import { cratesText, linkedCrates } from './crates.mjs';
import { buildArchive, buildDeb, controlFields, debian } from './deb.mjs';
import { copy, put, strip } from './tree.mjs';

const libraries = ['libcuda.so', 'libcuda.so.1', 'libnvidia-ml.so', 'libnvidia-ml.so.1'];
/** Linked into them. */
const parts = /** @type {const} */ (['libmd.txt', 'libsodium.txt', 'nanopb.txt']);

/** @param {string} out the folder for it @param {import('./deb.mjs').Release} release */
export async function guestArchive(out, release) {
  const name = `outboard-guest_${release.version}_${release.architecture}`;
  const stage = staged(join(out, name));
  await stageLibraries(stage);
  stageTerms(stage);
  copy(join(root, 'deploy', 'guest', 'README'), join(stage, 'README'));
  const archive = join(out, `${name}.tar.gz`);
  await buildArchive(stage, archive, release);
  rmSync(stage, { recursive: true });
  return archive;
}

/** @param {string} out the folder for it @param {import('./deb.mjs').Release} release */
export async function guestDeb(out, release) {
  const stage = staged(join(out, 'stage-guest'));
  const linked = await stageLibraries(join(stage, 'usr', 'lib', 'outboard-guest'));
  const doc = join(stage, 'usr', 'share', 'doc', 'outboard-guest');
  copy(join(debian, 'copyright-guest'), join(doc, 'copyright'));
  copy(join(root, 'deploy', 'guest', 'README'), join(doc, 'README'));
  stageTexts(join(doc, 'licenses'));
  const fields = await controlFields(stage, release, linked);
  const control = readFileSync(join(debian, 'control-guest'), 'utf8');
  put(join(stage, 'DEBIAN', 'control'), filled(control, fields));
  const deb = join(out, `outboard-guest_${release.version}_${release.architecture}.deb`);
  await buildDeb(stage, deb, release);
  rmSync(stage, { recursive: true });
  return deb;
}

/** An empty folder. @param {string} stage */
export function staged(stage) {
  rmSync(stage, { recursive: true, force: true });
  mkdirSync(stage, { recursive: true });
  return stage;
}

/** The licences of the libraries. @param {string} folder */
export function stageTerms(folder) {
  copy(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  stageTexts(join(folder, 'licenses'));
}

/** @param {string} folder */
function stageTexts(folder) {
  for (const part of parts) copy(licenseTexts[part], join(folder, part));
  const crates = linkedCrates();
  if (crates.length > 0) put(join(folder, 'rust.txt'), cratesText(crates));
}

/** @param {string} folder */
export async function stageLibraries(folder) {
  const copied = libraries.map((name) => join(folder, name));
  for (const [i, name] of libraries.entries()) {
    copy(join(build, 'guest-lib', name), copied[i] ?? '');
  }
  await strip(copied);
  return copied;
}
