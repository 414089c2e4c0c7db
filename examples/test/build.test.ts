// The builder, with a compiler that only notes what it is asked: what is compiled again, and when.

import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { buildExamples, examples, listPrograms, shrinkCache } from '../build.mjs';

// The word after -o is the output, the one after that the source.
const fakeNvcc = `#!/bin/sh
if [ "$1" = --version ]; then cat "$0.version"; exit; fi
echo "$@" >> "$0.log"
grep -q BROKEN "$3" && { echo "$3(1): error: broken" >&2; exit 2; }
cp "$3" "$2"
`;

function workshop(folder: string) {
  const nvcc = join(folder, 'nvcc');
  const sources = join(folder, 'sources');
  const out = join(folder, 'out');
  const source = (name: string, text: string) => writeFileSync(join(sources, name), text);
  const program = (name: string, flags: string[] = []) => ({
    ...{ name, source: `${name}.cu`, shows: '', flags, needs: [], args: [], testArgs: [] },
  });
  const manifest = (...programs: object[]) => source('programs.json', JSON.stringify({ programs }));
  mkdirSync(sources);
  writeFileSync(nvcc, fakeNvcc);
  chmodSync(nvcc, 0o755);
  writeFileSync(`${nvcc}.version`, 'release 13.0');
  source('one.cu', '#include "shared.h"\n');
  source('two.cu', 'int main() {}\n');
  source('shared.h', '#include "deep.h"\n');
  source('deep.h', '// 1\n');
  manifest(program('one'), program('two'));
  const compiled = async (libcuda?: string) => {
    const built = await buildExamples({ nvcc, sources, out, ...(libcuda ? { libcuda } : {}) });
    return built.filter((one) => one.compiled).map((one) => one.program.name);
  };
  const log = () => readFileSync(`${nvcc}.log`, 'utf8');
  return { nvcc, sources, out, source, program, manifest, compiled, log };
}

t.test('only what changed is compiled again', async (t) => {
  const { nvcc, out, source, program, manifest, compiled } = workshop(t.testdir());
  t.same(await compiled(), ['one', 'two']);
  t.ok(existsSync(join(out, 'one')));
  t.same(await compiled(), []);
  source('deep.h', '// 2\n');
  t.same(await compiled(), ['one'], 'a header of a header');
  manifest(program('one'), program('two', ['-O3']));
  t.same(await compiled(), ['two'], 'flags');
  writeFileSync(`${nvcc}.version`, 'release 13.1');
  t.same(await compiled(), ['one', 'two'], 'the compiler');
  t.same(await compiled(), []);
});

t.test('what one checkout has compiled, another takes from the cache', async (t) => {
  const folder = t.testdir({ here: {}, there: {}, file: '' });
  const cache = join(folder, 'cache');
  const here = workshop(join(folder, 'here'));
  const there = workshop(join(folder, 'there'));
  const build = ({ nvcc, sources, out }: ReturnType<typeof workshop>, where = cache) =>
    buildExamples({ nvcc, sources, out, cache: where });
  await build(here);
  await build(there);
  t.equal(existsSync(`${there.nvcc}.log`), false, 'nothing was compiled');
  t.equal(readFileSync(join(there.out, 'one'), 'utf8'), '#include "shared.h"\n');
  there.source('deep.h', '// 2\n');
  await build(there);
  t.match(there.log(), /one\.cu/, 'a header has changed');
  t.notMatch(there.log(), /two\.cu/);
  writeFileSync(`${there.nvcc}.version`, 'release 13.1');
  await build(there);
  t.match(there.log(), /two\.cu/, 'another compiler');
  const kept = readdirSync(cache);
  t.equal(kept.length, 5);
  utimesSync(join(cache, kept[2] ?? ''), 1, 1);
  const size = kept.reduce((sum, name) => sum + readFileSync(join(cache, name)).length, 0);
  shrinkCache(cache, size - 1);
  t.same(readdirSync(cache), kept.toSpliced(2, 1), 'the one that was not used for longest is gone');
  writeFileSync(`${here.nvcc}.version`, 'release 13.2');
  await build(here, join(folder, 'file', 'below'));
  t.match(here.log(), /one\.cu[\s\S]*one\.cu/, 'a cache that cannot be written is not used');
  shrinkCache(join(folder, 'none'), 0);
});

t.test('every failure is told, and the rest is built', async (t) => {
  const { source, program, manifest, compiled, out } = workshop(t.testdir());
  manifest(program('one'), program('two'), program('three'));
  source('one.cu', 'BROKEN');
  source('three.cu', 'BROKEN');
  await t.rejects(compiled(), { message: /one did not compile[\s\S]*one\.cu\(1\): error: broken/ });
  await t.rejects(compiled(), { message: /three did not compile/ });
  t.ok(existsSync(join(out, 'two')));
  t.notOk(existsSync(join(out, 'one')));
  source('one.cu', 'whole');
  source('three.cu', 'whole');
  t.same(await compiled(), ['one', 'three']);
});

t.test('-lcuda becomes the libcuda that is there', async (t) => {
  const folder = t.testdir({
    plain: { 'libcuda.so': '' },
    numbered: { 'libcuda.so.1': '' },
    none: {},
  });
  const { program, manifest, compiled, log } = workshop(folder);
  manifest(program('one', ['-lcuda']));
  await compiled(join(folder, 'plain'));
  t.match(log(), `-L${folder}/plain -lcuda\n`);
  await compiled(join(folder, 'numbered'));
  t.match(log(), `-L${folder}/numbered -Xlinker -l:libcuda.so.1 `);
  await t.rejects(compiled(join(folder, 'none')), { message: /no libcuda\.so .* --libcuda/s });
});

t.test('programs of a folder describe themselves', async (t) => {
  const { sources, source, log, compiled } = workshop(t.testdir());
  source('programs.json', JSON.stringify({ features: 'more', programs: [] }));
  mkdirSync(join(sources, 'more'));
  source('more/plain.cu', '// Shows one thing, in\n// two lines. And more.\n\n// No more.\n');
  source('more/own.cu', '// Shows another.\n// flags: -arch=sm_90 -rdc=true\nint main() {}\n');
  source('more/notes.txt', 'no program');
  t.same(await compiled(), ['own', 'plain']);
  t.match(log(), /own\.cu -std=c\+\+17 -arch=sm_90 -rdc=true\n/);
  t.match(log(), /plain\.cu -std=c\+\+17 -gencode arch=compute_80,code=compute_80\n/);
  t.same(
    listPrograms(sources).map(({ shows }) => shows),
    ['Shows another.', 'Shows one thing, in two lines.'],
  );
});

t.test('wrong names are answered with the right ones', async (t) => {
  const { nvcc, sources, out } = workshop(t.testdir());
  const wrong = buildExamples({ nvcc, sources, out, names: ['one', 'tow'] });
  await t.rejects(wrong, { message: 'There is no program called tow. The programs: one, two' });
  const missing = buildExamples({ nvcc: `${nvcc}x`, sources, out });
  await t.rejects(missing, { message: /^There is no nvcc at / });
});

t.test('the manifest of the examples', async (t) => {
  const programs = listPrograms();
  t.equal(new Set(programs.map(({ name }) => name)).size, programs.length, 'names are unique');
  for (const { name, source, shows } of programs) {
    t.ok(existsSync(join(examples, source)), `${name} has a source`);
    t.ok(shows, `${name} says what it shows`);
  }
});
