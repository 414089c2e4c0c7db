// npm run bench [-- SUITE] [OPTION...]: sets everything up, then measures. Without a suite: the figures of
// bench/run.ts. A suite is a folder of bench/ with a main.ts; the options are its own, but for --device
// software|nvidia|PATH, which all have.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../bin/paths.mjs';
import { runCompiled } from './setup/all.mjs';
import { takeDevice } from './setup/device.mjs';
import { runMain, SetupError } from './setup/step.mjs';

await runMain(() => {
  const args = takeDevice(process.argv.slice(2));
  const suite = args[0]?.startsWith('-') ? undefined : args.shift();
  return runCompiled(suite === undefined ? 'bench/run.js' : compiledSuite(suite), args);
});

/** @param {string} name */
function compiledSuite(name) {
  const folder = join(root, 'bench');
  const suites = readdirSync(folder).filter((one) => existsSync(join(folder, one, 'main.ts')));
  if (suites.includes(name)) return `bench/${name}/main.js`;
  throw new SetupError(
    `There is no suite ${name}. npm run bench -- SUITE, where SUITE is one of ${suites.join(', ')}; ` +
      'without one it measures what bench/results/latest.json holds.',
  );
}
