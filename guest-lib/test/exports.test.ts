// What libcuda.so.1 shows of itself to programs and to the dynamic linker.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { readFacts } from '../../proto/generator/facts.js';
import { guestLibrary, root } from '../../test/support/paths.js';

function output(command: string, ...args: string[]): string[] {
  const text = execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  return text.split('\n').filter(Boolean);
}

t.test('it exports the entry points of the driver and nothing else', async (t) => {
  const { functions } = readFacts(path.join(root, 'proto', 'facts', 'cuda-13.5.json'));
  const exported = output('nm', '-D', '--defined-only', guestLibrary).map(
    (line) => line.split(' ')[2] ?? '',
  );
  t.ok(exported.length > 600);
  t.same(exported.sort(), Object.keys(functions).sort());
});

t.test('it needs the C library only, of glibc 2.17 or newer', async (t) => {
  const needed = output('readelf', '-d', guestLibrary)
    .filter((line) => line.includes('(NEEDED)'))
    .map((line) => /\[(.*)\]/.exec(line)?.[1]);
  t.same(
    needed.filter((name) => !/^(libc|libpthread|ld-linux-x86-64)\.so\.[026]$/.test(name ?? '')),
    [],
  );
  const undefinedSymbols = output('nm', '-D', '--undefined-only', guestLibrary).map((line) => {
    const [kind = '', name = ''] = line.trim().split(' ');
    return { kind, name };
  });
  const foreign = undefinedSymbols.filter(({ kind, name }) => kind === 'U' && !name.includes('@'));
  t.same(foreign, [], 'every symbol it needs has a version of glibc');
  for (const { name } of undefinedSymbols) {
    const [, version] = /@GLIBC_([0-9.]+)/.exec(name) ?? [];
    if (version === undefined) continue;
    const [, minor = ''] = version.split('.');
    t.ok(Number(minor) <= 17, name);
  }
  const asks = undefinedSymbols.map(({ name }) => name.replace(/@.*/, ''));
  t.ok(asks.includes('secure_getenv'), 'it reads the environment');
  t.notOk(asks.includes('getenv'), 'but not that of who calls a program with more rights');
});

t.test('its SONAME makes it the driver, whatever loads it', async (t) => {
  const dynamic = output('readelf', '-d', guestLibrary);
  t.match(
    dynamic.find((line) => line.includes('(SONAME)')),
    /\[libcuda\.so\.1\]/,
  );
  const flags = dynamic.filter((line) => /\((FLAGS|FLAGS_1|SYMBOLIC)\)/.test(line)).join('\n');
  t.match(flags, /SYMBOLIC/, 'calls inside are not caught by other libraries');
  t.match(flags, /NODELETE/, 'its thread may run when a program unloads it');
});

t.test('it has no constructor and no destructor of its own', async (t) => {
  const dynamic = output('readelf', '-d', guestLibrary);
  for (const kind of ['INIT_ARRAYSZ', 'FINI_ARRAYSZ']) {
    const [, size] =
      dynamic
        .map((line) => /\((.*?)\)\s+(\d+)/.exec(line))
        .find((m) => m?.[1] === kind)
        ?.slice(1) ?? [];
    t.equal(Number(size), 8, `${kind}: the compiler's own entry alone`);
  }
  t.notMatch(dynamic.join('\n'), /INITIAL_EXEC|STATIC_TLS/, 'it can be loaded late');
});
