// Native builds: CMake and ninja, by the presets of CMakePresets.json.
import { accessSync, constants, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { captured, mustRun, newLog, which } from './command.mjs';
import { glob } from './glob.mjs';
import { buildPreset, presetsFile } from './presets.mjs';
import { tlsLibrary } from './tls.mjs';

/**
 * @param {import('./step.mjs').Begin} begin
 * @param {import('./presets.mjs').BuildName} name
 */
export async function ensureNative(begin, name) {
  const { title, folder, targets } = buildPreset(name);
  const log = await ensureConfigured(begin, name);
  // Only ninja knows whether there is work; its first line that tells of some announces the step.
  const onOutput = (/** @type {string} */ text) => {
    const [last] = [...text.matchAll(/^\[(\d+\/\d+)\] (?!Re-checking)/gm)].slice(-1);
    if (last) begin().progress(last[1] ?? '');
  };
  const env = { ...process.env, ...(await withoutDeadCache()) };
  await mustRun(`The ${title}`, log, ['ninja', '-C', folder, ...targets], { onOutput, env });
}

/** ccache ends where it cannot write, instead of compiling. @returns {Promise<NodeJS.ProcessEnv>} */
async function withoutDeadCache() {
  if (!which('ccache')) return {};
  const { status, output } = await captured(['ccache', '--get-config', 'cache_dir']);
  let folder = output.trim();
  if (status !== 0 || folder === '') return { CCACHE_DISABLE: '1' };
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
    return {};
  } catch {
    return { CCACHE_DISABLE: '1' };
  }
}

/**
 * As far as CMake goes, which knows what tests there will be; nothing is compiled.
 * @param {import('./step.mjs').Begin} begin
 * @param {import('./presets.mjs').BuildName} name
 * @returns {Promise<string>} the name of the log
 */
export async function ensureConfigured(begin, name) {
  const { title, configured, folder } = buildPreset(name);
  const log = folder === build ? 'native' : `native-${folder.slice(build.length + 1)}`;
  newLog(log);
  mkdirSync(folder, { recursive: true });
  if (!isConfigured(folder, configured)) {
    begin();
    const argv = ['cmake', '--preset', configured, '-B', folder];
    await mustRun(`Configuring the ${title}`, log, argv);
    writeFileSync(stampIn(folder), stampOf(configured));
  }
  return log;
}

/** @param {string} folder */
export function stampIn(folder) {
  return join(folder, 'outboard-configured.txt');
}

/**
 * What CMake does not notice by itself: other presets, a new part of the repository, TLS, and for the
 * demo, which is built for this processor only, another one.
 * @param {string} configured
 */
export function stampOf(configured) {
  const parts = glob(`${root}/*/CMakeLists.txt`).map((path) => path.slice(root.length + 1));
  const processor = configured === 'demo' ? [cpus()[0]?.model] : [];
  const tls = existsSync(tlsLibrary) ? ['tls'] : [];
  return [configured, ...processor, ...tls, ...parts, readFileSync(presetsFile, 'utf8')].join('\n');
}

/** Whether the folder can build what the preset is for. @param {string} folder @param {string} configured */
export function isConfigured(folder, configured) {
  if (!existsSync(join(folder, 'build.ninja')) || !existsSync(stampIn(folder))) return false;
  const stamp = readFileSync(stampIn(folder), 'utf8');
  // One that is configured for all can do what the demo needs, and must not lose the rest.
  return stamp === stampOf(configured) || (configured === 'demo' && stamp === stampOf('release'));
}
