// What a row of tests reports, and how the rows are shown.

/**
 * @typedef {object} Problem
 * @property {string} name
 * @property {string} detail lines for a person: what was expected, where the log is, how to repeat
 */

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {number} passed
 * @property {Problem[]} failures
 * @property {Problem[]} unsteady those that failed and then passed by themselves; they count as passed
 * @property {{ name: string, reason: string }[]} skips
 * @property {{ name: string, seconds: number }[]} times of each file or test
 * @property {number} seconds
 */

/** With more of them nothing is known about any. */
export const UNSTEADY_AT_MOST = 3;

/** @param {string} name @returns {Row} */
export function emptyRow(name) {
  return { name, passed: 0, failures: [], unsteady: [], skips: [], times: [], seconds: 0 };
}

/** Unsteady tests count as failed where there are too many. @param {Row[]} rows @returns {Row[]} */
export function judged(rows) {
  if (rows.flatMap(({ unsteady }) => unsteady).length <= UNSTEADY_AT_MOST) return rows;
  return rows.map((row) => ({
    ...row,
    passed: row.passed - row.unsteady.length,
    failures: [...row.failures, ...row.unsteady],
  }));
}

/** One line for each, tab-separated: row, test, the first line of why. @param {Row[]} rows */
export function unsteadyTable(rows) {
  return rows
    .flatMap((row) =>
      row.unsteady.map(({ name, detail }) => `${row.name}\t${name}\t${detail.split('\n')[0]}\n`),
    )
    .join('');
}

/** The tests that took longest. @param {Row[]} rows */
export function slowest(rows, most = 10) {
  return rows
    .flatMap((row) =>
      row.times.map(({ name, seconds }) => ({ name: `${row.name}: ${name}`, seconds })),
    )
    .sort((one, other) => other.seconds - one.seconds)
    .slice(0, most)
    .map(({ name, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${name}`);
}

/** @param {Row[]} rows */
export function totals(rows) {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failures, skips } of rows) {
    total.passed += passed;
    total.failed += failures.length;
    total.skipped += skips.length;
  }
  return total;
}

/** The last line of `npm test`. @param {ReturnType<typeof totals>} total */
export function lastLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** @param {Row[]} rows */
export function table(rows) {
  const head = ['', 'passed', 'failed', 'skipped', 'time'];
  const body = rows.map(({ name, passed, failures, skips, seconds }) => {
    const counts = [passed, failures.length, skips.length].map(String);
    return [name, ...counts, `${seconds.toFixed(1)} s`];
  });
  const lines = [head, ...body];
  const widths = head.map((_, column) => {
    return Math.max(...lines.map((line) => line[column]?.length ?? 0));
  });
  return lines
    .map((line) => {
      const cells = line.map((cell, column) => {
        const width = widths[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      });
      return cells.join('  ').trimEnd();
    })
    .join('\n');
}

/** Reasons for skipping, each once, with how many tests it kept from running. @param {Row[]} rows */
export function skipReasons(rows) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { reason } of rows.flatMap(({ skips }) => skips)) {
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].map(([reason, count]) => `skipped ${count}: ${reason}`);
}

/** @param {Row} row @param {'failures' | 'unsteady'} [kind] */
export function showFailures(row, kind = 'failures') {
  const word = kind === 'failures' ? 'FAILED' : 'UNSTEADY';
  return row[kind]
    .map(({ name, detail }) => `${word}  ${row.name}: ${name}\n${indent(detail.trimEnd())}\n`)
    .join('\n');
}

/** @param {string} text */
function indent(text) {
  return text
    .split('\n')
    .map((line) => `    ${line}`.trimEnd())
    .join('\n');
}
