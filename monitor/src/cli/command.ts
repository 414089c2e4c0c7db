// What every command of `outboard` is. Help, shell completion and the man page are made of it.
import { parseArgs } from 'node:util';
import {
  type OptionTable,
  optionsHelp,
  readOptions,
  UsageError,
  type Values,
} from '../options/options.js';

export interface Command {
  name: string;
  /** One line, for the list of commands. */
  summary: string;
  /** The whole text of `outboard help NAME`: a line of usage, paragraphs, options. */
  help: string;
  /** For completion and the man page; absent: it has none, or they know no more than `help`. */
  options?: OptionTable;
  /** What its first word can be, where that is a matter of choice. */
  words?: readonly string[];
  /** Resolves to the exit code. Throws UsageError and OutboardError. */
  run(args: string[]): Promise<number>;
}

export const exitCodes = {
  ok: 0,
  usage: 2,
  /** Cannot start or reach something. */
  unable: 3,
  /** Of `doctor`: by the server; no session in time; a session whose kernel is wrong. */
  refused: 4,
  noGpu: 5,
  noKernel: 6,
  /** As shells have it. */
  notExecutable: 126,
  notFound: 127,
} as const;

export interface Description<S extends OptionTable> {
  name: string;
  summary: string;
  /** Behind the name and [OPTIONS]. */
  usage?: string;
  /** What help says between usage and options. */
  about: string;
  options: S;
  /** Letters that stand for an option. */
  letters?: Record<string, keyof S & string>;
  /** What its first word can be. */
  words?: readonly string[];
  /** How many words it takes beside options; absent: none. */
  takes?: { least: number; most: number; what: string };
  run(values: Values<S>, words: string[]): Promise<number>;
}

/** A command from its description. */
export function command<S extends OptionTable>(description: Description<S>): Command {
  const { name, summary, usage, about, options, letters = {}, words, run } = description;
  const { least, most, what } = description.takes ?? { least: 0, most: 0, what: 'nothing' };
  const head = ['outboard', name, '[OPTIONS]', usage ?? ''].join(' ').trim();
  const short = Object.entries(letters).map(([letter, option]) => `-${letter} is --${option}. `);
  const note = short.length > 0 ? `\n${short.join('').trim()}\n` : '';
  return {
    name,
    summary,
    help: `Usage: ${head}\n\n${about.trim()}\n\n${optionsHelp(options)}\n${note}`,
    options,
    ...(words && { words }),
    async run(args) {
      const [flags, found] = splitWords(options, letters, args);
      const values = readOptions(options, flags, process.env);
      if (found.length < least) throw new UsageError(`${name} takes ${what}`);
      if (found.length > most) {
        throw new UsageError(`${name} takes ${what}, not also ${found[most]}`);
      }
      return run(values, found);
    },
  };
}

/** Options, with letters written out, and what stands between and behind them. */
function splitWords(
  options: OptionTable,
  letters: Record<string, string>,
  args: string[],
): [string[], string[]] {
  const config = Object.fromEntries(
    Object.entries(options).map(([name, { bare }]) => {
      const letter = Object.entries(letters).find(([, option]) => option === name)?.[0];
      const type: 'boolean' | 'string' = bare ? 'boolean' : 'string';
      return [name, { type, ...(letter !== undefined && { short: letter }) }];
    }),
  );
  const { tokens } = parseArgs({
    args,
    options: config,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const flags: string[] = [];
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind !== 'option') continue;
    const known = config[token.name] !== undefined;
    flags.push(known ? `--${token.name}` : token.rawName);
    // Written apart, so that readOptions sees what is a value and what is not.
    if (token.value !== undefined) flags.push(token.value);
  }
  return [flags, words];
}
