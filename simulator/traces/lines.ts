// Lines of a file that may be far larger than memory, and may be compressed (.gz).
import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import { gunzipSync } from 'node:zlib';

const partBytes = 1 << 20;
/** No line of a trace is longer: what is, is no text. */
const lineMost = 1 << 20;

/** Throws where the file cannot be read, or has a line that is no line of text. */
export function* linesOf(file: string): Generator<string> {
  const decoder = new StringDecoder('utf8');
  let left = '';
  for (const part of partsOf(file)) {
    const lines = (left + decoder.write(part)).split('\n');
    left = lines.pop() ?? '';
    if (left.length > lineMost) throw new Error(`${file}: a line is longer than ${lineMost} bytes`);
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line;
  }
  if (left !== '') yield left;
}

function* partsOf(file: string): Generator<Buffer> {
  if (file.endsWith('.gz')) {
    yield gunzipSync(readFileSync(file));
    return;
  }
  const fd = openSync(file, 'r');
  try {
    const buffer = Buffer.alloc(partBytes);
    for (let got = readSync(fd, buffer); got > 0; got = readSync(fd, buffer))
      yield buffer.subarray(0, got);
  } finally {
    closeSync(fd);
  }
}

/** The titles of the first line, by their places. Throws where one that is wanted is not there. */
export function titlesOf(line: string, file: string, wanted: readonly string[]) {
  const places = new Map(
    line
      .replace(/^\uFEFF/, '')
      .split(',')
      .map((title, at) => [title.trim(), at]),
  );
  const missing = wanted.filter((title) => !places.has(title));
  if (missing.length > 0) throw new Error(`${file}: no column ${missing.join(', ')}`);
  return places;
}
