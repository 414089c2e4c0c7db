// Writes docs/errors.md.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../../bin/paths.mjs';
import { errorsPage } from './errors.js';

writeFileSync(path.join(root, 'docs', 'errors.md'), errorsPage());
