import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { root } from '../../bin/paths.mjs';

const setup = path.join(root, 'scripts', 'setup');
const { isRecent } = await import(path.join(setup, 'tls.mjs'));

t.test('which cargo will do', async (t) => {
  t.ok(isRecent('cargo 1.71.0 (cfd3bbd8f 2023-06-08)\n'));
  t.ok(isRecent('cargo 2.0.0\n'));
  t.notOk(isRecent('cargo 1.70.1\n'), 'older than what the crates ask for');
  t.notOk(isRecent('cargo 0.66.0\n'));
  t.notOk(isRecent('error: no default toolchain\n'));
});

t.test('without cargo TLS is left out, which is said once', async (t) => {
  const folder = t.testdir({});
  const script = `
    const { ensureTls } = await import(${JSON.stringify(path.join(setup, 'tls.mjs'))});
    const { step } = await import(${JSON.stringify(path.join(setup, 'step.mjs'))});
    await step('TLS', ensureTls);
  `;
  const setUp = () =>
    execFileSync(process.execPath, ['--input-type=module', '-e', script], {
      env: { PATH: '/nowhere', OUTBOARD_BUILD: folder },
      encoding: 'utf8',
    });
  t.match(setUp(), /^TLS \(left out: there is no cargo >= 1\.71\) \.\.\. /);
  t.equal(setUp(), '');
  t.notOk(existsSync(path.join(folder, 'tls', 'liboutboard_tls.a')));
});
