// CUB's and Thrust's algorithms whose blocks hand on sums as they run, again and again, remoted.
import t from 'tap';
import { noPrograms } from '../../support/paths.js';
import { remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';
import { singlePass } from '../../support/single-pass.js';

for (const { name, args, env } of singlePass) {
  t.test(name, { skip: noPrograms }, async (t) => {
    const server = await startServer({ env });
    t.teardown(() => server.stop());
    const { code, stdout, stderr } = await remoted(testProgram('single-pass'), server.address, {
      args,
    });
    t.equal(code, 0, stderr);
    t.match(stdout, /^0 of [1-9]\d* results are wrong\n$/);
  });
}
