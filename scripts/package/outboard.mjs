// The Debian package of both sides: the tree below /usr/lib/outboard, units, users, folders, configuration, and what
// users read.
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';
import { root } from '../../bin/paths.mjs';
import { SetupError } from '../setup/step.mjs';
import { ask, conffiles, filled } from './control.mjs';
import { copyright, licenseTexts } from './copyright.mjs';
import { cratesText, linkedCrates } from './crates.mjs';
import { buildDeb, controlFields, debian } from './deb.mjs';
import { copy, files, productionPackages, put, stageTree } from './tree.mjs';

const deploy = join(root, 'deploy');
const doc = 'usr/share/doc/outboard';

/** @param {string} out the folder for the package @param {import('./deb.mjs').Release} release */
export async function outboardDeb(out, release) {
  const stage = join(out, 'stage');
  rmSync(stage, { recursive: true, force: true });
  mkdirSync(stage, { recursive: true });

  const tree = join(stage, 'usr', 'lib', 'outboard');
  await stageTree(tree);
  mkdirSync(join(stage, 'usr', 'bin'), { recursive: true });
  symlinkSync('../lib/outboard/bin/outboard.mjs', join(stage, 'usr', 'bin', 'outboard'));
  stageSystem(stage);
  await stageCommandDocs(stage);
  stageDocs(stage);

  const linked = /\.node$|\.so(?:\.\d+)*$|\/outboard-confine$/;
  const libraries = files(tree).filter((file) => linked.test(file));
  const control = join(stage, 'DEBIAN');
  put(join(control, 'conffiles'), conffiles(stage));
  put(
    join(control, 'control'),
    filled(
      readFileSync(join(debian, 'control'), 'utf8'),
      await controlFields(stage, release, libraries),
    ),
  );
  for (const script of ['postinst', 'prerm', 'postrm']) {
    copy(join(debian, script), join(control, script), 0o755);
  }

  const deb = join(out, `outboard_${release.version}_${release.architecture}.deb`);
  await buildDeb(stage, deb, release);
  rmSync(stage, { recursive: true });
  return deb;
}

/** Units, users, folders, configuration. @param {string} stage */
function stageSystem(stage) {
  const systemd = join(deploy, 'systemd');
  for (const unit of ['outboard.service', 'outboard.socket']) {
    copy(join(systemd, unit), join(stage, 'usr/lib/systemd/system', unit));
  }
  copy(
    join(systemd, 'system-preset', '60-outboard.preset'),
    join(stage, 'usr/lib/systemd/system-preset/60-outboard.preset'),
  );
  for (const kind of ['sysusers.d', 'tmpfiles.d']) {
    copy(join(systemd, kind, 'outboard.conf'), join(stage, 'usr/lib', kind, 'outboard.conf'));
  }
  copy(join(debian, 'serve.yaml'), join(stage, 'etc/outboard/serve.yaml'));
}

/** The man page and completions, which the command prints itself. @param {string} stage */
async function stageCommandDocs(stage) {
  const outboard = join(stage, 'usr/bin/outboard');
  const man = await ask([process.execPath, outboard, 'man']);
  put(join(stage, 'usr/share/man/man1/outboard.1.gz'), packed(`${man}\n`));
  for (const [shell, file] of [
    ['bash', 'usr/share/bash-completion/completions/outboard'],
    ['zsh', 'usr/share/zsh/vendor-completions/_outboard'],
    ['fish', 'usr/share/fish/vendor_completions.d/outboard.fish'],
  ]) {
    const text = await ask([process.execPath, outboard, 'completion', shell ?? '']);
    put(join(stage, file ?? ''), `${text}\n`);
  }
}

/** @param {string} stage */
function stageDocs(stage) {
  const ours = readFileSync(join(debian, 'copyright'), 'utf8');
  put(join(stage, doc, 'copyright'), copyright(ours, productionPackages()));
  for (const [name, file] of Object.entries(licenseTexts)) {
    if (!existsSync(file)) throw new SetupError(`${file} is missing: its licence must go along`);
    put(join(stage, doc, 'licenses', `${name}.gz`), packed(readFileSync(file)));
  }
  const crates = linkedCrates();
  if (crates.length > 0)
    put(join(stage, doc, 'licenses', 'rust.txt.gz'), packed(cratesText(crates)));
  const changes = readFileSync(join(debian, 'changelog'));
  put(join(stage, doc, 'changelog.gz'), packed(changes));
  copy(join(deploy, 'systemd', 'README.md'), join(stage, doc, 'README.md'));
  for (const part of ['systemd/examples', 'grafana']) {
    const from = join(deploy, part);
    if (!existsSync(from)) continue;
    const to = join(stage, doc, 'examples', part.replace('/examples', ''));
    for (const file of files(from)) copy(file, join(to, relative(from, file)));
  }
  copy(join(debian, 'lintian-overrides'), join(stage, 'usr/share/lintian/overrides/outboard'));
}

/** @param {string | Buffer} content */
function packed(content) {
  return gzipSync(content, { level: 9 });
}
