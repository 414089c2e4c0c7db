// Where cuBLAS is looked for.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { chooseDriver } from '../../src/devices/devices.js';
import { findLibraries, hasLibraries, libraryFolders } from '../../src/devices/libraries.js';

function put(folder: string, ...names: string[]): string {
  mkdirSync(folder, { recursive: true });
  for (const name of names) writeFileSync(path.join(folder, name), '');
  return folder;
}
const both = ['libcublas.so.13', 'libcublasLt.so.13'];

t.test('both libraries have to be there', async (t) => {
  const folder = t.testdir();
  t.notOk(hasLibraries(folder));
  t.notOk(hasLibraries(put(path.join(folder, 'one'), 'libcublas.so.13')));
  t.ok(hasLibraries(put(path.join(folder, 'two'), ...both)));
  t.notOk(hasLibraries(put(path.join(folder, 'old'), 'libcublas.so.12', 'libcublasLt.so.12')));
});

t.test('the first folder that has them is taken', async (t) => {
  const root = t.testdir();
  const listed = put(path.join(root, 'listed'), 'libcublas.so.13');
  const toolkit = put(path.join(root, 'cuda', 'lib64'), ...both);
  const python = path.join(root, 'venv', 'lib');
  for (const version of ['python3.9', 'python3.12'])
    put(path.join(python, version, 'site-packages/nvidia/cu13/lib'), ...both);
  const env = { LD_LIBRARY_PATH: `relative:${listed}`, CUDA_HOME: path.join(root, 'cuda') };
  t.equal(findLibraries(env), toolkit);
  t.equal(findLibraries({ LD_LIBRARY_PATH: `${listed}:${toolkit}` }), toolkit);
  const folders = libraryFolders({ VIRTUAL_ENV: path.join(root, 'venv') });
  const packages = folders.filter((folder) => folder.startsWith(python));
  t.match(packages[0], /python3\.12\/site-packages/, 'the newest Python first');
  t.notOk(libraryFolders(env).includes('relative'), 'a folder by a relative path is not trusted');
});

t.test('a server that was started from `outboard run` loads none of its libraries', async (t) => {
  const variables = {
    LD_AUDIT: `${path.join(build, 'libraries', 'outboard-binding.so')}:/other/auditor.so`,
    LD_LIBRARY_PATH: `${path.join(build, 'guest-lib')}:${path.join(build, 'libraries')}:/other`,
  };
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  t.teardown(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
  Object.assign(process.env, variables);
  const { env } = await chooseDriver('software', 1, build);
  t.equal(env['LD_AUDIT'], '/other/auditor.so');
  t.equal(env['LD_LIBRARY_PATH'], '/other');
});
