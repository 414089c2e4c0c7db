// Which cuBLAS a program has whose own is not where LD_LIBRARY_PATH says: that of its DT_RPATH, or that of an absolute
// path, as with Python packages.
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { build } from '../../bin/paths.mjs';
import { outboard } from '../../monitor/test/support/serving.js';
import { testProgram } from '../../test/support/program.js';

const program = testProgram('which-cublas');
const decoys = path.join(path.dirname(program), 'decoys');
const ours = path.join(build, 'libraries');
const binding = path.join(ours, 'outboard-binding.so');

function which(where: string, env: NodeJS.ProcessEnv = {}) {
  const args = [outboard, 'run', `--libraries=${where}`, '--', program, decoys];
  const options = { env: { ...process.env, ...env }, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
  return { status, stderr, lines: stdout.trim().split('\n') };
}

/** All ways lead to this folder; those of other releases are the program's. */
const all = (folder: string, says: string) => ({
  status: 0,
  stderr: '',
  lines: [
    `linked: ${folder}/libcublas.so.13`,
    `it says: ${says}`,
    `cuBLAS by its path: ${folder}/libcublas.so.13`,
    `cuBLASLt by its path: ${folder}/libcublasLt.so.13`,
    `cuBLASLt by its name: ${folder}/libcublasLt.so.13`,
    `cuBLAS of CUDA 12: ${decoys}/libcublas.so.12`,
    'the auditor: none',
  ],
});

t.test('with --libraries=guest all ways lead to its own', async (t) => {
  t.same(which('guest'), all(decoys, 'a decoy'));
});

t.test('with --libraries=remote all ways lead to ours', async (t) => {
  t.same(which('remote'), all(ours, 'CUBLAS_STATUS_SUCCESS'));
});

t.test('with another auditor, too, and without a folder that is not known', async (t) => {
  const copy = path.join(t.testdir(), 'another.so');
  execFileSync('cp', [binding, copy]);
  t.same(which('remote', { LD_AUDIT: copy }), all(ours, 'CUBLAS_STATUS_SUCCESS'));
  t.same(which('guest', { LD_AUDIT: `:${copy}` }), all(decoys, 'a decoy'));
});

t.test('the auditor needs nothing and shows what the loader looks for', async (t) => {
  const symbols = execFileSync('nm', ['-D', '--format=just-symbols', binding], {
    encoding: 'utf8',
  });
  t.same(symbols.trim().split('\n').sort(), ['la_objsearch', 'la_version']);
  const needed = execFileSync('readelf', ['-d', binding], { encoding: 'utf8' });
  t.match(needed, 'STRTAB');
  t.notMatch(needed, /NEEDED/);
});
