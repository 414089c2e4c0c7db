// One program per feature of CUDA, natively on the software device. Each checks its own results.
import { existsSync } from 'node:fs';
import t from 'tap';
import { listFeatures } from '../../../examples/build.mjs';
import { noPrograms, root } from '../../support/paths.js';
import { native, testProgram } from '../../support/program.js';

const features = listFeatures(`${root}/test/programs`);

t.test('each says what it shows, under a name of its own', async (t) => {
  for (const { name, shows } of features) t.match(shows, /^\S.*\.$/, `${name}: ${shows}`);
});

for (const { name, shows } of features) {
  t.test(`${name}: ${shows}`, { skip: noPrograms }, async (t) => {
    t.ok(existsSync(testProgram(name)), 'it is built');
    const { code, signal, stdout, stderr } = await native(testProgram(name));
    t.equal(code, 0, `exit ${code ?? signal}: ${stderr}${stdout}`);
    t.not(stdout, '', 'it says what it did');
  });
}
