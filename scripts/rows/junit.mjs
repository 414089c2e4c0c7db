// The JUnit file that ctest writes: one entry per test.

/**
 * @typedef {object} Case
 * @property {string} name
 * @property {'passed' | 'failed' | 'skipped'} result
 * @property {string} reason why it was skipped or could not run
 * @property {string} output
 * @property {number} seconds
 */

/** @param {string} xml @returns {Case[]} */
export function parseJunit(xml) {
  return [...xml.matchAll(/<testcase\b([^>]*)>(.*?)<\/testcase>/gs)].map((match) => {
    const [, attributes = '', body = ''] = match;
    const status = attribute(attributes, 'status');
    const reason = attribute(/<skipped\b([^>]*)/.exec(body)?.[1] ?? '', 'message');
    return {
      name: attribute(attributes, 'name'),
      result: outcome(status, reason),
      reason: status === 'disabled' ? 'disabled' : reason,
      seconds: Number(attribute(attributes, 'time')) || 0,
      output: unescapeXml(/<system-out>(.*?)<\/system-out>/s.exec(body)?.[1] ?? ''),
    };
  });
}

/**
 * ctest says `notrun` of a test that asked to be skipped, and just so of one whose program is
 * missing. Only the former is a skip.
 * @param {string} status
 * @param {string} reason
 * @returns {Case['result']}
 */
function outcome(status, reason) {
  if (status === 'run') return 'passed';
  if (status === 'disabled') return 'skipped';
  if (status === 'notrun' && reason.startsWith('SKIP_')) return 'skipped';
  return 'failed';
}

/** @param {string} attributes @param {string} name */
function attribute(attributes, name) {
  return unescapeXml(new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? '');
}

/** @type {Record<string, string>} */
const ENTITIES = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };

/** @param {string} text */
function unescapeXml(text) {
  return text.replace(/&(#?\w+);/g, (whole, name) => {
    if (/^#\d+$/.test(name)) return String.fromCodePoint(Number(name.slice(1)));
    return ENTITIES[name] ?? whole;
  });
}
