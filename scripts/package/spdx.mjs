// What is in an image, as SPDX 2.3 in JSON: its software bill of materials.
import { ask } from './control.mjs';

/**
 * @typedef {object} Part
 * @property {string} name
 * @property {string} version
 * @property {string} purl
 * @property {string} [license] an SPDX expression, where it is known
 */

/** As dpkg-query takes it. */
const fields = ['Package', 'Version', 'Architecture'].map((name) => `\${${name}}`);

/** Debian packages of this machine, whose libraries were linked into ours. @param {string[]} names @returns {Promise<Part[]>} */
export async function linkedParts(names) {
  const listed = await ask(['dpkg-query', '-W', '-f', `${fields.join(' ')}\n`, ...names]);
  return partsOf(listed);
}

/** @param {string} listed @returns {Part[]} */
function partsOf(listed) {
  return listed.split('\n').map((line) => {
    const [name = '', version = '', architecture] = line.split(' ');
    const shown = encodeURIComponent(version);
    return { name, version, purl: `pkg:deb/debian/${name}@${shown}?arch=${architecture}` };
  });
}

/**
 * @param {{ name: string, version: string, epoch: string, parts: Part[] }} image
 * @returns {string}
 */
export function spdx({ name, version, epoch, parts }) {
  const ids = parts.map((part, i) => `SPDXRef-${i}-${part.name.replace(/[^A-Za-z0-9.-]/g, '-')}`);
  const document = {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: `${name}-${version}`,
    documentNamespace: `https://outboard.invalid/spdx/${name}-${version}`,
    creationInfo: {
      created: new Date(Number(epoch) * 1000).toISOString().replace('.000', ''),
      creators: ['Tool: outboard-package-images'],
    },
    packages: parts.map((part, i) => ({
      SPDXID: ids[i],
      name: part.name,
      versionInfo: part.version,
      downloadLocation: 'NOASSERTION',
      filesAnalyzed: false,
      licenseConcluded: 'NOASSERTION',
      licenseDeclared: part.license ?? 'NOASSERTION',
      copyrightText: 'NOASSERTION',
      externalRefs: [
        {
          referenceCategory: 'PACKAGE-MANAGER',
          referenceType: 'purl',
          referenceLocator: part.purl,
        },
      ],
    })),
    relationships: ids.map((id) => ({
      spdxElementId: 'SPDXRef-DOCUMENT',
      relationshipType: 'DESCRIBES',
      relatedSpdxElement: id,
    })),
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
