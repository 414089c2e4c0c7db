// Tables and values as people read them in a terminal.
import { exitCodes } from './command.js';

export interface Column<T> {
  title: string;
  /** Whether cells are set to the right, as numbers are. */
  right?: true;
  text: (row: T) => string;
  /** Where room is short, columns are left out, the one with the highest number first; absent: it stays. */
  spare?: number;
  /** After that the widest columns are made narrower, down to so many characters. */
  least?: number;
}

/**
 * A line of titles and one for each row, columns apart by two spaces; no wider than `most` where leaving
 * out columns and cutting cells can do that.
 */
export function table<T>(
  columns: readonly Column<T>[],
  rows: readonly T[],
  most = Number.POSITIVE_INFINITY,
): string[] {
  const filled = columns.map((column) => {
    const cells = [column.title, ...rows.map((row) => clean(column.text(row)))];
    return { ...column, cells, wide: cells.reduce((wide, cell) => Math.max(wide, width(cell)), 0) };
  });
  const over = () => filled.reduce((sum, { wide }) => sum + wide + 2, -2) - most;
  const expendable = filled.filter(({ spare }) => spare !== undefined);
  expendable.sort((a, b) => (b.spare ?? 0) - (a.spare ?? 0));
  for (const column of expendable) if (over() > 0) filled.splice(filled.indexOf(column), 1);
  const flexible = filled.filter(({ least, wide }) => least !== undefined && wide > least);
  while (over() > 0) {
    const [widest] = flexible.filter((one) => one.wide > (one.least ?? 0)).sort(byWidth);
    if (!widest) break;
    widest.wide--;
  }
  return [...Array(rows.length + 1).keys()].map((row) =>
    filled
      .map(({ cells, right, wide }) => {
        const cell = short(cells[row] ?? '', wide);
        const space = ' '.repeat(wide - width(cell));
        return right ? space + cell : cell + space;
      })
      .join('  ')
      .trimEnd(),
  );
}

function byWidth(one: { wide: number }, other: { wide: number }): number {
  return other.wide - one.wide;
}

/** The text, cut to so many characters; the last one shows that it was cut. */
export function short(text: string, most: number): string {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most - 1).join('')}…`;
}

/** Facts one behind the other, `, ` between them, in as many lines as they need. */
export function lined(facts: readonly string[], most: number): string[] {
  const lines: string[] = [];
  for (const fact of facts) {
    const last = lines.at(-1);
    if (last === undefined || width(last) + 2 + width(fact) > most) lines.push(fact);
    else lines[lines.length - 1] = `${last}, ${fact}`;
  }
  return lines;
}

/** A sentence in as many lines as it needs. */
export function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || width(last) + 1 + width(word) > most) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}

/** Names come from guests: nothing in them may move the cursor or ring the bell. */
export function clean(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}

function width(text: string): number {
  return [...text].length;
}

/** 1.5 GiB. */
export function bytes(count: number | null): string {
  if (count === null) return '-';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** Null: it is not known. */
export function percent(value: number | null): string {
  return value === null ? '-' : `${Math.round(value)}%`;
}

/** 4.2s, 3:05, 2:03:05, 4d 02:03. */
export function duration(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const two = (value: number) => String(value).padStart(2, '0');
  const [s, m, h] = [whole % 60, Math.floor(whole / 60) % 60, Math.floor(whole / 3600)];
  if (h < 1) return `${m}:${two(s)}`;
  if (h < 24) return `${h}:${two(m)}:${two(s)}`;
  return `${Math.floor(h / 24)}d ${two(h % 24)}:${two(m)}`;
}

/** A bar of `cells` characters, the given part of it full. */
export function bar(part: number, cells: number): string {
  const full = Math.round(Math.min(1, Math.max(0, part || 0)) * cells);
  return '#'.repeat(full) + '.'.repeat(cells - full);
}

/** Colours where a terminal shows them and nobody has said NO_COLOR. */
export function colours(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv): Paint {
  const wanted = stream.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb';
  return wanted ? (code, text) => `\x1b[${code}m${text}\x1b[0m` : (_code, text) => text;
}

/** SGR parameters around a text. */
export type Paint = (code: string, text: string) => string;
export const sgr = { bold: '1', dim: '2', red: '31', green: '32', yellow: '33', reverse: '7' };

/** Writes lines to stdout. */
export function print(lines: readonly string[]) {
  watchStdout();
  process.stdout.write(lines.map((line) => `${line}\n`).join(''));
}

export function printJson(value: unknown) {
  print([JSON.stringify(value, null, 2)]);
}

/** For commands that only write: where the reader has gone, as `head` does, they end, and that is no error. */
function watchStdout() {
  process.stdout.removeListener('error', unwritable).on('error', unwritable);
}

function unwritable({ code, message }: NodeJS.ErrnoException) {
  if (code === 'EPIPE') process.exit(exitCodes.ok);
  process.stderr.write(`outboard: cannot write to stdout: ${message}\n`);
  process.exit(exitCodes.unable);
}
