// What libnvidia-ml.so.1 shows of itself to programs and to the dynamic linker.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { nvmlSymbols } from '../../proto/generator/emit-nvml.js';
import { readNvmlApi, readNvmlFacts } from '../../proto/generator/nvml-api.js';
import { nvmlLibrary, root } from '../../test/support/paths.js';

function output(command: string, ...args: string[]): string[] {
  const text = execFileSync(command, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
  return text.split('\n').filter(Boolean);
}

t.test('it exports the functions of NVML and nothing else', async (t) => {
  const facts = readNvmlFacts(path.join(root, 'proto', 'facts', 'nvml-13.5.json'));
  readNvmlApi(path.join(root, 'proto', 'api-nvml'), facts);
  const exported = output('nm', '-D', '--defined-only', nvmlLibrary).map(
    (line) => line.split(' ')[2] ?? '',
  );
  t.ok(exported.length > 400);
  t.same(exported.sort(), nvmlSymbols(facts));
  t.same(
    exported.filter((name) => !name.startsWith('nvml')),
    [],
  );
});

t.test('it needs the C library only, of glibc 2.17 or newer', async (t) => {
  const needed = output('readelf', '-d', nvmlLibrary)
    .filter((line) => line.includes('(NEEDED)'))
    .map((line) => /\[(.*)\]/.exec(line)?.[1]);
  t.same(
    needed.filter((name) => name !== 'ld-linux-x86-64.so.2'),
    ['libc.so.6'],
  );
  const wanted = output('nm', '-D', '--undefined-only', nvmlLibrary).map((line) => {
    const [kind = '', name = ''] = line.trim().split(' ');
    return { kind, name };
  });
  const foreign = wanted.filter(({ kind, name }) => kind === 'U' && !name.includes('@'));
  t.same(foreign, [], 'every symbol it needs has a version of glibc');
  for (const { name } of wanted) {
    const [, minor] = /@GLIBC_2\.([0-9]+)/.exec(name) ?? [];
    if (minor !== undefined) t.ok(Number(minor) <= 17, name);
  }
  const asks = wanted.map(({ name }) => name.replace(/@.*/, ''));
  t.ok(asks.includes('secure_getenv'), 'it reads the environment');
  t.notOk(asks.includes('getenv'), 'but not that of who calls a program with more rights');
});

t.test('its SONAME makes it NVML, whatever loads it', async (t) => {
  const dynamic = output('readelf', '-d', nvmlLibrary);
  t.match(
    dynamic.find((line) => line.includes('(SONAME)')),
    /\[libnvidia-ml\.so\.1\]/,
  );
  const flags = dynamic.filter((line) => /\((FLAGS|FLAGS_1|SYMBOLIC)\)/.test(line)).join('\n');
  t.match(flags, /SYMBOLIC/, 'calls inside are not caught by other libraries');
  t.match(flags, /NODELETE/, 'a fork may run its handler after a program unloads it');
});

t.test('it has no constructor and no destructor of its own', async (t) => {
  const dynamic = output('readelf', '-d', nvmlLibrary);
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
