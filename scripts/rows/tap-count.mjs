// Counting tests in a TAP stream. A test is a named `t.test` block with assertions of its own; the
// blocks around it are headings and count only if they, too, assert something. A block that is
// skipped, or an assertion marked skip or todo, counts as one skipped test. A block that says nothing
// at all has proven nothing: it fails.
import { inspect } from 'node:util';
import { Parser } from 'tap-parser';

/** @typedef {import('tap-parser').Result} Point */
/** @typedef {Pick<import('./summary.mjs').Row, 'passed' | 'failures' | 'skips'>} Count */

/**
 * What one level of the stream (the file, or one block) has said so far.
 * @typedef {object} Level
 * @property {string} name
 * @property {number} good assertions
 * @property {Point[]} bad assertions
 * @property {number} marked assertions that are skipped, or to be done
 * @property {boolean} nested whether it has blocks inside
 * @property {Level | undefined} last the block that its next closing test point is about
 */

/**
 * @param {NodeJS.ReadableStream} stream
 * @param {string} file name of the test file, for tests at its top level
 * @returns {Promise<Count & { results: import('tap-parser').FinalResults }>}
 */
export function countTap(stream, file) {
  /** @type {Count} */
  const count = { passed: 0, failures: [], skips: [] };
  const parser = new Parser();
  const top = watch(parser, '', count);
  return new Promise((resolve) => {
    parser.on('complete', (results) => {
      if (top.good > 0 || top.bad.length > 0) settle({ ...top, name: file }, true, count);
      resolve({ ...count, results });
    });
    stream.pipe(parser);
  });
}

/** @param {Parser} parser @param {string} name @param {Count} count @returns {Level} */
function watch(parser, name, count) {
  /** @type {Level} */
  const level = { name, good: 0, bad: [], marked: 0, nested: false, last: undefined };
  parser.on('child', (/** @type {Parser} */ child) => {
    level.nested = true;
    level.last = watch(child, name ? `${name} > ${child.name}` : child.name, count);
  });
  parser.on('assert', (/** @type {Point} */ point) => {
    if (point.skip || point.todo) {
      level.marked++;
      const reason = point.skip || point.todo;
      const title = name ? `${name} > ${point.name}` : point.name;
      count.skips.push({ name: title, reason: typeof reason === 'string' ? reason : 'no reason' });
    } else if (point.closingTestPoint && level.last) {
      settle(level.last, point.ok, count, point);
    } else if (point.ok) {
      level.good++;
    } else {
      level.bad.push(point);
    }
    if (point.closingTestPoint) level.last = undefined;
  });
  return level;
}

/**
 * Counts a finished block.
 * @param {Level} level
 * @param {boolean} ok what its closing test point says
 * @param {Count} count
 * @param {Point} [closing]
 */
function settle(level, ok, count, closing) {
  const failures = level.bad.map(explain);
  // Not ok with every assertion fine: it threw, timed out, or did not keep its plan.
  if (!ok && failures.length === 0 && !level.nested && closing) failures.push(explain(closing));
  if (failures.length > 0) {
    count.failures.push({ name: level.name, detail: failures.join('\n') });
  } else if (level.good > 0) {
    count.passed++;
  } else if (!level.nested && level.marked === 0) {
    count.failures.push({ name: level.name, detail: 'it asserts nothing, so it could not fail' });
  }
}

/** @param {Point} point */
function explain(point) {
  const { at, diff, found, wanted, stack, source: _, ...rest } = point.diag ?? {};
  const lines = [`not ok: ${point.name}`];
  if (point.tapError) lines.push(point.tapError);
  if (at?.fileName) lines.push(`at ${at.fileName}:${at.lineNumber}`);
  if (diff) lines.push(String(diff).trimEnd());
  else if (found !== undefined || wanted !== undefined) {
    lines.push(`found:  ${inspect(found)}`, `wanted: ${inspect(wanted)}`);
  }
  if (stack) lines.push(String(stack).trimEnd());
  if (Object.keys(rest).length > 0) lines.push(inspect(rest, { depth: 4 }));
  return lines.join('\n');
}
