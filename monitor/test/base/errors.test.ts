// The error table and its page.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../../bin/paths.mjs';
import { errorsPage, OutboardError } from '../../src/base/errors.js';

t.test('docs/errors.md is what the table says', async (t) => {
  const page = readFileSync(path.join(root, 'docs', 'errors.md'), 'utf8');
  t.equal(page, errorsPage(), 'otherwise: node build/js/monitor/src/base/errors-page.js');
});

t.test('an error carries all that a guest is told', async (t) => {
  t.same(new OutboardError('OB_TOO_MUCH_MEMORY', '5 GiB', '3 GiB').refusal, {
    code: 'OB_TOO_MUCH_MEMORY',
    sentence:
      'the program asks for 5 GiB of device memory; the most that one session can get here is 3 GiB',
    remedy: 'Ask for less with OUTBOARD_MEMORY, or use a server with larger GPUs.',
    result: 2,
  });
});

t.test("another process's words are kept, its code is checked", async (t) => {
  t.match(OutboardError.relayed('OB_DEVICE_OPEN', 'in its own words'), {
    code: 'OB_DEVICE_OPEN',
    message: 'in its own words',
  });
  t.equal(OutboardError.relayed('OB_UNHEARD_OF', 'x'), null);
  t.equal(OutboardError.relayed('toString', 'x'), null);
  t.equal(OutboardError.relayed(null, 'x'), null);
});
