// What is given away runs where nothing else of ours is: the npm package with Node alone, the Debian package with
// what it depends on, and the guest's libraries with the C library.
// Run nightly: two packages are made, installed and tried; deb.test.ts looks at one for each change.
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { productionPackages } from '../../../scripts/package/tree.mjs';
import { build, noPrograms, root } from '../../support/paths.js';
import { CleanRoot, noCleanRoot } from '../clean-root.js';
import { mustRun, noTools } from '../machine.js';

const skip = noCleanRoot() || noTools || false;
const node = process.execPath;
const folder = mkdtempSync(path.join(tmpdir(), 'outboard-packages-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const env = { ...process.env, OUTBOARD_BUILD: build };

/** By the script that makes it, once for all tests. */
const made = new Map<string, Promise<string>>();

/** The file of that name that a script of the packages makes. */
async function packaged(script: string, name: RegExp): Promise<string> {
  const argv = [node, path.join(root, 'scripts', script), '--no-build', '--out', folder];
  const making = made.get(script) ?? mustRun(argv, { env });
  made.set(script, making);
  await making;
  const [file = ''] = readdirSync(folder).filter((one) => name.test(one));
  return path.join(folder, file);
}

/** With the Debian package of both sides; what it is linked with stands for the packages that it names. */
async function withPackage(): Promise<CleanRoot> {
  // env starts the command.
  const clean = new CleanRoot([node, '/usr/bin/env']);
  const deb = await packaged('package-deb.mjs', /^outboard_.*\.deb$/);
  await mustRun(['dpkg-deb', '-x', deb, clean.folder]);
  const native = clean.path('usr', 'lib', 'outboard', 'build', 'api-server');
  for (const file of readdirSync(native)) clean.addLibrariesOf(path.join(native, file));
  if (node !== '/usr/bin/node') clean.add(node, '/usr/bin/node');
  return clean;
}

/** Serves there, as `argv` does, while `use` has the address. */
async function serving(clean: CleanRoot, argv: string[], use: (address: string) => Promise<void>) {
  const server = clean.spawn([
    ...[...argv, 'serve', '--device', 'software', '--listen', '127.0.0.1:0'],
    ...['--http', 'none', '--grace', '0', '--servers-per-gpu', '1'],
  ]);
  let log = '';
  server.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const ended = once(server, 'exit');
  try {
    const lines = createInterface({ input: server.stdout as NodeJS.ReadableStream });
    const first = await Promise.race([once(lines, 'line'), ended]);
    const [, address] = /^listening on (\S+)$/.exec(String(first[0])) ?? [];
    if (address === undefined) throw new Error(`it did not start: ${first}\n${log}`);
    await use(address);
    server.kill('SIGTERM');
    t.same(await ended, [0, null], 'it ends when told');
  } finally {
    server.kill('SIGKILL');
  }
}

/** A session from end to end there, and a CUDA program where there is one. */
async function tried(t: Test, clean: CleanRoot, argv: string[], address: string) {
  const doctor = await clean.run([...argv, 'doctor', '--server', address]);
  t.equal(doctor.code, 0, `doctor: ${doctor.stdout}${doctor.stderr}`);
  if (noPrograms) return;
  clean.add(path.join(build, 'examples', 'vector-add'), '/tmp/vector-add');
  const ran = await clean.run([...argv, 'run', '--server', address, '--', '/tmp/vector-add']);
  t.match(ran, { code: 0, stdout: / correct$/m, stderr: '' });
}

t.test('the npm package runs with Node alone', { skip }, async (t) => {
  const clean = new CleanRoot([node]);
  t.teardown(() => clean.remove());
  const pack = ['npm', 'pack', '--ignore-scripts', '--json', '--pack-destination', folder, root];
  const [{ filename }] = JSON.parse(await mustRun(pack, { env }));
  const place = '/usr/lib/node_modules/outboard-gpu';
  mkdirSync(clean.path(place), { recursive: true });
  const unpack = ['tar', '-xzf', path.join(folder, filename), '--strip-components=1'];
  await mustRun([...unpack, '-C', clean.path(place)]);
  // As `npm install` lays them out; that would need the registry.
  for (const { path: one } of productionPackages())
    cpSync(path.join(root, one), clean.path(place, one), { recursive: true });
  t.notOk(existsSync(clean.path(root)), 'nothing of the checkout is there');
  const outboard = [node, `${place}/bin/outboard.mjs`];
  await serving(clean, outboard, (address) => tried(t, clean, outboard, address));
});

t.test('the Debian package runs with what it depends on', { skip }, async (t) => {
  const clean = await withPackage();
  t.teardown(() => clean.remove());
  await serving(clean, ['outboard'], (address) => tried(t, clean, ['outboard'], address));
});

const libraries = ['libcuda.so', 'libcuda.so.1', 'libnvidia-ml.so', 'libnvidia-ml.so.1'];

t.test('the libraries of the guest need the C library, and a server', { skip }, async (t) => {
  const archive = await packaged('package-guest.mjs', /^outboard-guest_.*\.tar\.gz$/);
  const deb = await packaged('package-deb.mjs', /^outboard-guest_.*\.deb$/);
  const depends = await mustRun(['dpkg-deb', '-f', deb, 'Depends']);
  t.match(depends, /^libc6 \(>= [\d.]+\)\n$/, 'it depends on nothing else');

  const server = await withPackage();
  t.teardown(() => server.remove());
  await serving(server, ['outboard'], async (address) => {
    for (const [file, unpack] of [
      [archive, ['tar', '-xzf', archive, '--strip-components=1', '-C']],
      [deb, ['dpkg-deb', '-x', deb]],
    ] as const) {
      const clean = new CleanRoot([]);
      try {
        // A program like any other, that finds libcuda.so.1 by its name.
        clean.add(path.join(build, 'guest-lib', 'outboard-probe'), '/usr/bin/probe');
        const inArchive = file === archive;
        const place = inArchive ? '/opt/outboard-guest' : '/usr/lib/outboard-guest';
        mkdirSync(clean.path(place), { recursive: true });
        await mustRun([...unpack, inArchive ? clean.path(place) : clean.folder]);
        const found = readdirSync(clean.path(place)).filter((name) => name.includes('.so'));
        t.same(found.sort(), libraries);
        const sizes = libraries.map((name) => statSync(clean.path(place, name)).size);
        const bytes = sizes.reduce((sum, size) => sum + size, 0);
        t.ok(bytes < 4_000_000, `${bytes} bytes`);
        for (const name of libraries.filter((one) => one.endsWith('.1')))
          clean.addLibrariesOf(clean.path(place, name));
        const ran = await clean.run(['/usr/bin/probe'], {
          OUTBOARD_SERVER: address,
          LD_LIBRARY_PATH: place,
        });
        t.equal(ran.code, 0, `${path.basename(file)}: ${ran.stdout}${ran.stderr}`);
      } finally {
        clean.remove();
      }
    }
  });
});
