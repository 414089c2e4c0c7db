import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const { OUTBOARD_BUILD } = process.env;
process.env['OUTBOARD_BUILD'] = t.testdirName;
const { mustRun, newLog, which } = await import('../setup/command.mjs');
const { glob } = await import('../setup/glob.mjs');
const { root } = await import('../../bin/paths.mjs');
const { runFile, runFiles } = await import('../rows/tap.mjs');

t.test('a command that fails is told with the end of its log', async (t) => {
  newLog('failing');
  const command = ['sh', '-c', 'echo first; echo second >&2; exit 3'];
  await t.rejects(mustRun('The attempt', 'failing', command), {
    name: 'SetupError',
    message:
      /^The attempt failed \(sh, exit status 3\)\.\n[\s\S]*second[\s\S]*\nWhole log: .*failing\.log$/,
  });
});

t.test('a full disk is told in one line', async (t) => {
  newLog('full');
  const command = ['sh', '-c', 'echo "x.o: No space left on device" >&2; exit 1'];
  await t.rejects(mustRun('The native build', 'full', command), {
    message: /^The native build failed: the disk is full\. .*$/,
  });
});

t.test('a command that does not exist is told by name', async (t) => {
  newLog('absent');
  await t.rejects(mustRun('It', 'absent', ['/no/such/program']), {
    message: /^cannot run \/no\/such\/program: /,
  });
});

t.test('which', async (t) => {
  t.equal(which('sh', '/nowhere::/bin'), '/bin/sh');
  t.equal(which('no-such-command-here'), undefined);
});

t.test('glob', async (t) => {
  const dir = t.testdir({ a1: { x: '' }, a2: { x: '', 'y.c': '' }, b: { x: '' }, 'a.c': '' });
  t.same(glob(`${dir}/a*/x`), [`${dir}/a1/x`, `${dir}/a2/x`]);
  t.same(glob(`${dir}/*/y.c`), [`${dir}/a2/y.c`]);
  t.same(glob(`${dir}/a.*`), [`${dir}/a.c`], 'a dot is a dot');
  t.same(glob(`${dir}/none/*`), []);
});

t.test('a test file that stops early fails, whatever it passed before', async (t) => {
  const dir = t.testdir({
    'good.test.mjs': `import t from 'tap'; t.test('one', async (t) => { t.ok(true); });`,
    'crash.test.mjs': `import t from 'tap'; t.ok(true); await t.end(); process.exit(7);`,
    'none.test.mjs': `import t from 'tap'; t.end();`,
    'syntax.test.mjs': 'this is not JavaScript',
    'bail.test.mjs': `import t from 'tap'; t.ok(true); t.bailout('no device');`,
  });
  const run = (name: string) => runFile(join(dir, `${name}.test.mjs`), process.env);
  t.match(await run('good'), { passed: 1, failures: [] });
  t.match(await run('crash'), { failures: [{ detail: /ended with 7 although no test failed/ }] });
  t.match(await run('none'), { passed: 0, failures: [{ detail: /./ }] });
  t.match(await run('syntax'), { passed: 0, failures: [{ detail: /./ }] });
  t.match(await run('bail'), { failures: [{ detail: /no device/ }] });
});

t.test('a file that takes too long says its last words', async (t) => {
  const dir = t.testdir({
    'hangs.test.mjs': `import t from 'tap';
      process.once('SIGTERM', () => { console.error('the server was waiting'); process.exit(143); });
      t.test('for ever', () => new Promise(() => setInterval(() => {}, 1000)));`,
    'deaf.test.mjs': `import t from 'tap';
      process.on('SIGTERM', () => {});
      t.test('for ever', () => new Promise(() => setInterval(() => {}, 1000)));`,
  });
  const run = (name: string) =>
    runFile(join(dir, `${name}.test.mjs`), process.env, { minutes: 0.05, secondsMore: 1 });
  const told = async (name: string) =>
    (await run(name)).failures.map(({ detail }) => detail).join('\n');
  t.match(await told('hangs'), /without an end\nthe server was waiting\n[\s\S]*Repeat: /);
  t.match(await told('deaf'), /without an end\n/);
});

t.test('what fails once and passes alone is unsteady', async (t) => {
  const dir = t.testdir({
    'once.test.mjs': `import { existsSync, writeFileSync } from 'node:fs';
      import t from 'tap';
      const mark = new URL('mark', import.meta.url);
      t.test('second', async (t) => t.ok(existsSync(mark), 'was there'));
      t.test('always', async (t) => t.ok(true));
      writeFileSync(mark, '');`,
    'bad.test.mjs': `import t from 'tap'; t.test('bad', async (t) => { t.ok(false); });`,
    'alone.test.mjs': `import t from 'tap'; t.test('alone', async (t) => { t.ok(true); });`,
  });
  const tests = ['once', 'bad', 'alone'].map((name) => ({
    file: join(dir, `${name}.test.mjs`),
    source: `${name}.test.ts`,
    nightly: false,
    alone: name === 'alone',
  }));
  const row = await runFiles(tests, process.env);
  t.match(row, {
    passed: 3,
    failures: [{ name: /bad/ }],
    unsteady: [{ name: 'once.test.ts', detail: /second/ }],
  });
  t.same(row.times.map(({ name }) => name).sort(), [
    'alone.test.ts',
    'bad.test.ts',
    'once.test.ts',
  ]);
  t.equal(row.times.at(-1)?.name, 'alone.test.ts', 'after all others');
});

t.test('npm test ends with the count even when it cannot start', async (t) => {
  for (const args of [
    ['--only', 'nonsense'],
    ['--nonsense'],
    ['('],
    ['a', 'b'],
    ['--times', '0'],
    ['--busy', 'x'],
  ]) {
    const result = spawnSync(process.execPath, [join(root, 'scripts', 'test.mjs'), ...args], {
      encoding: 'utf8',
    });
    t.equal(result.status, 1, args.join(' '));
    t.equal(result.stdout, '0 passed, 1 failed\n');
    t.match(result.stderr, /\S/);
    t.notMatch(result.stderr, / at .*\.mjs:\d+/, 'a sentence, not a stack trace');
  }
});

t.test('npm test tells what it can be told, and of a pattern that matches nothing', async (t) => {
  const npmTest = (...args: string[]) =>
    spawnSync(process.execPath, [join(root, 'scripts', 'test.mjs'), ...args], {
      encoding: 'utf8',
      // The build that is there: what is looked for in it is names only.
      env: { ...process.env, OUTBOARD_BUILD },
    });
  const help = npmTest('--help');
  t.match(help, { status: 0, stderr: '', stdout: /PATTERN[\s\S]*\n {2}lint [\s\S]*\n {2}tsan / });
  t.notMatch(help.stdout, /\d+ passed/);
  for (const row of ['tap', 'ctest', 'tap,ctest', 'lint']) {
    const { status, stdout, stderr } = npmTest('--only', row, 'no-such-thing');
    t.same([status, stdout], [1, '0 passed, 1 failed\n'], `nothing is built for ${row}`);
    t.match(stderr, /^\nNo test matches \/no-such-thing\/: /);
  }
});

t.test('the sources of tests are those of the compiled ones', async (t) => {
  const { testSources } = await import('../rows/sources.mjs');
  const here = relative(root, fileURLToPath(import.meta.url)).replace(/^.*?js\/(.*)js$/, '$1ts');
  t.ok(testSources().includes(here), here);
  const script = `import { compiledTests } from ${JSON.stringify(join(root, 'scripts/rows/sources.mjs'))};
    console.log(JSON.stringify(compiledTests().map((file) => file.replace(/^.*?[/]js[/](.*)js$/, '$1ts'))));`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
    env: { ...process.env, OUTBOARD_BUILD },
  });
  const missing = JSON.parse(stdout).filter((source: string) => !testSources().includes(source));
  t.same(missing, []);
});

t.test('npm run bench names its suites where there is none of that name', async (t) => {
  const script = join(root, 'scripts', 'bench.mjs');
  const result = spawnSync(process.execPath, [script, 'nonsense'], { encoding: 'utf8' });
  t.equal(result.status, 1);
  t.match(result.stderr, /no suite nonsense\. .*\bagent, .*\bquota, tls, uploads;/);
  const page = readFileSync(join(root, 'bench', 'README.md'), 'utf8');
  const [, names = ''] = /where SUITE is one of ([a-z, ]+);/.exec(result.stderr) ?? [];
  for (const name of names.split(', ')) t.match(page, `\`npm run bench -- ${name}`);
});

t.test('the lock file holds for every platform and every registry', async (t) => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  for (const [path, entry] of Object.entries<Record<string, unknown>>(lock.packages)) {
    t.equal(entry['resolved'], undefined, `${path} names no registry`);
    if (path !== '') t.type(entry['integrity'], 'string', `${path} has a checksum`);
    // npm 11 refuses a lock that leaves out other platforms' packages; npm leaves them out when the
    // registry in use does not carry them.
    for (const name of Object.keys(entry['optionalDependencies'] ?? {})) {
      const found = [`${path}/node_modules/${name}`, `node_modules/${name}`];
      t.ok(
        found.some((place) => place in lock.packages),
        `${name}, optional for ${path}`,
      );
    }
  }
});
