// An OCI image of the guest's libraries, to copy from: the files of the Debian package, and a list of what is in it.
// buildah needs no daemon for that, and runs nothing. The same sources give the same bytes.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { which } from '../setup/command.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask } from './control.mjs';
import { evenOut } from './deb.mjs';
import { guestDeb } from './guest.mjs';
import { linkedParts, spdx } from './spdx.mjs';
import { put } from './tree.mjs';

const name = 'outboard-guest';

/** @param {string} out the folder for it @param {import('./deb.mjs').Release} release */
export async function guestImage(out, release) {
  if (!which('buildah')) {
    throw new SetupError('Images are made by buildah: apt-get install buildah.');
  }
  const { version, architecture, epoch } = release;
  const folder = mkdtempSync(join(tmpdir(), 'outboard-image-'));
  try {
    const root = join(folder, 'root');
    mkdirSync(root);
    await ask(['dpkg-deb', '-x', await guestDeb(folder, release), root]);
    const own = `pkg:deb/outboard/${name}@${version}?arch=${architecture}`;
    const parts = [
      { name, version, purl: own, license: 'Apache-2.0' },
      ...(await linkedParts(['libmd-dev', 'libsodium-dev', 'libnanopb-dev'])),
    ];
    const listed = join(root, 'usr', 'share', 'doc', name, 'sbom.spdx.json');
    put(listed, spdx({ name, version, epoch, parts }));
    await evenOut(root, epoch);
    const archive = join(out, `${name}_${version}_${architecture}.oci.tar`);
    await pack(root, archive, folder, release);
    return archive;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {string} root what becomes the image's one layer
 * @param {string} archive
 * @param {string} folder for what is needed meanwhile
 * @param {import('./deb.mjs').Release} release
 */
async function pack(root, archive, folder, { version, architecture, epoch }) {
  const env = { ...process.env, STORAGE_DRIVER: 'vfs', BUILDAH_ISOLATION: 'chroot' };
  const own = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')];
  const buildah = (/** @type {string[]} */ ...argv) => ask(['buildah', ...own, ...argv], { env });
  const labels = {
    title: 'Libraries for CUDA programs whose GPU is that of an Outboard server',
    version,
    licenses: 'Apache-2.0',
    created: new Date(Number(epoch) * 1000).toISOString(),
  };
  const layout = join(folder, 'layout');
  await buildah('from', '--name', name, '--arch', architecture, 'scratch');
  await buildah('copy', '--quiet', name, root, '/');
  for (const [key, value] of Object.entries(labels))
    await buildah('config', '--label', `org.opencontainers.image.${key}=${value}`, name);
  const target = `oci:${layout}:${name}:${version}`;
  await buildah('commit', '--quiet', '--timestamp', epoch, '--format', 'oci', name, target);
  await buildah('rm', name);
  await evenOut(layout, epoch);
  const same = ['--sort=name', '--owner=root:0', '--group=root:0', '--format=gnu'];
  await ask(['tar', ...same, '-C', layout, '-cf', archive, '.']);
}
