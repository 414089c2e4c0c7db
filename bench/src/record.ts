// Where suites write: the record, which is of the usual devices; where --device named another, the build folder.
import path from 'node:path';
import { build, root } from '../../bin/paths.mjs';
import { named } from '../../test/support/device.js';

export const record = path.join(named === null ? root : build, 'bench', 'results');
