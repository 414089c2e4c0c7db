// The folder with the papers' own data, which is given by path: what its owners have not said may be passed on is not
// in this repository.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Data } from './row.js';

/** Throws where there is no such folder. */
export function dataIn(folder: string): Data {
  if (!existsSync(folder)) throw new Error(`${folder}: there is no such folder`);
  return {
    has: (name) => existsSync(path.join(folder, name)),
    file(name) {
      const file = path.join(folder, name);
      if (existsSync(file)) return file;
      throw new Error(
        `${file} is missing: the folder has to have what simulator/README.md lists, as it was published`,
      );
    },
  };
}
