// Layout and lint of all sources, and of what is said about them; each tool counts as one test.
import { join } from 'node:path';
import { root } from '../../bin/paths.mjs';
import { logged, logTail, newLog } from '../setup/command.mjs';
import { nativeSources, shellScripts, trackedFiles } from './sources.mjs';
import { longSubjects } from './subjects.mjs';
import { emptyRow } from './summary.mjs';

/** @returns {Promise<import('./summary.mjs').Row>} */
export async function lintRow() {
  const started = performance.now();
  const row = emptyRow('lint');
  const files = await trackedFiles();
  const biome = join(root, 'node_modules', '.bin', 'biome');
  const tsc = join(root, 'node_modules', '.bin', 'tsc');
  const checks = [
    { name: 'biome', argv: [biome, 'check', '--diagnostic-level=error'], files: ['.'] },
    {
      name: 'clang-format',
      argv: ['clang-format', '--dry-run', '-Werror'],
      files: nativeSources(files),
    },
    { name: 'tsc of the web page', argv: [tsc, '-p'], files: [join('monitor', 'web')] },
    { name: 'shellcheck', argv: ['shellcheck'], files: shellScripts(files) },
    {
      name: 'markdownlint',
      argv: [join(root, 'node_modules', '.bin', 'markdownlint-cli2')],
      files: files.filter((path) => path.endsWith('.md')),
    },
  ];
  for (const check of checks) {
    if (check.files.length === 0) continue;
    const log = `lint-${check.name.replaceAll(' ', '-')}`;
    newLog(log);
    if ((await logged(log, [...check.argv, ...check.files])) === 0) row.passed++;
    else
      row.failures.push({ name: check.name, detail: `${logTail(log, 40)}\n${remedy(check.name)}` });
  }
  const long = await longSubjects();
  if (long.length === 0) row.passed++;
  else {
    const detail = `At most 76 columns, as CONTRIBUTING.md says:\n${long.join('\n')}`;
    row.failures.push({ name: 'commit subjects', detail });
  }
  row.seconds = (performance.now() - started) / 1000;
  return row;
}

/** @param {string} tool */
function remedy(tool) {
  return tool === 'biome' || tool === 'clang-format' ? 'Repair:    npm run format' : '';
}
