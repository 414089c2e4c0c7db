// What else is in the package, and on which terms: for /usr/share/doc/outboard.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../bin/paths.mjs';
import { SetupError } from '../setup/step.mjs';

/** @typedef {import('./tree.mjs').NpmPackage} NpmPackage */

/** Texts that licences ask to go along, by the name that they get in the package's documentation. */
export const licenseTexts = {
  // Linked statically into the native libraries.
  'libzstd.txt': '/usr/share/doc/libzstd-dev/copyright',
  'liblz4.txt': '/usr/share/doc/liblz4-dev/copyright',
  'libsodium.txt': '/usr/share/doc/libsodium-dev/copyright',
  'libmd.txt': '/usr/share/doc/libmd-dev/copyright',
  'nanopb.txt': '/usr/share/doc/libnanopb-dev/copyright',
  // In the web page.
  'uplot.txt': join(root, 'node_modules', 'uplot', 'LICENSE'),
};

/** @type {Record<string, string>} */
const meanings = {
  'Apache-2.0': 'The text is in /usr/share/common-licenses/Apache-2.0 on Debian systems.',
  MIT: "Free use provided that the notice and text go along: see each package's LICENSE.",
  ISC: "Free use provided that the notice and text go along: see each package's LICENSE.",
  'BSD-3-Clause': "Free use on the three conditions in each package's LICENSE.",
  'BSD-2-Clause': "Free use on the two conditions in each package's LICENSE.",
};

/**
 * The copyright file: ours, then one paragraph for each npm package.
 * @param {string} ours
 * @param {readonly NpmPackage[]} packages
 */
export function copyright(ours, packages) {
  const paragraphs = packages.map((one) =>
    [
      `Files: usr/lib/outboard/${one.path}/*`,
      `Copyright: ${holders(one).join('\n ')}`,
      `License: ${one.license}`,
      `Comment: ${one.name} ${one.version}, from npm`,
    ].join('\n'),
  );
  const licenses = [...new Set(packages.map(({ license }) => license))]
    // In ours already.
    .filter((license) => license !== 'Apache-2.0')
    .sort()
    .map((license) => {
      const meaning = meanings[license];
      if (!meaning) throw new SetupError(`an npm package has the licence ${license}: is it free?`);
      return `License: ${license}\n ${meaning}`;
    });
  return `${[ours.trim(), ...paragraphs, ...licenses].join('\n\n')}\n`;
}

/** @param {NpmPackage} one */
function holders({ path, name }) {
  const folder = join(root, path);
  const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
  const text = file ? readFileSync(join(folder, file), 'utf8') : '';
  const lines = text
    .split('\n')
    .map((line) => /^\W*copyright\s+(?:\(c\)|©)?\s*(.*\d{4}.*)/i.exec(line)?.[1]?.trim() ?? '')
    .filter((line) => line !== '' && !/\[yyyy\]|\{yyyy\}/.test(line));
  return lines.length > 0 ? lines : [`the authors of ${name}`];
}
