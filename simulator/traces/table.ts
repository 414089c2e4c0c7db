// Tables of numbers and words as papers publish them: comma-separated, with a line of titles.
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

export type Cells = Readonly<Record<string, string>>;

/** Throws where the file is missing, a title that is wanted is not there, or a line has another number of cells. */
export function readTable(file: string, wanted: readonly string[]): Cells[] {
  const raw = readFileSync(file);
  const text = (file.endsWith('.gz') ? gunzipSync(raw) : raw).toString('utf8');
  return parseTable(text, file, wanted);
}

export function parseTable(text: string, file: string, wanted: readonly string[]): Cells[] {
  const [head = '', ...lines] = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  const titles = head.split(',');
  const missing = wanted.filter((title) => !titles.includes(title));
  if (missing.length > 0) throw new Error(`${file}: no column ${missing.join(', ')}`);
  return lines.flatMap((line, index) => {
    if (line.trim() === '') return [];
    const cells = line.split(',');
    if (cells.length !== titles.length) {
      throw new Error(
        `${file}, line ${index + 2}: ${cells.length} cells, and there are ${titles.length} titles`,
      );
    }
    return [Object.fromEntries(titles.map((title, at) => [title, cells[at] ?? '']))];
  });
}

/** Throws where the cell is no number; `file` is named. */
export function numberIn(cells: Cells, title: string, file: string): number {
  const text = cells[title] ?? '';
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) {
    throw new Error(`${file}: ${title} is "${text}", expected a number`);
  }
  return value;
}
