// OCI images, of the files of the Debian packages and, where something runs in them, of what this machine runs it with;
// each has a list of what is in it. buildah needs no daemon for that, and runs nothing. The same sources and the same
// machine give the same bytes.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { which } from '../setup/command.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask } from './control.mjs';
import { linkedCrates } from './crates.mjs';
import { evenOut } from './deb.mjs';
import { guestDeb } from './guest.mjs';
import { outboardDeb } from './outboard.mjs';
import { stageRuntime, user } from './runtime.mjs';
import { linkedParts, spdx } from './spdx.mjs';
import { productionPackages, put } from './tree.mjs';

/**
 * @typedef {object} Image
 * @property {string} name
 * @property {string} title
 * @property {(root: string, folder: string, release: import('./deb.mjs').Release) => Promise<import('./spdx.mjs').Part[]>} fill
 *   fills its root folder; `folder` is for what is needed meanwhile. Returns what is in it beside what is ours
 * @property {string[]} [config] of what runs, as `buildah config` takes it
 * @property {string[]} [owned] empty folders of who runs
 */

const command = ['/usr/bin/node', '/usr/lib/outboard/bin/outboard.mjs'];
const runs = [
  ...['--entrypoint', JSON.stringify(command), '--user', String(user), '--workingdir', '/tmp'],
  ...['--env', 'PATH=/usr/bin', '--env', 'HOME=/tmp'],
];
/**
 * Programs of the same machine reach it by that socket; others by addresses that need tenants (docs/deploy.md).
 * @param {string[]} more
 */
const serves = (...more) => [
  ...runs,
  ...['--cmd', ['serve', '--listen unix:/run/outboard/guests.sock', ...more].join(' ')],
  ...['--stop-signal', 'SIGTERM', '--port', '4460', '--port', '4461', '--port', '4462'],
];
/** Its sockets, and what it keeps. */
const places = ['/run/outboard', '/var/cache/outboard'];
/** NVIDIA's container toolkit puts the driver's libraries into containers that say so. */
const nvidia = [
  '--env',
  'NVIDIA_VISIBLE_DEVICES=all',
  '--env',
  'NVIDIA_DRIVER_CAPABILITIES=compute,utility',
];

/** What only a system with an init and a person needs. */
const ofSystems = ['etc/outboard', 'usr/lib/systemd', 'usr/lib/sysusers.d', 'usr/lib/tmpfiles.d'];
const ofShells = ['usr/share/man', 'usr/share/bash-completion', 'usr/share/zsh', 'usr/share/fish'];
const needless = [...ofSystems, ...ofShells, 'usr/share/lintian'];
const softwareDevice = 'usr/lib/outboard/build/software-device';
const executor = 'usr/lib/outboard/build/api-server';

/** @type {readonly Image[]} */
export const images = [
  {
    name: 'outboard-guest',
    title: 'Libraries for CUDA programs whose GPU is that of an Outboard server',
    fill: guest,
  },
  {
    name: 'outboard-server',
    title: 'Outboard, the server: GPUs for CUDA programs that run elsewhere',
    fill: both([softwareDevice]),
    config: [...serves('--device nvidia'), ...nvidia],
    owned: places,
  },
  {
    name: 'outboard-server-software',
    title:
      'Outboard, the server, with a software device: CUDA on the CPU for programs that run elsewhere',
    fill: both([]),
    config: serves('--device software'),
    owned: places,
  },
  {
    name: 'outboard-cli',
    title: 'Outboard, the command: for operators, and for programs that come with it',
    fill: both([softwareDevice, executor]),
    config: [...runs, '--cmd', 'help'],
  },
];

/** @param {string} root @param {string} folder @param {import('./deb.mjs').Release} release */
async function guest(root, folder, release) {
  await ask(['dpkg-deb', '-x', await guestDeb(folder, release), root]);
  return inTheGuest();
}

/** What is linked into the guest's libraries. */
async function inTheGuest() {
  const crates = linkedCrates().map(({ name, version, license }) => {
    return { name, version, license, purl: `pkg:cargo/${name}@${version}` };
  });
  return [...(await linkedParts(['libmd-dev', 'libsodium-dev', 'libnanopb-dev'])), ...crates];
}

/** @param {string[]} without of the Debian package of both sides @returns {Image['fill']} */
function both(without) {
  return async (root, folder, release) => {
    await ask(['dpkg-deb', '-x', await outboardDeb(folder, release), root]);
    for (const one of [...needless, ...without])
      rmSync(join(root, one), { recursive: true, force: true });
    return [
      ...(await stageRuntime(root)),
      ...(await inTheGuest()),
      ...(await linkedParts(['libzstd-dev', 'liblz4-dev'])),
      ...productionPackages().map(({ name, version, license }) => {
        return { name, version, license, purl: `pkg:npm/${encodeURIComponent(name)}@${version}` };
      }),
    ];
  };
}

/** @param {Image} image @param {string} out the folder for it @param {import('./deb.mjs').Release} release */
export async function packImage({ name, title, fill, config = [], owned = [] }, out, release) {
  if (!which('buildah')) {
    throw new SetupError('Images are made by buildah: apt-get install buildah.');
  }
  const { version, architecture, epoch } = release;
  const folder = mkdtempSync(join(tmpdir(), 'outboard-image-'));
  try {
    const root = join(folder, 'root');
    mkdirSync(root);
    const own = `pkg:deb/outboard/${name}@${version}?arch=${architecture}`;
    const parts = [
      { name, version, purl: own, license: 'Apache-2.0' },
      ...(await fill(root, folder, release)),
    ];
    const listed = join(root, 'usr', 'share', 'doc', name, 'sbom.spdx.json');
    put(listed, spdx({ name, version, epoch, parts }));
    await evenOut(root, epoch);
    const temporary = join(root, 'tmp');
    if (existsSync(temporary)) chmodSync(temporary, 0o1777);
    const archive = join(out, `${name}_${version}_${architecture}.oci.tar`);
    const labels = {
      title,
      version,
      licenses: 'Apache-2.0',
      created: new Date(Number(epoch) * 1000).toISOString(),
    };
    const labelled = Object.entries(labels).flatMap(([key, value]) => [
      ...['--label', `org.opencontainers.image.${key}=${value}`],
    ]);
    await pack({ root, archive, folder, name, owned, config: [...labelled, ...config] }, release);
    return archive;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {{ root: string, archive: string, folder: string, name: string, owned: readonly string[], config: string[] }} what the root is the
 *   image's one layer; the folder is for what is needed meanwhile
 * @param {import('./deb.mjs').Release} release
 */
async function pack(
  { root, archive, folder, name, owned, config },
  { version, architecture, epoch },
) {
  const env = { ...process.env, STORAGE_DRIVER: 'vfs', BUILDAH_ISOLATION: 'chroot' };
  const own = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')];
  const buildah = (/** @type {string[]} */ ...argv) => ask(['buildah', ...own, ...argv], { env });
  const layout = join(folder, 'layout');
  const empty = join(folder, 'empty');
  mkdirSync(empty);
  await buildah('from', '--name', name, '--arch', architecture, 'scratch');
  await buildah('copy', '--quiet', name, root, '/');
  for (const place of owned)
    await buildah('copy', '--quiet', '--chown', `${user}:${user}`, name, empty, place);
  await buildah('config', ...config, name);
  const target = `oci:${layout}:${name}:${version}`;
  await buildah(
    'commit',
    '--quiet',
    '--disable-compression=false',
    '--timestamp',
    epoch,
    '--format',
    'oci',
    name,
    target,
  );
  await buildah('rm', name);
  await evenOut(layout, epoch);
  const same = ['--sort=name', '--owner=root:0', '--group=root:0', '--format=gnu'];
  await ask(['tar', ...same, '-C', layout, '-cf', archive, '.']);
}
