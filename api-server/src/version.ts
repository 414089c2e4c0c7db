// Outboard's own version, from package.json.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../bin/paths.mjs';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
  version: string;
};

export { version };
