// proto/api/ids.json: the wire id of every command there ever was. Ids are append-only: a guest and
// a server of different releases agree on what a number means.
import { existsSync, readFileSync } from 'node:fs';
import { type Api, ApiError } from './api.js';

export type Ids = Record<string, number>;

export function readIds(file: string): Ids {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Ids) : {};
}

/** What was recorded and what is new; refuses a change of what was recorded. */
export function recordIds(api: Api, recorded: Ids): Ids {
  const owners = new Map(Object.entries(recorded).map(([name, id]) => [id, name]));
  const ids: Ids = { ...recorded };
  for (const { name, id, at } of api.commands) {
    const before = recorded[name];
    if (before !== undefined && before !== id) {
      throw new ApiError(`${at}: ${name} has id ${before} for good, not ${id}`);
    }
    const owner = owners.get(id);
    if (owner !== undefined && owner !== name) {
      throw new ApiError(`${at}: id ${id} was given to ${owner}; take one that is not in ids.json`);
    }
    ids[name] = id;
  }
  const names = new Set(api.commands.map(({ name }) => name));
  for (const name of Object.keys(recorded)) {
    if (!names.has(name)) {
      throw new ApiError(`ids.json: ${name} is gone from proto/api; older releases still send it`);
    }
  }
  return ids;
}

export function emitIds(ids: Ids): string {
  const sorted = Object.entries(ids).sort(([, a], [, b]) => a - b);
  return `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`;
}
