// The photograph of the demonstration. It is not part of this repository: it comes with the Python
// package scikit-image, from which it is taken when it is first wanted. See ../kmeans/README.md
// for who made it and under which licence.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** 600 x 400 pixels; the same bytes in every release of the package since 0.20 at least. */
const photograph = {
  package: 'scikit-image',
  file: 'skimage/data/coffee.png',
  sha256: 'cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7',
};

/**
 * The path of the photograph (PNG) in the build folder. Where it is missing, the package is
 * installed for a moment with the pip of the build folder's virtual environment, or the machine's.
 */
export function findPhotograph(buildDir: string, log: (line: string) => void = () => {}): string {
  const folder = join(buildDir, 'photograph');
  const path = join(folder, 'coffee.png');
  if (existsSync(path)) return path;

  const python = join(buildDir, 'toolchain', 'bin', 'python');
  const packages = join(folder, `packages-${process.pid}`);
  mkdirSync(packages, { recursive: true });
  log(`fetching the photograph from the Python package ${photograph.package}`);
  try {
    install(existsSync(python) ? python : 'python3', packages);
    const found = join(packages, photograph.file);
    const sha256 = createHash('sha256').update(readFileSync(found)).digest('hex');
    if (sha256 !== photograph.sha256) {
      throw new Error(
        `${photograph.file} is not the picture that was expected (SHA-256 ${sha256})`,
      );
    }
    renameSync(found, path);
  } catch (error) {
    throw new Error(
      `The photograph could not be fetched: ${error instanceof Error ? error.message : error}\n` +
        `Put any photograph at ${path} (PNG), or name one of your own (PNG or PPM).`,
      { cause: error },
    );
  } finally {
    rmSync(packages, { recursive: true, force: true });
  }
  return path;
}

function install(python: string, target: string) {
  const words =
    '-m pip install --quiet --no-deps --only-binary=:all: --disable-pip-version-check --retries 1';
  const args = [...words.split(' '), '--target', target, photograph.package];
  try {
    execFileSync(python, args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    const said = stderr?.trim() || (error instanceof Error ? error.message : String(error));
    throw new Error(`${python} ${args.join(' ')} failed:\n${said}`, { cause: error });
  }
}
