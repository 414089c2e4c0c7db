// npm run fuzz -- TARGET SECONDS [OPTION...]: builds the fuzz targets and lets one search from its corpus
// on. What it learns stays in build/fuzz/found/TARGET, and what it finds (crash-*, timeout-*) beside
// it. Options are libFuzzer's. Without a target: their names.
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { environment, setUp } from './setup/all.mjs';
import { ensureNative } from './setup/native.mjs';
import { buildPreset, testPreset } from './setup/presets.mjs';
import { runMain, SetupError, step } from './setup/step.mjs';

const fuzz = buildPreset('fuzz');

await runMain(async () => {
  const [target, seconds = '60', ...options] = process.argv.slice(2);
  const ready = await setUp('night');
  await step(fuzz.title, (begin) => ensureNative(begin, 'fuzz'));
  const targets = readdirSync(join(fuzz.folder, 'targets')).sort();
  const known = `The targets: ${targets.join(', ')}`;
  if (target === undefined) {
    console.log(`npm run fuzz -- TARGET SECONDS [OPTION...]\n${known}`);
    return 0;
  }
  if (!targets.includes(target)) {
    throw new SetupError(`There is no fuzz target ${target}. ${known}`);
  }
  if (!/^[1-9]\d*$/.test(seconds)) {
    throw new SetupError(`${seconds} is no number of seconds. Give one, as in: ${target} 600`);
  }
  const [program = '', corpus = '', ...own] = readFileSync(
    join(fuzz.folder, 'targets', target),
    'utf8',
  )
    .split('\n')
    .filter(Boolean);
  const found = join(fuzz.folder, 'found', target);
  mkdirSync(found, { recursive: true });
  const words = [
    ...[`-max_total_time=${seconds}`, '-timeout=60', '-print_final_stats=1'],
    `-artifact_prefix=${join(fuzz.folder, 'found')}/${target}-`,
    ...own,
    ...options,
    found,
    corpus,
  ];
  const child = spawn(program, words, {
    env: { ...environment(ready), ...testPreset('fuzz').environment },
    stdio: 'inherit',
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
  });
});
