// Options of a command: a flag, its name in the environment, its default, in this order of
// precedence; and the help text made of the same description.
import { parseArgs } from 'node:util';

export interface Option<T> {
  env: string;
  /** Stands for the value in help: HOST:PORT. */
  value: string;
  help: string;
  parse: (text: string) => T;
  fallback: T;
  /** The default as help shows it; none: not shown. */
  shown?: string;
  /** Left out of help: for developers. */
  hidden?: true;
}

/** By flag, without the dashes. */
// biome-ignore lint/suspicious/noExplicitAny: each option has a type of its own
export type OptionTable = Record<string, Option<any>>;
export type Values<S extends OptionTable> = {
  [K in keyof S]: S[K] extends Option<infer T> ? T : never;
};

/** What a parser throws: the rest of a sentence. */
export class BadValue extends Error {}

/** The user's mistake; `outboard` ends with 2. */
export class UsageError extends Error {}

export function readOptions<S extends OptionTable>(
  options: S,
  args: string[],
  env: NodeJS.ProcessEnv,
): Values<S> {
  const flags = parseFlags(options, args);
  const values: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(options)) {
    const flag = flags[name];
    const variable = env[option.env];
    if (flag !== undefined) {
      values[name] = parse(option, flag, `--${name} ${flag}`);
    } else if (variable) {
      values[name] = parse(option, variable, `${option.env}=${variable}`);
    } else {
      values[name] = option.fallback;
    }
  }
  return values as Values<S>;
}

function parseFlags(options: OptionTable, args: string[]): Record<string, string | undefined> {
  const config = Object.fromEntries(
    Object.keys(options).map((name) => [name, { type: 'string' as const }]),
  );
  try {
    const { values } = parseArgs({ args, options: config, strict: true, allowPositionals: false });
    return values as Record<string, string | undefined>;
  } catch (error) {
    throw new UsageError(firstSentence((error as Error).message));
  }
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

/** Where the command's own arguments end and, for `run`, the program begins. */
export function splitAtProgram(options: OptionTable, args: string[]): [string[], string[]] {
  const config = Object.fromEntries(
    Object.keys(options).map((name) => [name, { type: 'string' as const }]),
  );
  const { tokens } = parseArgs({ args, options: config, strict: false, tokens: true });
  const end = tokens.find((token) => token.kind !== 'option');
  if (!end) return [args, []];
  const program = end.kind === 'option-terminator' ? end.index + 1 : end.index;
  return [args.slice(0, end.index), args.slice(program)];
}

export function optionsHelp(options: OptionTable): string {
  const rows = Object.entries(options)
    .filter(([, option]) => !option.hidden)
    .map(([name, { value, env, help, shown }]) => {
      const notes = [...(shown === undefined ? [] : [`default ${shown}`]), env];
      return [`--${name} ${value}`, `${help} (${notes.join('; ')})`] as const;
    });
  const width = Math.max(...rows.map(([flag]) => flag.length));
  return rows.map(([flag, help]) => `  ${flag.padEnd(width)}  ${help}`).join('\n');
}
