// What an image needs of a machine to run Outboard's command: Node, the libraries that Node and what is native are
// linked with, and the few files that a C library looks into. They are this machine's, each with the licence of the
// Debian package that it is of; nothing is downloaded.
import { existsSync, mkdirSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { captured } from '../setup/command.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask } from './control.mjs';
import { linkedParts } from './spdx.mjs';
import { copy, files, isNative, put } from './tree.mjs';

/** Who runs in a container: no user of a host. */
export const user = 65532;

/**
 * Fills the root folder of an image that has Outboard's files already.
 * @param {string} root
 * @returns {Promise<import('./spdx.mjs').Part[]>} what it has put there
 */
export async function stageRuntime(root) {
  const node = stageNode(root);
  // It starts /usr/bin/outboard.
  copy(realpathSync('/usr/bin/env'), join(root, 'usr/bin/env'), 0o755);
  const native = files(root).filter(isNative);
  const libraries = await stageLibrariesOf(root, native);
  for (const folder of ['proc', 'dev', 'sys', 'tmp', 'run', 'var/cache'])
    mkdirSync(join(root, folder), { recursive: true });
  const shell = '/usr/sbin/nologin';
  put(
    join(root, 'etc/passwd'),
    `root:x:0:0:root:/root:${shell}\noutboard:x:${user}:${user}:Outboard:/tmp:${shell}\n`,
  );
  put(join(root, 'etc/group'), `root:x:0:\noutboard:x:${user}:\n`);
  put(join(root, 'etc/nsswitch.conf'), 'passwd: files\ngroup: files\nhosts: files dns\n');
  const packages = await owners([...libraries, '/usr/bin/env']);
  for (const name of packages) {
    const terms = `/usr/share/doc/${name}/copyright`;
    if (!existsSync(terms)) throw new SetupError(`${terms} is missing: it must go along`);
    copy(realpathSync(terms), join(root, terms));
  }
  return [node, ...(await linkedParts(packages))];
}

/** @param {string} root */
function stageNode(root) {
  const node = realpathSync(process.execPath);
  copy(node, join(root, 'usr/bin/node'), 0o755);
  const above = dirname(dirname(node));
  const terms = [
    join(above, 'LICENSE'),
    '/usr/share/doc/nodejs/LICENSE',
    '/usr/share/doc/nodejs/copyright',
  ];
  const found = terms.find((file) => existsSync(file));
  if (!found)
    throw new SetupError(`Node's licence must go along, and is in none of ${terms.join(', ')}`);
  copy(realpathSync(found), join(root, 'usr/share/doc/node/LICENSE'));
  const { version } = process;
  return { name: 'node', version, purl: `pkg:generic/node@${version.slice(1)}`, license: 'MIT' };
}

/**
 * @param {string} root
 * @param {string[]} native programs and libraries there
 * @returns {Promise<string[]>} paths of the libraries, here as there
 */
async function stageLibrariesOf(root, native) {
  const libraries = new Set();
  for (const file of native) {
    // It fails for what is linked with nothing.
    const { output } = await captured(['ldd', file]);
    for (const [, library] of output.matchAll(/(\/\S+) \(0x/g)) libraries.add(library);
  }
  for (const library of libraries) {
    const outside = !library.startsWith(`${root}/`);
    if (outside) copy(realpathSync(library), join(root, library), 0o755);
    else libraries.delete(library);
  }
  return [...libraries];
}

/** Names of the Debian packages that files are of. @param {string[]} paths */
async function owners(paths) {
  const names = await Promise.all(paths.map(owner));
  return [...new Set(names)].sort();
}

/** Where / and /usr are one, dpkg knows a file by the name that its package has for it. @param {string} path */
async function owner(path) {
  for (const name of [path, path.startsWith('/usr/') ? path.slice('/usr'.length) : `/usr${path}`]) {
    const said = await ask(['dpkg-query', '-S', name]).catch(() => '');
    const [, found] = /^([a-z0-9.+-]+)(?::\S+)?: /.exec(said) ?? [];
    if (found) return found;
  }
  throw new SetupError(
    `${path} is of no Debian package of this machine: images are made of those.`,
  );
}
