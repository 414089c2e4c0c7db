import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

// The logs of what is run here must not replace those of the set-up that runs this test.
process.env['OUTBOARD_BUILD'] = t.testdirName;
const { ensurePackages, isPresent, missingMessage, missingPackages } = await import(
  '../setup/debian.mjs'
);
const { packages } = await import('../setup/packages.mjs');

const empty = { path: '', includes: [], files: () => false, uid: 1000 };
const everything = ['build', 'test', 'night', 'nvcc'] as const;

t.test('every package can be looked for and says why it is needed', async (t) => {
  t.same(missingPackages([...everything], empty), packages);
  for (const { name, why } of packages) t.ok(why.length > 5, name);
});

t.test('only the packages for the purpose are asked for', async (t) => {
  const purposes = missingPackages(['build'], empty).map(({ neededFor }) => neededFor);
  t.same([...new Set(purposes)], ['build']);
});

t.test('a package is there when all its parts are', async (t) => {
  const dir = t.testdir({ bin: { tool: '' }, include: { 'a.h': '' } });
  const bin = join(dir, 'bin');
  const system = { ...empty, path: bin, includes: [join(dir, 'include')] };
  const tool = { name: 'x', why: 'y', neededFor: 'build' as const, commands: ['tool'] };
  t.notOk(isPresent(tool, system), 'a file that cannot be executed is no command');
  chmodSync(join(bin, 'tool'), 0o755);
  t.ok(isPresent(tool, system));
  t.notOk(isPresent({ ...tool, commands: ['tool', 'other'] }, system));
  t.ok(isPresent({ ...tool, headers: ['a.h'] }, system));
  t.notOk(isPresent({ ...tool, headers: ['a.h', 'b.h'] }, system));
  t.notOk(isPresent({ ...tool, files: ['/lib/*.a'] }, system));
  const matching = { ...system, files: (pattern: string) => pattern === '/lib/*.a' };
  t.ok(isPresent({ ...tool, files: ['/other', '/lib/*.a'] }, matching), 'one pattern is enough');
});

t.test('an ordinary user gets one message with the packages and the command', async (t) => {
  const dir = t.testdir({ 'apt-get': '#!/bin/sh\nexit 1\n' });
  chmodSync(join(dir, 'apt-get'), 0o755);
  const begin = () => t.fail('nothing may be begun');
  await t.rejects(ensurePackages(begin, ['build'], { ...empty, path: dir }), {
    name: 'SetupError',
    message:
      /not installed here[\s\S]*\n {2}ninja-build +runs the native build\n[\s\S]*sudo apt-get install build-essential cmake ninja-build libzstd-dev [a-z0-9 -]+$/,
  });
});

t.test('a single missing package is told in the singular', async (t) => {
  const one = packages.filter(({ name }) => name === 'cmake');
  t.equal(
    missingMessage(one, true),
    [
      'Outboard needs a Debian package that is not installed here:',
      '',
      '  cmake  configures the native build',
      '',
      'Install it, then give the same command again:',
      '',
      '  sudo apt-get install cmake',
    ].join('\n'),
  );
});

t.test('without apt the message names commands and headers', async (t) => {
  await t.rejects(
    ensurePackages(() => {}, ['build'], { ...empty, uid: 0 }),
    {
      message:
        /not a Debian[\s\S]*build-essential +command gcc, command g\+\+, [\s\S]*header zstd\.h: unpacks/,
    },
  );
});

t.test('as root what is missing is installed, after one update', async (t) => {
  const dir = t.testdir({
    bin: {
      // Stands in for apt-get: notes how it was called, and "installs" the command.
      'apt-get': `#!/bin/sh
here=\${0%/bin/apt-get}
echo "$*" >> "$here/calls"
[ "$1" = install ] && : > "$here/bin/clang-format" && /bin/chmod +x "$here/bin/clang-format"
exit 0
`,
    },
  });
  const path = join(dir, 'bin');
  chmodSync(join(path, 'apt-get'), 0o755);
  const present = { ...empty, path, includes: [], files: () => true, uid: 0 };
  const wanted = missingPackages(['test'], present).map(({ name }) => name);
  t.ok(wanted.includes('clang-format'));
  const begun: unknown[] = [];
  await t.rejects(
    ensurePackages((detail) => begun.push(detail), ['test'], present),
    { message: /yet their content was not found/ },
    'the stand-in installs one of several, and that is noticed',
  );
  t.same(begun, [wanted.join(' ')]);
  t.same(readFileSync(join(dir, 'calls'), 'utf8').trimEnd().split('\n'), [
    'update -q',
    `install -q -y --no-install-recommends ${wanted.join(' ')}`,
  ]);
  t.notOk(missingPackages(['test'], present).some(({ name }) => name === 'clang-format'));
});

t.test('an apt-get that fails is shown with its log', async (t) => {
  const dir = t.testdir({ 'apt-get': '#!/bin/sh\necho no such mirror >&2\nexit 100\n' });
  chmodSync(join(dir, 'apt-get'), 0o755);
  await t.rejects(
    ensurePackages(() => {}, ['build'], { ...empty, path: dir, uid: 0 }),
    {
      message:
        /^apt-get update failed \(apt-get, exit status 100\)\.\n[\s\S]*no such mirror\nWhole log: .*debian\.log$/,
    },
  );
});
