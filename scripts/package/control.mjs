// The control part of the Debian package: fields, sums, conffiles.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { SetupError } from '../setup/step.mjs';
import { files } from './tree.mjs';

const run = promisify(execFile);

/**
 * What a tool answers on stdout, without its newline; warnings on stderr are no part of it.
 * @param {string[]} argv
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 */
export async function ask([program = '', ...args], { cwd, env = process.env } = {}) {
  const options = { cwd, env: { ...env, LC_ALL: 'C.UTF-8' }, maxBuffer: 64 << 20 };
  try {
    return (await run(program, args, options)).stdout.trim();
  } catch (error) {
    const { message, stderr = '' } = /** @type {Error & { stderr?: string }} */ (error);
    throw new SetupError(message.includes(stderr) ? message : `${message}\n${stderr}`);
  }
}

/**
 * Puts values for ${Name}. One that is missing is an error: a package would be wrong without a word.
 * @param {string} text
 * @param {Record<string, string>} values
 */
export function filled(text, values) {
  return text.replace(/\$\{([^}]+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) throw new SetupError(`control: nothing is known for ${whole}`);
    return value;
  });
}

/** The shared libraries that must be there, as dpkg-shlibdeps says. @param {string[]} libraries */
export async function sharedLibraries(libraries) {
  const folder = mkdtempSync(join(tmpdir(), 'outboard-shlibdeps-'));
  try {
    mkdirSync(join(folder, 'debian'));
    writeFileSync(
      join(folder, 'debian', 'control'),
      'Source: outboard\n\nPackage: outboard\nArchitecture: any\n',
    );
    // Calls into Node are not in any library, of which it warns; errors still end it.
    const argv = ['dpkg-shlibdeps', '-O', '--warnings=0', ...libraries];
    const output = await ask(argv, { cwd: folder });
    const found = /^shlibs:Depends=(.+)$/m.exec(output)?.[1];
    if (!found) throw new SetupError(`dpkg-shlibdeps named no libraries:\n${output}`);
    return found;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** As Debian's policy counts it: KiB, each file rounded up, and one for everything else. @param {string} stage */
export function installedSize(stage) {
  const sizes = contents(stage).map((file) => Math.ceil(readFileSync(file).length / 1024));
  return String(sizes.reduce((sum, size) => sum + size, 0));
}

/** @param {string} stage */
export function md5sums(stage) {
  return contents(stage)
    .filter((file) => !relative(stage, file).startsWith('etc/'))
    .map((file) => {
      const sum = createHash('md5').update(readFileSync(file)).digest('hex');
      return `${sum}  ${relative(stage, file)}\n`;
    })
    .join('');
}

/** @param {string} stage */
export function conffiles(stage) {
  return contents(stage)
    .map((file) => `/${relative(stage, file)}\n`)
    .filter((file) => file.startsWith('/etc/'))
    .join('');
}

/** @param {string} stage */
function contents(stage) {
  return files(stage).filter((file) => !file.startsWith(join(stage, 'DEBIAN')));
}
