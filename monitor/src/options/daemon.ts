// What every command that serves has in common: the options of its log and its ready file.
import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
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

/** Renamed into place, so that whoever waits for the file never reads half of it. */
export function writeReadyFile(file: string | null, addresses: readonly string[]) {
  if (file === null) return;
  const half = path.join(path.dirname(file), `.${path.basename(file)}.${process.pid}`);
  writeFileSync(half, `${addresses.join('\n')}\n`);
  renameSync(half, file);
}
