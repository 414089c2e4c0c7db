// The step that compiles programs with nvcc, by a compiler that only copies: how far it says it is.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

process.env['OUTBOARD_BUILD'] = t.testdir();
const { build, root } = await import('../../bin/paths.mjs');
const { examples, listPrograms } = await import('../../examples/build.mjs');
const { ensureExamples } = await import('../setup/examples.mjs');

// The word after -o is the output, the one after that the source.
const fakeNvcc = `#!/bin/sh
[ "$1" = --version ] || cp "$3" "$2"
`;

t.test('all programs of the step are counted as one', async (t) => {
  const path = join(build, 'nvcc');
  writeFileSync(path, fakeNvcc);
  chmodSync(path, 0o755);
  mkdirSync(join(build, 'software-device'));
  writeFileSync(join(build, 'software-device', 'libcuda.so.1'), '');
  const told: string[] = [];
  const begin = () => ({ progress: (count: string) => void told.push(count) });
  const ensure = (names: string[], tests: boolean) =>
    ensureExamples(begin, { path, version: '13.0', home: build }, { names, tests });

  await ensure(['kmeans'], false);
  t.same(told.splice(0), ['0/1']);
  await ensure([], true);
  const folders = [examples, join(root, 'test', 'programs'), join(root, 'bench', 'quota')];
  const all = folders.reduce((sum, folder) => sum + listPrograms(folder).length, 0);
  const counts = told.splice(0).map((one) => one.split('/').map(Number));
  t.equal(counts.length, all - 1, 'kmeans is there already');
  t.ok(counts.every(([, of]) => of === all));
  const done = counts.map(([count = Number.NaN]) => count);
  t.same(
    [...done].sort((a, b) => a - b),
    done,
    'it only grows',
  );
  t.ok((done.at(-1) ?? 0) >= all - 2, 'two are compiled at a time');
  await ensure([], true);
  t.same(told, [], 'nothing is left to do');
});
