// A session's number as somebody types it.
import { UsageError } from './options.js';

export function sessionOf(word: string): number {
  const id = Number(word);
  if (!/^\d+$/.test(word) || id < 1 || !Number.isSafeInteger(id)) {
    throw new UsageError(`${word} is no session: a number is, as \`outboard sessions\` shows it`);
  }
  return id;
}
