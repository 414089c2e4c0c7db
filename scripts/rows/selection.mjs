// Whether a pattern selects any test, found out before anything is compiled.
import { mustRun } from '../setup/command.mjs';
import { ensurePackages } from '../setup/debian.mjs';
import { ensureConfigured } from '../setup/native.mjs';
import { ensureNodeModules } from '../setup/npm.mjs';
import { buildPreset, testPreset } from '../setup/presets.mjs';
import { step } from '../setup/step.mjs';
import { listTests } from './ctest.mjs';
import { testSources } from './sources.mjs';

/** The rows whose tests ctest knows, with their presets. */
const presets = /** @type {const} */ ({
  ctest: 'release',
  asan: 'asan',
  'asan-device': 'asan-device',
  fuzz: 'fuzz',
  tsan: 'tsan',
});

/**
 * Tests in TypeScript are known by their sources. Those of ctest are known once CMake has configured a build,
 * which needs packages, and takes seconds where the build takes minutes.
 * @param {RegExp} pattern
 * @param {string[]} rows
 */
export async function selectsSome(pattern, rows) {
  if (rows.includes('tap') && testSources().some((source) => pattern.test(source))) return true;
  const native = Object.entries(presets).filter(([row]) => rows.includes(row));
  if (native.length === 0) return false;
  await step('Debian packages', (begin) => ensurePackages(begin, ['build', 'test']));
  await step('npm packages', ensureNodeModules);
  for (const [, preset] of native) {
    const { title } = buildPreset(preset);
    const { folder, wants } = testPreset(preset);
    await step(`names of the tests of the ${title}`, async (begin) => {
      const log = await ensureConfigured(begin, preset);
      // CMake again, where one of its files has changed; nothing else.
      await mustRun(`Configuring the ${title}`, log, ['ninja', '-C', folder, 'build.ninja']);
    });
    const tests = await listTests(folder);
    if (tests.some((test) => wants(test) && pattern.test(test.name))) return true;
  }
  return false;
}
