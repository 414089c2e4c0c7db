// What CMakePresets.json says, which is where people have it from too: cmake --preset asan.
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, root } from '../../bin/paths.mjs';

/** @typedef {'release' | 'runtime' | 'demo' | 'asan' | 'asan-device' | 'tsan' | 'fuzz'} BuildName */
/** @typedef {'release' | 'asan' | 'asan-device' | 'tsan' | 'fuzz'} TestName */

/**
 * A preset for builds, with what it is configured by.
 * @typedef {object} Build
 * @property {string} title what is built, in words
 * @property {string} configured the name of the preset that configures it
 * @property {string} folder
 * @property {string[]} targets for ninja; none means all
 */

/** @typedef {{ name: string, labels: string[] }} Test */

/**
 * @typedef {object} Tests
 * @property {string} folder
 * @property {Record<string, string>} environment
 * @property {(test: Test) => boolean} wants
 */

export const presetsFile = join(root, 'CMakePresets.json');

/** @param {'configurePresets' | 'buildPresets' | 'testPresets'} kind @param {string} name */
function preset(kind, name) {
  /** @type {any[]} */
  const all = JSON.parse(readFileSync(presetsFile, 'utf8'))[kind];
  /** @param {string} wanted @returns {any} */
  const find = (wanted) => {
    const found = all.find((one) => one.name === wanted);
    if (!found) throw new Error(`CMakePresets.json has no ${wanted} in ${kind}`);
    return found.inherits ? { ...find(found.inherits), ...found } : found;
  };
  return find(name);
}

/** In the build folder of whoever has set another one (OUTBOARD_BUILD). @param {string} configured */
function folderOf(configured) {
  const { binaryDir } = preset('configurePresets', configured);
  return join(build, relative('build', binaryDir.replace('${sourceDir}/', '')));
}

/** @param {BuildName} name @returns {Build} */
export function buildPreset(name) {
  const { configurePreset, targets = [] } = preset('buildPresets', name);
  const { displayName } = preset('configurePresets', configurePreset);
  return {
    title: displayName,
    configured: configurePreset,
    folder: folderOf(configurePreset),
    targets,
  };
}

/** @param {TestName} name @returns {Tests} */
export function testPreset(name) {
  const { configurePreset, environment = {}, filter = {} } = preset('testPresets', name);
  const here = (/** @type {string} */ text) => text.replaceAll('${sourceDir}', root);
  const { include = {}, exclude = {} } = filter;
  const named = (/** @type {string} */ pattern, /** @type {Test} */ test) =>
    new RegExp(pattern).test(test.name);
  const labelled = (/** @type {string} */ pattern, /** @type {Test} */ test) =>
    test.labels.some((label) => new RegExp(pattern).test(label));
  return {
    folder: folderOf(configurePreset),
    environment: Object.fromEntries(
      Object.entries(environment).map(([key, value]) => [key, here(String(value))]),
    ),
    wants: (test) =>
      (include.name === undefined || named(include.name, test)) &&
      (include.label === undefined || labelled(include.label, test)) &&
      !(exclude.name !== undefined && named(exclude.name, test)) &&
      !(exclude.label !== undefined && labelled(exclude.label, test)),
  };
}
