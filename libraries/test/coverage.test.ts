// Every function that is served is called by a test that compares with the real library: by `all` of cublas-calls.c, which
// goes through the table, or by name in one of the programs. And what NVIDIA's cuSOLVER imports is served.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build, root } from '../../bin/paths.mjs';
import { glob } from '../../scripts/setup/glob.mjs';

const read = (file: string) => readFileSync(path.join(root, file), 'utf8');

function served(): string[] {
  const sections = read('docs/cublas-calls.md').split('\n## ');
  const all = sections.filter((one) => one.startsWith('Served'));
  return all.flatMap((one) => [...one.matchAll(/`(cublas\w+)`/g)].map(([, name = '']) => name));
}

t.test('no function is served that no test calls', async (t) => {
  const table = read('proto/generated/cublas_calls.h');
  const inTable = new Set([...table.matchAll(/\{"(cublas\w+)"/g)].map(([, name]) => name));
  // As in `all`: what is set of a handle, and its life, is called by name.
  const byAll = (name: string) =>
    inTable.has(name) && !/^cublasSet|^cublas(Create|Destroy)_v2$/.test(name);
  const programs = ['cublas-calls.c', 'cublaslt-calls.c'].map((name) =>
    read(`libraries/test/programs/${name}`),
  );
  // Its declaration, and a call.
  const called = (name: string) =>
    programs.some((text) => [...text.matchAll(new RegExp(`\\b${name}\\b`, 'g'))].length > 1);
  const functions = served();
  t.ok(functions.length > 540, `${functions.length} functions`);
  t.same(
    functions.filter((name) => !byAll(name) && !called(name)),
    [],
  );
});

const [solver = ''] = glob(
  `${build}/solver/lib/python3*/site-packages/nvidia/cu13/lib/libcusolver.so.12`,
);
const skip = !existsSync(solver) && 'cuSOLVER is not there: npm run test:clients installs it';
t.test('what cuSOLVER imports is served', { skip }, async (t) => {
  const args = ['-D', '--undefined-only', '--format=just-symbols', solver];
  const imports = execFileSync('nm', args, { encoding: 'utf8' }).match(/\bcublas\w+/g) ?? [];
  t.ok(imports.length > 100, `${imports.length} functions`);
  const all = new Set(served());
  t.same(
    imports.filter((name) => !all.has(name)),
    [],
  );
});
