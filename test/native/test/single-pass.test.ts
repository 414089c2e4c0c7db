// CUB's and Thrust's algorithms whose blocks hand on sums as they run, again and again, natively.
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { native, testProgram } from '../../support/program.js';
import { singlePass } from '../../support/single-pass.js';

for (const { name, args, env } of singlePass) {
  t.test(name, { skip: noPrograms }, async (t) => {
    const { code, stdout, stderr } = await native(testProgram('single-pass'), { args, env });
    t.equal(code, 0, stderr);
    t.match(stdout, /^0 of [1-9]\d* results are wrong\n$/);
  });
}
