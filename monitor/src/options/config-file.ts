// The configuration file: YAML, `version: v1`, and beside it the options of the command by the
// names of their flags. A flag comes before the environment, that before the file.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type Document, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import { OutboardError } from '../base/errors.js';
import { didYouMean } from './nearest.js';
import type { FileValues, OptionTable } from './options.js';

/** Throws OB_CONFIG, with file and line. */
export function readConfigFile(file: string, options: OptionTable): FileValues {
  const lines = new LineCounter();
  const document = parse(file, lines);
  const at = (offset: number) => `${file}:${lines.linePos(offset).line}`;
  const { contents } = document;
  if (!isMap(contents)) throw wrong(file, 'it must hold names and values, one in a line');
  const values = new Map<string, { text: string; source: string }>();
  let versioned = false;
  for (const { key, value } of contents.items) {
    if (!isScalar(key)) throw wrong(file, 'a name is not a plain word');
    const name = String(key.value);
    const source = at(key.range?.[0] ?? 0);
    const text = textOf(value);
    if (name === 'version') {
      if (text !== 'v1') throw wrong(source, `version ${text ?? '?'} is not known; this reads v1`);
      versioned = true;
      continue;
    }
    if (!Object.hasOwn(options, name) || name === 'config') {
      const known = Object.keys(options).filter(
        (other) => !options[other]?.hidden && other !== 'config',
      );
      const meant = didYouMean(name, known) || `; there are ${known.join(', ')}`;
      throw wrong(source, `there is no ${name}${meant}`);
    }
    if (text === null) throw wrong(source, `${name} takes a value, or a list of them`);
    values.set(name, { text: relative(file, text, options[name]?.path), source });
  }
  if (!versioned) throw wrong(file, 'the line `version: v1` is missing');
  return values;
}

function parse(file: string, lines: LineCounter): Document {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw wrong(file, (error as Error).message);
  }
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [problem] = document.errors;
  if (problem) throw wrong(`${file}:${lines.linePos(problem.pos[0]).line}`, problem.message);
  return document;
}

/** As it would be written behind the flag: a list is separated by commas. */
function textOf(node: unknown): string | null {
  if (isScalar(node)) return node.value === null ? null : String(node.value);
  if (!isSeq(node)) return null;
  const texts = node.items.map(textOf);
  return texts.includes(null) ? null : texts.join(',');
}

/** Paths in the file are seen from the file. */
/** `none` stands for no file or folder where an option says so; one of that name is `./none`. */
function relative(file: string, text: string, isPath: true | undefined): string {
  return isPath && text !== 'none' ? path.resolve(path.dirname(file), text) : text;
}

function wrong(where: string, what: string): OutboardError {
  return new OutboardError('OB_CONFIG', `${where}: ${what}`);
}
