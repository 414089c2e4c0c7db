// A server whose driver loads lazily (the trait `lazy-loading` of the software device) tells of what
// is wrong with a module when it is loaded, as a driver does that loads at once.
import t from 'tap';
import { nativeOutcome } from '../../support/features.js';
import { noPrograms } from '../../support/paths.js';
import { remoted, testProgram } from '../../support/program.js';
import { startServer } from '../../support/server.js';

t.test('errors of the compiler', { skip: noPrograms }, async (t) => {
  const server = await startServer({ env: { SOFTWARE_DEVICE_TRAITS: 'lazy-loading' } });
  t.teardown(() => server.stop());
  for (const name of ['module-calls', 'module-functions', 'link-ptx', 'device-symbols']) {
    const here = await nativeOutcome(name);
    t.equal(here.code, 0, `natively: ${here.stderr}`);
    const { code, stdout } = await remoted(testProgram(name), server.address);
    t.same({ code, stdout }, { code: 0, stdout: here.stdout }, name);
  }
});

// A driver that waits for all work when a function is first looked up keeps the thread that asks
// waiting, and nobody else: what the work waits for is heard meanwhile. So it is where the driver lets
// nobody start work meanwhile either: then pages that host and device share are carried without it.
const held = ['held-loads', 'held-pages', 'held-uploads', 'held-downloads'];
const some = ['first-lookups', 'late-loads', 'module-functions', 'host-functions', 'held-launches'];
const runs: [traits: string, programs: string[]][] = [
  ['lazy-loading=waiting', [...held, ...some]],
  ['lazy-loading=locking', [...held, ...some]],
  ['nvidia-like,lazy-loading=locking', held],
];
for (const [traits, programs] of runs)
  t.test(`look-ups that wait: ${traits}`, { skip: noPrograms }, async (t) => {
    const env = { SOFTWARE_DEVICE_TRAITS: traits };
    const server = await startServer({ env });
    t.teardown(() => server.stop());
    for (const name of programs) {
      const here = await nativeOutcome(name, env);
      t.equal(here.code, 0, `natively: ${here.stderr}`);
      const { code, stdout } = await remoted(testProgram(name), server.address);
      t.same({ code, stdout }, { code: 0, stdout: here.stdout }, name);
    }
  });
