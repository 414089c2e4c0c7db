// One page of what a day has found: what agrees, what differs, every figure beside the software device's.
import type { Group } from './day.js';
import type { Done, Figure, Results } from './results.js';

/** Lines of a table; the first is its head. Padded, for it is read in terminals, too. */
function table(lines: string[][]): string {
  const cells = lines.map((line) => line.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = (cells[0] ?? []).map((_, i) =>
    Math.max(3, ...cells.map((line) => line[i]?.length ?? 0)),
  );
  const row = (line: string[]) =>
    `| ${widths.map((width, i) => (line[i] ?? '').padEnd(width)).join(' | ')} |`;
  const [head = [], ...rest] = cells;
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  return [row(head), rule, ...rest.map(row)].join('\n');
}

function figureText(value: Figure | undefined): string {
  if (value === undefined) return '–';
  if (typeof value !== 'number') return value || '–';
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(4)));
}

const stepsOf = ({ steps }: Results, group: Group): [string, Done][] =>
  Object.entries(steps).filter(([, done]) => done.group === group.name);

function all<T>(results: Results, of: (done: Done) => T[] | undefined): T[] {
  return Object.values(results.steps).flatMap((done) => of(done) ?? []);
}

export function devicesName({ device }: Results): string {
  if (device.kind !== 'software') return device.name;
  return device.traits ? `the software device as ${device.name} (${device.traits})` : device.name;
}

/** `other`: recorded on the software device; undefined: this is that record, or there is none. */
export function page(results: Results, groups: Group[], other: Results | undefined): string {
  const { machine, begun, version, device } = results;
  const agrees = all(results, (done) => done.agrees);
  const differs = all(results, (done) => done.differs);
  const left = all(results, (done) => done.left);
  const seconds = Object.values(results.steps).reduce((sum, done) => sum + done.seconds, 0);
  const missing = groups.flatMap((group) =>
    group.steps.filter((step) => results.steps[`${group.name}/${step.name}`] === undefined),
  );
  const parts = [
    `# A first day on ${devicesName(results)}`,
    wrapped(
      `Driver of CUDA ${device.driver}; ${machine.cores} cores of ${machine.cpu}, Linux ${machine.kernel}, ` +
        `Node ${machine.node}; Outboard ${version}; ${begun.slice(0, 10)}; ${Math.round(seconds)} s of work.`,
    ),
    `**${agrees.length} agree, ${differs.length} differ or fail, ${left.length} were left out` +
      `${missing.length > 0 ? `, ${missing.length} steps are still to be run` : ''}.**`,
    '## What differs',
    differs.length === 0
      ? 'Nothing: whatever was run natively and remoted did the same.'
      : differs.map(({ name, how }) => wrapped(`- **${name}**: ${plain(how)}`, '  ')).join('\n'),
    ...(other ? ['## What the software device does otherwise', otherwise(results, other)] : []),
    ...groups.map((group) => section(results, group, other)),
  ];
  if (missing.length > 0)
    parts.push(`## Still to be run\n\n${missing.map(({ name }) => `- ${name}`).join('\n')}`);
  return `${parts.join('\n\n')}\n`;
}

/** What is longer stands below its table. */
const longestCell = 80;

/** Lines of the width that pages here have; a word is never cut. */
function wrapped(text: string, indent = ''): string {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= 118)
      lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(lines.length === 0 ? word : `${indent}${word}`);
  }
  return lines.join('\n');
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** What Markdown would take for markup. */
const plain = (text: string) => text.replaceAll(/([*_<>`[\]])/g, '\\$1');

/** Words, not numbers: those differ on any two machines. */
function otherwise(results: Results, other: Results): string {
  const lines: string[] = [];
  const outputs: string[] = [];
  for (const [name, done] of Object.entries(results.steps)) {
    const theirs = other.steps[name];
    for (const [what, value] of Object.entries(done.figures ?? {})) {
      const their = theirs?.figures?.[what];
      if (their === undefined || typeof value === 'number' || value === their) continue;
      // It stands below, whole.
      if (value.length > longestCell) continue;
      lines.push(
        wrapped(`- ${what}: ${plain(value)}; the software device: ${plain(String(their))}`, '  '),
      );
    }
  }
  const recorded = new Map(all(other, (done) => Object.entries(done.outputs ?? {})));
  for (const [name, hash] of all(results, (done) => Object.entries(done.outputs ?? {})))
    if (recorded.has(name) && recorded.get(name) !== hash) outputs.push(name);
  if (outputs.length > 0)
    lines.push(wrapped(`- other output, natively, of these programs: ${outputs.join(', ')}`, '  '));
  return lines.length > 0 ? lines.join('\n') : 'Nothing, as far as it was asked in words.';
}

function section(results: Results, group: Group, other: Results | undefined): string {
  const mine = stepsOf(results, group);
  const seconds = mine.reduce((sum, [, done]) => sum + done.seconds, 0);
  const parts = [
    `## ${group.name}`,
    wrapped(`${capital(group.what)}.`),
    mine.length === 0
      ? 'Not run.'
      : `${mine.length} of ${group.steps.length} steps, ${seconds.toFixed(1)} s.`,
  ];
  const agrees = mine.flatMap(([, done]) => done.agrees ?? []);
  if (agrees.length > 0) parts.push(wrapped(`Agree (${agrees.length}): ${agrees.join(', ')}.`));
  const differs = mine.flatMap(([, done]) => done.differs ?? []);
  if (differs.length > 0)
    parts.push(
      wrapped(`Differ (${differs.length}): ${differs.map(({ name }) => name).join(', ')}.`),
    );
  const left = mine.flatMap(([, done]) => done.left ?? []);
  if (left.length > 0)
    parts.push(
      wrapped(`Left out: ${left.map(({ name, why }) => `${name} (${plain(why)})`).join(', ')}.`),
    );
  const figures = mine.flatMap(([name, done]) =>
    Object.entries(done.figures ?? {}).map(([what, value]) => [
      what,
      figureText(value),
      ...(other ? [figureText(other.steps[name]?.figures?.[what])] : []),
    ]),
  );
  const isLong = (row: string[]) => row.some((cell) => cell.length > longestCell);
  const short = figures.filter((row) => !isLong(row));
  if (short.length > 0) {
    const head = ['', 'here', ...(other ? [devicesName(other)] : [])];
    parts.push(table([head, ...short]));
  }
  for (const [what = '', value = ''] of figures.filter(isLong))
    parts.push(wrapped(`${capital(what)}: ${plain(value)}.`));
  return parts.join('\n\n');
}
