// TLS (tls/), in Rust. It is the one part that may be left out: where there is no cargo, or no network to get its crates
// from, the guest's libraries are built without, and say so when they are asked for TLS, and a server relays.
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { captured, logged, logPath, mustRun, newLog, which } from './command.mjs';
import { SetupError } from './step.mjs';

const folder = join(build, 'tls');
export const tlsLibrary = join(folder, 'liboutboard_tls.a');
/** What cargo says of it and of the crates that it is made of: whoever packages it may have no cargo. */
export const tlsMetadata = join(folder, 'metadata.json');
/** Why there is none, as it was said last. */
const without = join(folder, 'without.txt');

/** What tls/Cargo.toml asks for (rust-version). */
const LEAST = [1, 71];
/** Debian's names for one: where `cargo` is older, that for browsers is not. */
const PACKAGES = ['cargo-web', 'cargo'];

/** @param {string} output of `cargo --version` */
export function isRecent(output) {
  const [, major, minor] = /^cargo (\d+)\.(\d+)/.exec(output) ?? [];
  if (major === undefined) return false;
  const [leastMajor = 0, leastMinor = 0] = LEAST;
  return (
    Number(major) > leastMajor || (Number(major) === leastMajor && Number(minor) >= leastMinor)
  );
}

async function hasCargo() {
  if (!which('cargo') || !which('rustc')) return false;
  const { status, output } = await captured(['cargo', '--version']);
  return status === 0 && isRecent(output);
}

/** @param {import('./step.mjs').Begin} begin */
export async function ensureTls(begin) {
  mkdirSync(folder, { recursive: true });
  newLog('tls');
  if (!(await hasCargo())) await installCargo(begin);
  const why = (await hasCargo()) ? await crates(begin) : `there is no cargo >= ${LEAST.join('.')}`;
  if (why !== undefined) return leaveOut(begin, why);
  rmSync(without, { force: true });
  await compile(begin);
}

/** @param {import('./step.mjs').Begin} begin */
async function installCargo(begin) {
  // Once: what could not be installed is not tried again and again.
  if (process.getuid?.() !== 0 || !which('apt-get') || existsSync(without)) return;
  begin('cargo');
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await logged('tls', ['apt-get', 'update', '-q'], { env });
  for (const name of PACKAGES) {
    const argv = ['apt-get', 'install', '-q', '-y', '--no-install-recommends', name];
    if ((await logged('tls', argv, { env })) === 0 && (await hasCargo())) return;
  }
}

/**
 * Whether the crates are there, which are fetched once.
 * @param {import('./step.mjs').Begin} begin
 * @returns {Promise<string | undefined>} why not
 */
async function crates(begin) {
  const argv = ['cargo', 'fetch', '--locked', '--manifest-path', join(root, 'tls', 'Cargo.toml')];
  if ((await logged('tls', [...argv, '--offline'])) === 0) return undefined;
  begin('fetching crates');
  if ((await logged('tls', argv)) === 0) return undefined;
  return `its crates could not be fetched (${logPath('tls')})`;
}

/** @param {import('./step.mjs').Begin} begin @param {string} why */
function leaveOut(begin, why) {
  rmSync(tlsLibrary, { force: true });
  if (existsSync(without) && readFileSync(without, 'utf8') === why) return;
  begin(`left out: ${why}`);
  writeFileSync(without, why);
}

/** @param {import('./step.mjs').Begin} begin */
async function compile(begin) {
  if (!existsSync(tlsLibrary)) begin();
  const target = join(folder, 'cargo');
  const argv = ['cargo', 'build', '--release', '--locked', '--offline', '--target-dir', target];
  const home = process.env['CARGO_HOME'] ?? join(homedir(), '.cargo');
  // No path of this machine is in what is built.
  const flags = [`--remap-path-prefix=${home}=cargo`, `--remap-path-prefix=${root}=.`];
  const env = { ...process.env, CARGO_ENCODED_RUSTFLAGS: flags.join('\x1f') };
  const manifest = ['--manifest-path', join(root, 'tls', 'Cargo.toml')];
  const title = 'Building TLS';
  await mustRun(title, 'tls', [...argv, ...manifest], { env });
  const how = ['--locked', '--offline', '--filter-platform', 'x86_64-unknown-linux-gnu'];
  const told = await captured(['cargo', 'metadata', '--format-version', '1', ...manifest, ...how]);
  if (told.status !== 0) throw new SetupError(`cargo metadata failed: ${told.output}`);
  // Warnings come by the same way.
  writeFileSync(tlsMetadata, told.output.split('\n').find((line) => line.startsWith('{')) ?? '');
  // Without names of files, which the assembler's have of this machine. Where C++ is linked with it, that has the real
  // one of what src/unwind.c stands in for.
  const made = join(target, 'liboutboard_tls.a');
  const own = ['--redefine-sym', '_Unwind_Resume=outboard_tls_unwind_resume'];
  const copy = ['objcopy', '--strip-debug', '-D', ...own];
  await mustRun(title, 'tls', [...copy, join(target, 'release', 'liboutboard_tls.a'), made]);
  // Written only where it is another one: what is linked with it is linked anew then.
  if (!existsSync(tlsLibrary) || !readFileSync(made).equals(readFileSync(tlsLibrary)))
    copyFileSync(made, tlsLibrary);
}
