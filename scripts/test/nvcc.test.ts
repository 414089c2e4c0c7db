import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { isUsable, parseVersion, usersNvcc } from '../setup/nvcc.mjs';

const banner = (release: string) =>
  `nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release ${release}, V${release}.88`;

/** A folder per name, each with a program `nvcc` that does what the script says. */
function compilers(t: Test, scripts: Record<string, string>) {
  const folders = Object.entries(scripts).map(([name, body]) => [
    name,
    { bin: { nvcc: `#!/bin/sh\n${body}\n` } },
  ]);
  const dir = t.testdir(Object.fromEntries(folders));
  for (const name of Object.keys(scripts)) chmodSync(join(dir, name, 'bin', 'nvcc'), 0o755);
  return (name: string) => join(dir, name, 'bin', 'nvcc');
}

const says = (release: string) => `echo "${banner(release)}"`;

t.test('the release is read from what nvcc prints', async (t) => {
  t.equal(parseVersion(banner('13.0')), '13.0');
  t.equal(parseVersion(banner('9.2')), '9.2');
  t.equal(parseVersion('nvcc: command not found'), undefined);
  t.equal(parseVersion(''), undefined);
});

t.test('12 and later are usable', async (t) => {
  for (const good of ['12.0', '12.8', '13.0', '20.1']) t.ok(isUsable(good), good);
  for (const bad of ['11.8', '9.2', undefined]) t.notOk(isUsable(bad), bad ?? 'none');
});

t.test('NVCC comes first', async (t) => {
  const at = compilers(t, { named: says('12.4'), path: says('13.0'), usual: says('13.1') });
  const env = { NVCC: at('named'), PATH: join(at('path'), '..') };
  t.match(await usersNvcc(env, at('usual')), {
    path: at('named'),
    version: '12.4',
    home: join(at('named'), '../..'),
  });
});

t.test('then PATH, then the usual place', async (t) => {
  const at = compilers(t, { path: says('13.0'), usual: says('13.1') });
  const env = { PATH: join(at('path'), '..') };
  t.match(await usersNvcc(env, at('usual')), { path: at('path') });
  t.match(await usersNvcc({ PATH: '' }, at('usual')), { path: at('usual') });
  t.equal(await usersNvcc({ PATH: '' }, join(at('usual'), 'none')), undefined);
});

t.test('one that is too old or broken is passed over', async (t) => {
  const at = compilers(t, { path: says('11.8'), usual: says('12.2'), broken: 'exit 1' });
  const env = { PATH: join(at('path'), '..') };
  t.match(await usersNvcc(env, at('usual')), { path: at('usual') });
  t.equal(await usersNvcc(env, at('broken')), undefined);
});

t.test('one that was named but cannot be used is an error, not passed over', async (t) => {
  const at = compilers(t, { old: says('11.8'), broken: 'exit 1' });
  const named = (path: string) => usersNvcc({ NVCC: path, PATH: '' }, '');
  await t.rejects(named(at('old')), { message: /is nvcc 11\.8; need nvcc >= 12/ });
  await t.rejects(named(at('broken')), { message: /is not a working nvcc; need/ });
  await t.rejects(named('/nowhere/nvcc'), {
    message: /NVCC=\/nowhere\/nvcc is not a working nvcc/,
  });
});
