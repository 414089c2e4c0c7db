// Rust's packages in the guest's libraries (tls/), for lists of what is in a package and on which terms.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SetupError } from '../setup/step.mjs';
import { tlsLibrary, tlsMetadata } from '../setup/tls.mjs';

/**
 * @typedef {object} Crate
 * @property {string} name
 * @property {string} version
 * @property {string} license an SPDX expression
 * @property {string} text of its licences
 */

const allowed = new Set(['Apache-2.0', 'MIT', 'ISC', 'BSD-3-Clause']);

/** What is linked in, by name; nothing where the guest was built without. @returns {Crate[]} */
export function linkedCrates() {
  if (!existsSync(tlsLibrary)) return [];
  /** @type {{ packages: any[], resolve: { root: string, nodes: any[] } }} */
  const { packages, resolve } = JSON.parse(readFileSync(tlsMetadata, 'utf8'));
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  /** @type {Set<string>} */
  const linked = new Set();
  const follow = (/** @type {string} */ id) => {
    for (const { pkg, dep_kinds: kinds } of nodes.get(id)?.deps ?? []) {
      // Not what builds it.
      const isLinked = kinds.some((/** @type {{ kind: string | null }} */ one) => !one.kind);
      if (linked.has(pkg) || !isLinked) continue;
      linked.add(pkg);
      follow(pkg);
    }
  };
  follow(resolve.root);
  return packages
    .filter(({ id }) => linked.has(id))
    .map(({ name, version, license, manifest_path: path }) => ({
      name,
      version,
      license: checked(name, license),
      text: licenseText(name, dirname(path)),
    }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** @param {string} name @param {string} license */
function checked(name, license) {
  // Of alternatives one is enough.
  const choices = license.split(/ OR |\//).map((one) => one.replace(/[()]/g, '').split(' AND '));
  if (choices.some((all) => all.every((one) => allowed.has(one.trim())))) return license;
  throw new SetupError(`the crate ${name} has the licence ${license}: is it free?`);
}

/** @param {string} name @param {string} folder */
function licenseText(name, folder) {
  const files = readdirSync(folder).filter((file) => /^(licen[sc]e|copying|notice)/i.test(file));
  const texts = files.sort().flatMap((file) => {
    return readdirSync(folder, { withFileTypes: true }).some((e) => e.name === file && e.isFile())
      ? [readFileSync(join(folder, file), 'utf8').trim()]
      : [];
  });
  if (texts.length === 0) throw new SetupError(`the crate ${name} comes without its licence`);
  return `${texts.join('\n\n')}\n`;
}

/** @param {Crate[]} crates */
export function cratesText(crates) {
  const each = crates.map(({ name, version, license, text }) => {
    return `${name} ${version}: ${license}\n\n${text}`;
  });
  return each.join(`\n${'-'.repeat(72)}\n\n`);
}
