// A program that asks for the driver's version before cuInit is told that of the server's driver, for
// which it takes no session; so is its child.
import t from 'tap';
import { nativeOutcome } from '../../support/features.js';
import { noPrograms } from '../../support/paths.js';
import { remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

for (const version of ['12.4', '12.8', '13.0', '13.5'])
  t.test(`a driver of ${version}`, { skip: noPrograms }, async (t) => {
    const env = { SOFTWARE_DEVICE_TRAITS: `driver=${version}` };
    const server = await startServer({ env });
    t.teardown(() => server.stop());
    const here = await nativeOutcome('early-version', env);
    t.equal(here.code, 0, `natively: ${here.stderr}`);
    const { code, stdout } = await remoted(testProgram('early-version'), server.address);
    t.same({ code, stdout }, { code: 0, stdout: here.stdout });
  });
