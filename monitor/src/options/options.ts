// Options of a command: a flag, its name in the environment, a line of a configuration file, its
// default, in this order of precedence; and the help text made of the same description.
import { parseArgs } from 'node:util';
import { OutboardError } from '../base/errors.js';
import { didYouMean } from './nearest.js';

export interface Option<T> {
  env: string;
  /** Stands for the value in help: HOST:PORT. */
  value: string;
  help: string;
  parse: (text: string) => T;
  fallback: T;
  /** The default as help shows it; absent: there is none. */
  shown?: string;
  /** Left out of help: for developers. */
  hidden?: true;
  /** A path, which in a configuration file is seen from the file. */
  path?: true;
  /** Other flags that are taken for this one, each with the rest of a sentence that says what it is not. */
  mistaken?: Record<string, string>;
  /** Another flag, said in this one's place: where it is given, this one's variable and line of a file do not count. */
  yieldsTo?: string;
  /** A flag without a value, which is 'yes' then; `parse` is given that or what else is written. */
  bare?: true;
}

/** A flag that is there or not; in the environment and the file: yes or no. */
export function yesNo(env: string, help: string): Option<boolean> {
  const parse = (text: string) => {
    if (/^(yes|true|1|on)$/i.test(text)) return true;
    if (/^(no|false|0|off)$/i.test(text)) return false;
    throw new BadValue('expected yes or no');
  };
  return { env, value: '', help, parse, fallback: false, bare: true };
}

/** By flag, without the dashes. */
// biome-ignore lint/suspicious/noExplicitAny: each option has a type of its own
export type OptionTable = Record<string, Option<any>>;
export type Values<S extends OptionTable> = {
  [K in keyof S]: S[K] extends Option<infer T> ? T : never;
};

/** What a configuration file says, by option; each with the place it comes from, for messages. */
export type FileValues = ReadonlyMap<string, { text: string; source: string }>;

/** What a parser throws: the rest of a sentence. */
export class BadValue extends Error {}

/** The user's mistake; `outboard` ends with 2. */
export class UsageError extends Error {
  /** What to see, where it is not the command's help. */
  readonly see: string | undefined;

  constructor(message: string, see?: string) {
    super(message);
    this.see = see;
  }
}

export function readOptions<S extends OptionTable>(
  options: S,
  args: string[],
  env: NodeJS.ProcessEnv,
  file: FileValues = new Map(),
): Values<S> {
  const flags = parseFlags(options, args);
  const values: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(options)) {
    const flag = flags[name];
    const yields = option.yieldsTo !== undefined && flags[option.yieldsTo] !== undefined;
    const variable = yields ? undefined : env[option.env];
    const written = yields ? undefined : file.get(name);
    if (flag !== undefined) {
      values[name] = parse(option, flag, `--${name} ${flag}`);
    } else if (variable) {
      values[name] = parse(option, variable, `${option.env}=${variable}`);
    } else if (written) {
      values[name] = parseWritten(name, option, written);
    } else {
      values[name] = option.fallback;
    }
  }
  return values as Values<S>;
}

function parseFlags(options: OptionTable, args: string[]): Record<string, string | undefined> {
  try {
    const config = configOf(options);
    const { values } = parseArgs({ args, options: config, strict: true, allowPositionals: false });
    return Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, value === true ? 'yes' : `${value}`]),
    );
  } catch (error) {
    const sentence = firstSentence((error as Error).message);
    throw new UsageError(sentence + hint(options, sentence));
  }
}

function configOf(options: OptionTable) {
  return Object.fromEntries(
    Object.entries(options).map(([name, { bare }]) => [
      name,
      { type: bare ? ('boolean' as const) : ('string' as const) },
    ]),
  );
}

/** What stands behind Node's sentence where the flag is one that there is not. */
function hint(options: OptionTable, sentence: string): string {
  const [, name] = /^Unknown option '--([^']*)'$/.exec(sentence) ?? [];
  if (name === undefined) return '';
  const shown = Object.entries(options).filter(([, option]) => !option.hidden);
  for (const [flag, { mistaken = {} }] of shown) {
    if (Object.hasOwn(mistaken, name)) return `: --${flag} ${mistaken[name]}`;
  }
  const names = shown.map(([flag]) => flag);
  return didYouMean(name, names, '--');
}

/** Node goes on to explain how a positional argument could begin with a dash, which helps nobody. */
function firstSentence(message: string): string {
  return message.split('. ')[0]?.replace(/\.$/, '') ?? message;
}

function parse(option: Option<unknown>, text: string, source: string): unknown {
  try {
    return option.parse(text);
  } catch (error) {
    if (!(error instanceof BadValue)) throw error;
    throw new UsageError(`${source} is not understood: ${error.message}`);
  }
}

function parseWritten(
  name: string,
  option: Option<unknown>,
  { text, source }: { text: string; source: string },
): unknown {
  try {
    return option.parse(text);
  } catch (error) {
    if (!(error instanceof BadValue)) throw error;
    throw new OutboardError(
      'OB_CONFIG',
      `${source}: ${name}: ${text} is not understood: ${error.message}`,
    );
  }
}

/** Where the command's own arguments end and, for `run`, the program begins. */
export function splitAtProgram(options: OptionTable, args: string[]): [string[], string[]] {
  const { tokens } = parseArgs({ args, options: configOf(options), strict: false, tokens: true });
  const end = tokens.find((token) => token.kind !== 'option');
  if (!end) return [args, []];
  const program = end.kind === 'option-terminator' ? end.index + 1 : end.index;
  return [args.slice(0, end.index), args.slice(program)];
}

/** As help shows it; null for what is said or not, and has no value. */
export function defaultOf({ value, shown }: Option<unknown>): string | null {
  return shown ?? (value === '' ? null : 'none');
}

/** What stands behind the help of an option. */
export function notesOf(option: Option<unknown>): string {
  const usual = defaultOf(option);
  return [...(usual === null ? [] : [`default ${usual}`]), option.env].join('; ');
}

export function optionsHelp(options: OptionTable): string {
  const rows = Object.entries(options)
    .filter(([, option]) => !option.hidden)
    .map(([name, option]) => {
      const { value, help } = option;
      return [`--${name} ${value}`.trim(), `${help} (${notesOf(option)})`] as const;
    });
  const width = Math.max(...rows.map(([flag]) => flag.length));
  return rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`).join('\n');
}
