// What every command that serves has in common: the options of its log and its ready file.
import { accessSync, constants, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { OutboardError } from '../base/errors.js';
import { logLevels } from '../base/log.js';
import type { Option } from './options.js';
import { parseChoice } from './values.js';

export const logLevelOption = {
  env: 'OUTBOARD_LOG_LEVEL',
  value: 'LEVEL',
  help: `of the log on stderr: ${logLevels.join(', ')}`,
  parse: parseChoice(...logLevels),
  fallback: 'info',
  shown: 'info',
} satisfies Option<string>;

export function readyFileOption(env: string) {
  return {
    env,
    value: 'FILE',
    help: 'written with the addresses once guests can connect',
    parse: (text: string) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>;
}

/** Throws OB_READY_FILE where `writeReadyFile` would, as far as that can be known before; nothing is made. */
export function requireReadyFile(file: string | null) {
  if (file === null) return;
  orRefused(file, () => {
    accessSync(path.dirname(file), constants.W_OK | constants.X_OK);
    if (statSync(file, { throwIfNoEntry: false })?.isDirectory())
      throw new Error('it is a directory');
  });
}

/** Renamed into place, so that whoever waits for the file never reads half of it. Throws OB_READY_FILE. */
export function writeReadyFile(file: string | null, addresses: readonly string[]) {
  if (file === null) return;
  const half = path.join(path.dirname(file), `.${path.basename(file)}.${process.pid}`);
  orRefused(file, () => {
    writeFileSync(half, `${addresses.join('\n')}\n`);
    renameSync(half, file);
  });
}

function orRefused(file: string, act: () => void) {
  try {
    act();
  } catch (error) {
    throw new OutboardError('OB_READY_FILE', file, (error as Error).message);
  }
}
