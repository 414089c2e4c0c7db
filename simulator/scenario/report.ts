// What came out of a scenario: a table for a terminal, a plot and a page.
import type { Ran, Result } from './run.js';

/** Lines of a table, for a terminal. */
export function reportLines({ scenario, sessions, notes, rows }: Result): string[] {
  const head = [
    'PLACEMENT',
    'QUEUE',
    'SKIP',
    'WAIT',
    'P50',
    'P90',
    'P99',
    'STRICT',
    'EFFORT',
    'LONGEST',
    'MEMORY',
    'SLOTS',
    'DONE',
    'LEFT',
    'REFUSED',
  ];
  const cells = [head, ...rows.map(cellsOf)];
  const widths = head.map((_, at) => Math.max(...cells.map((row) => row[at]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join('  ')
      .trimEnd();
  return [
    `${scenario}: ${sessions} sessions. Simulated: this is advice, and nothing was measured.`,
    ...notes.map((note) => `  ${note}`),
    '',
    ...cells.map(line),
    '',
    'WAIT to P99: seconds until a place, of those that got one, on average and at most for so many percent of them.',
    'STRICT, EFFORT: on average, of latency-strict and best-effort ones.',
    'LONGEST: the queue. MEMORY, SLOTS: what was taken of what there is, on average.',
  ];
}

function cellsOf(row: Ran): string[] {
  const refused = Object.values(row.refused).reduce((sum, one) => sum + one, 0);
  return [
    ...[row.policy, row.queue, row.skip ? 'yes' : 'no'],
    ...[row.wait.mean, row.wait.p50, row.wait.p90, row.wait.p99].map(seconds),
    ...[row.waitOf['latency-strict'], row.waitOf['best-effort']].map((wait) =>
      wait === null ? '-' : seconds(wait),
    ),
    ...[String(row.longestQueue), percent(row.memory), percent(row.slots)],
    ...[row.done, row.left, refused].map(String),
  ];
}

function seconds(value: number): string {
  return value.toFixed(value < 10 ? 2 : 0);
}

function percent(part: number): string {
  return `${(100 * part).toFixed(1)} %`;
}

/** Distinct for people who see no red or green, too (Okabe and Ito). */
const colours = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000'];
const size = { width: 640, height: 360, left: 60, right: 150, top: 20, bottom: 45 };

/** How long how many waited, as SVG: percent of those that got a place, by seconds. */
export function plot({ rows }: Result): string {
  const most = Math.max(1e-3, ...rows.map(({ waits }) => waits[99] ?? 0));
  const { width, height, left, right, top, bottom } = size;
  const x = (wait: number) => left + ((width - left - right) * Math.min(wait, most)) / most;
  const y = (part: number) => height - bottom - ((height - top - bottom) * part) / 100;
  const lines = rows.map((row, index) => {
    const colour = colours[index % colours.length];
    const points = row.waits
      .slice(0, 100)
      .map((wait, part) => `${x(wait).toFixed(1)},${y(part).toFixed(1)}`);
    const dashes = row.skip ? ' stroke-dasharray="6 3"' : '';
    const ordered = row.queue === 'first-come' ? '' : `, ${row.queue}`;
    const name = `${row.policy}${ordered}${row.skip ? ', skip' : ''}`;
    const at = top + 16 + 18 * index;
    return [
      `<polyline fill="none" stroke="${colour}" stroke-width="2"${dashes} points="${points.join(' ')}"/>`,
      `<line x1="${width - right + 10}" x2="${width - right + 34}" y1="${at - 4}" y2="${at - 4}" stroke="${colour}" stroke-width="2"${dashes}/>`,
      `<text x="${width - right + 40}" y="${at}">${escapeText(name)}</text>`,
    ].join('\n');
  });
  const marks = [0, 25, 50, 75, 100].map(
    (part) =>
      `<text x="${left - 8}" y="${y(part) + 4}" text-anchor="end">${part}</text><line x1="${left}" x2="${width - right}" y1="${y(part)}" y2="${y(part)}" stroke="#ddd"/>`,
  );
  const ticks = [0, 0.5, 1].map(
    (part) =>
      `<text x="${x(part * most)}" y="${height - bottom + 18}" text-anchor="middle">${seconds(part * most)}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12" role="img" aria-label="How long sessions waited">
<rect width="${width}" height="${height}" fill="#fff"/>
${marks.join('\n')}
${ticks.join('\n')}
<text x="${left + (width - left - right) / 2}" y="${height - 8}" text-anchor="middle">seconds until a place</text>
<text x="14" y="${height / 2}" text-anchor="middle" transform="rotate(-90 14 ${height / 2})">percent of sessions</text>
${lines.join('\n')}
</svg>
`;
}

/** A page that needs nothing beside it. */
export function page(result: Result): string {
  const { scenario, sessions, notes, rows } = result;
  const head = [
    'placement',
    'queue',
    'skip',
    'mean wait',
    'p50',
    'p90',
    'p99',
    'strict',
    'best effort',
    'longest queue',
    'memory',
    'slots',
    'done',
    'left',
    'refused',
  ];
  const cells = (row: readonly string[], kind: 'th' | 'td') =>
    `<tr>${row.map((cell) => `<${kind}>${escapeText(cell)}</${kind}>`).join('')}</tr>`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${escapeText(scenario)}</title>
<style>body{font:15px sans-serif;margin:2em;max-width:60em}table{border-collapse:collapse}td,th{padding:.3em .7em;border-bottom:1px solid #ddd;text-align:right}td:first-child,th:first-child{text-align:left}</style>
<h1>${escapeText(scenario)}</h1>
<p>${sessions} sessions, the same for each policy. Simulated: this is advice, and nothing was measured.</p>
<ul>${notes.map((note) => `<li>${escapeText(note)}</li>`).join('')}</ul>
${plot(result)}
<table>
${cells(head, 'th')}
${rows.map((row) => cells(cellsOf(row), 'td')).join('\n')}
</table>
</html>
`;
}

function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
