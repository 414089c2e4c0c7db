// npm run format: lays out all sources as the lint row wants them.
import { join } from 'node:path';
import { root } from '../bin/paths.mjs';
import { nativeSources, trackedFiles } from './rows/sources.mjs';
import { attached } from './setup/command.mjs';
import { ensureNodeModules } from './setup/npm.mjs';
import { runMain, step } from './setup/step.mjs';

await runMain(async () => {
  await step('npm packages', ensureNodeModules);
  const biome = join(root, 'node_modules', '.bin', 'biome');
  const checked = await attached([biome, 'check', '--write', '.']);
  const native = nativeSources(await trackedFiles());
  const laidOut = native.length > 0 ? await attached(['clang-format', '-i', ...native]) : 0;
  return checked || laidOut;
});
