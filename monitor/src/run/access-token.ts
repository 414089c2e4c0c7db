// The access token of a program, as the guest library finds it: OUTBOARD_TOKEN goes before a file.
import { readFileSync, statSync } from 'node:fs';
import { UsageError } from '../options/options.js';

/** A file named as an option unsets the variable, which would go before it. */
export function accessTokenEnvironment(args: readonly string[]): NodeJS.ProcessEnv {
  return namesFile(args) ? { OUTBOARD_TOKEN: '' } : {};
}

/** Throws a UsageError where a file is to be read that cannot be, or holds nothing. */
export function requireAccessToken(
  file: string | null,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): void {
  const flag = namesFile(args);
  if (file === null || (!flag && env['OUTBOARD_TOKEN'])) return;
  const problem = problemOf(file);
  const source = flag ? `--token-file ${file}` : `OUTBOARD_TOKEN_FILE=${file}`;
  if (problem !== null) throw new UsageError(`${source} ${problem}`);
}

function problemOf(file: string): string | null {
  try {
    const found = statSync(file);
    if (found.isDirectory()) return 'is a folder, not a file with an access token';
    // What can be read only once, such as a pipe, is left to the guest library.
    if (!found.isFile()) return null;
    return readFileSync(file, 'utf8').trim() === '' ? 'is empty: it holds no access token' : null;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return `cannot be read: ${code === 'ENOENT' ? 'there is no such file' : message}`;
  }
}

/** Throws what readFileSync throws. */
export function accessTokenOf(env: NodeJS.ProcessEnv, file: string | null): string {
  if (env['OUTBOARD_TOKEN']) return env['OUTBOARD_TOKEN'];
  return file === null ? '' : readFileSync(file, 'utf8').trimEnd();
}

function namesFile(args: readonly string[]): boolean {
  return args.some((arg) => /^--token-file(=|$)/.test(arg));
}
