// The Debian package: what is in it, and that what it installs works and goes away again.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t from 'tap';
import { listPrograms } from '../../../examples/build.mjs';
import { which } from '../../../scripts/setup/command.mjs';
import { apart } from '../../../scripts/setup/programs.mjs';
import { build, noPrograms, root } from '../../support/paths.js';
import { isRoot, Machine, mustRun, noTools, run } from '../machine.js';

const { version, dependencies, devDependencies } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);
const skip = noTools || false;
const noRoot = skip || (isRoot ? false : 'not root: the package is unpacked, not installed');

const machine = new Machine();
const tree = machine.path('usr', 'lib', 'outboard');
const command = machine.path('usr', 'bin', 'outboard');
// Without what would lead the installed command to the checkout.
const env = { PATH: process.env['PATH'] ?? '', HOME: machine.folder };
let deb = '';
let inputs = '';

t.before(async () => {
  if (skip) return;
  inputs = fingerprint();
  deb = await packaged('first');
  await machine.install(deb);
});
t.teardown(() => machine.remove());

async function packaged(name: string, umask = '022'): Promise<string> {
  const out = path.join(machine.folder, name);
  const script = path.join(root, 'scripts', 'package-deb.mjs');
  const line = `umask ${umask} && exec "$0" "$@"`;
  const argv = ['sh', '-c', line, process.execPath, script, '--no-build', '--out', out];
  await mustRun(argv, { env: { ...env, OUTBOARD_BUILD: build, TZ: `${name}+5` } });
  const [file = ''] = readdirSync(out).filter((entry) => /^outboard_.*\.deb$/.test(entry));
  return path.join(out, file);
}

/** Of what is packaged: somebody may build while this test runs. */
function fingerprint(): string {
  const parts = [
    'js/monitor',
    'js/api-server',
    'web',
    'guest-lib',
    'libraries',
    'software-device',
    'api-server',
  ];
  const folders = parts
    .map((part) => path.join(part.startsWith('js/') ? path.join(root, 'build') : build, part))
    .filter(existsSync);
  return [...folders, path.join(root, 'deploy')]
    .flatMap((folder) => [...walk(folder)])
    .map((file) => `${file} ${statSync(file, { throwIfNoEntry: false })?.mtimeMs}\n`)
    .join('');
}

function* walk(folder: string): Generator<string> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) yield* walk(file);
    else yield file;
  }
}

const notAtNight = !process.env['NIGHTLY'] && 'only at night: a second package is made';

t.test('name, version and needs', { skip }, async (t) => {
  const architecture = (await mustRun(['dpkg', '--print-architecture'])).trim();
  t.equal(path.basename(deb), `outboard_${version}_${architecture}.deb`);
  const fields = await mustRun(['dpkg-deb', '-f', deb]);
  t.match(fields, new RegExp(`^Version: ${version.replaceAll('.', '\\.')}$`, 'm'));
  const [, depends = ''] = /^Depends: (.*)$/m.exec(fields) ?? [];
  for (const needed of ['nodejs (>= 20.19)', 'systemd-sysusers', 'libc6 (>= ', 'libstdc++6 (>= ']) {
    t.ok(depends.includes(needed), `${needed} in ${depends}`);
  }
  t.notMatch(fields, /\$\{/, 'nothing is left to fill in');
});

t.test('everything belongs to root, and nobody else may write', { skip }, async (t) => {
  const listing = (await mustRun(['dpkg-deb', '-c', deb])).trim().split('\n');
  t.ok(listing.length > 100);
  t.same(
    listing.filter((line) => !/^(?:[-d]rw[-x]r-[-x]r-[-x] |lrwxrwxrwx )root\/root /.test(line)),
    [],
  );
});

t.test('the same sources give the same package', { skip: skip || notAtNight }, async (t) => {
  const again = await packaged('second', '077');
  const built = fingerprint() !== inputs && 'built anew meanwhile: nothing to compare';
  const same = readFileSync(again).equals(readFileSync(deb));
  t.ok(same, 'with another umask and time zone', { skip: built });
});

t.test('what runs is there, and nothing else', { skip }, async (t) => {
  const all = [...walk(tree)].map((file) => path.relative(tree, file));
  const [ours, others] = [true, false].map((ours) =>
    all.filter((file) => file.startsWith('node_modules/') !== ours),
  ) as [string[], string[]];
  t.same(
    ours.filter((file) => /\/test\/|\.map$|\.ts$|^build\/js\/(?:bench|examples|test)\//.test(file)),
    [],
    'no tests, no sources',
  );
  for (const file of [
    'build/api-server/executor.node',
    'build/guest-lib/libcuda.so',
    'build/guest-lib/libcuda.so.1',
    'build/guest-lib/libnvidia-ml.so',
    'build/guest-lib/libnvidia-ml.so.1',
    'build/guest-lib/outboard-probe',
    'build/libraries/libcublas.so.13',
    'build/libraries/libcublasLt.so.13',
    'build/libraries/outboard-binding.so',
    'build/software-device/keep-ptx/libnvJitLink.so.12',
    'build/software-device/keep-ptx/libnvJitLink.so.13',
    'build/software-device/libcuda.so',
    'build/software-device/libcuda.so.1',
    'build/software-device/software-device-check',
    'build/software-device/software-device-nvml.so',
    'build/programs/monitor/src/commands/main.js',
    'proto/control.proto',
  ]) {
    t.ok(ours.includes(file), file);
  }
  const built = existsSync(path.join(build, 'web', 'index.html'));
  t.equal(ours.includes('build/web/index.html'), built, 'the web page, where it is built');

  const locked: Record<string, { dev?: boolean }> = JSON.parse(
    readFileSync(path.join(root, 'package-lock.json'), 'utf8'),
  ).packages;
  const developers = Object.keys(locked).filter((name) => locked[name]?.dev);
  t.ok(developers.length > Object.keys(devDependencies).length);
  t.same(
    developers.filter((name) => existsSync(path.join(tree, name))),
    [],
    'no dependencies of developers',
  );
  t.ok(others.includes('node_modules/pino/package.json'), 'a library that loads files of its own');
  const fastify = others.filter((file) => file.startsWith('node_modules/fastify/'));
  t.same(fastify, ['node_modules/fastify/LICENSE'], 'of one in the programs, its licence');
});

t.test('no path of the machine that built it is inside', { skip }, async (t) => {
  const paths = [...new Set([root, build])].map((folder) => Buffer.from(`${folder}/`));
  const found = [...walk(machine.root)].filter((file) => {
    if (!statSync(file).isFile()) return false;
    const content = readFileSync(file);
    return paths.some((folder) => content.includes(folder));
  });
  t.same(found, []);
});

t.test('every import finds its file', { skip }, async (t) => {
  const missing: string[] = [];
  let seen = 0;
  for (const file of walk(path.join(tree, 'build', 'programs'))) {
    const text = readFileSync(file, 'utf8');
    for (const [, from = ''] of text.matchAll(/^(?:import|export)\b[^"'\n]*["']([^"']+)["'];$/gm)) {
      const name = from.split('/', from.startsWith('@') ? 2 : 1).join('/');
      // For a person at a terminal, where it is installed.
      if (isBuiltin(from) || name === 'pino-pretty') continue;
      const needed = from.startsWith('.')
        ? path.resolve(path.dirname(file), from)
        : path.join(tree, 'node_modules', name, 'package.json');
      seen++;
      if (!existsSync(needed)) missing.push(`${path.relative(tree, file)}: ${from}`);
    }
  }
  t.ok(seen > 50);
  t.same(missing, []);
});

t.test('npm packages load as they are installed', { skip }, async (t) => {
  const names = Object.keys(dependencies).filter((name) => apart.test(name));
  t.ok(names.length > 1);
  const lines = names.map((name) => `await import(${JSON.stringify(name)});`);
  const script = path.join(tree, 'loads.mjs');
  writeFileSync(script, lines.join('\n'));
  t.match(await run([process.execPath, script], { env }), { code: 0, stderr: '' });
  await mustRun(['rm', script]);
});

t.test('the command, its man page and its completion', { skip }, async (t) => {
  t.match(await mustRun([command, 'version'], { env }), `outboard ${version}, protocol `);
  const share = machine.path('usr', 'share');
  const page = await mustRun(['zcat', path.join(share, 'man', 'man1', 'outboard.1.gz')]);
  t.match(page, /^\.TH OUTBOARD 1/);
  const completion = path.join(share, 'bash-completion', 'completions', 'outboard');
  await mustRun(['bash', '-n', completion]);
  t.match(readFileSync(completion, 'utf8'), /\bserve\b/);
});

t.test('the configuration is right, and so is each of its examples', { skip }, async (t) => {
  const folder = machine.path('etc', 'outboard');
  const installed = path.join(folder, 'serve.yaml');
  const check = (file: string, ...args: string[]) =>
    run([command, 'serve', '--config', file, '--check-config', ...args], { env });
  // On no port that another server of this machine may have.
  t.match(await check(installed, '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0'), {
    code: 0,
    stdout: /^driver: software, .*\n(.*\n)*the configuration is right\n$/,
  });
  // What the examples name.
  const tenants = path.join(folder, 'tenants.yaml');
  const before = existsSync(tenants) ? readFileSync(tenants) : null;
  const [key, certificate] = ['server.key', 'server.crt'].map((one) => path.join(folder, one));
  const [runs, keeps] = ['run', 'cache'].map((one) => path.join(machine.folder, one));
  t.teardown(() => {
    if (before) writeFileSync(tenants, before);
    else rmSync(tenants, { force: true });
    for (const file of [key, certificate]) rmSync(file ?? '', { force: true });
  });
  for (const made of [runs, keeps]) mkdirSync(made ?? '', { mode: 0o700 });
  const olga = ['tenant', 'add', 'olga', '--operator', 'act', '--tenants', tenants];
  await mustRun([command, ...olga], { env });
  const files = ['-keyout', key ?? '', '-out', certificate ?? '', '-subj', '/CN=gpu1'];
  await mustRun(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...files]);
  const examples = readFileSync(installed, 'utf8').match(/^#[a-z-]+: .*$/gm) ?? [];
  t.ok(examples.length > 5);
  // A name stands once in a file; where there are two examples of it, each has its turn.
  const byName = (lines: string[]) => new Map(lines.map((line) => [line.split(':')[0], line]));
  for (const lines of [byName(examples), byName(examples.toReversed())]) {
    const file = machine.path('etc', 'outboard', 'example.yaml');
    const text = [...lines.values()]
      .map((line) => `${line.slice(1)}\n`)
      .join('')
      .replaceAll(/:446\d\b/g, ':0')
      .replaceAll('/run/outboard', runs ?? '')
      .replaceAll('/var/cache/outboard', keeps ?? '');
    writeFileSync(file, `version: v1\n${text}`);
    t.match(await check(file), { code: 0, stderr: '' }, text);
    await mustRun(['rm', file]);
  }
});

t.test('the user, and what it may read', { skip: noRoot }, async (t) => {
  const { uid, gid } = machine.user('outboard');
  t.not(uid, 0);
  for (const group of ['video', 'render']) {
    t.match(
      readFileSync(machine.path('etc', 'group'), 'utf8'),
      new RegExp(`^${group}:.*\\boutboard$`, 'm'),
    );
  }
  const tenants = machine.path('etc', 'outboard', 'tenants.yaml');
  const rights = (file: string) => {
    const { mode, uid, gid } = statSync(file);
    return { mode: mode & 0o7777, uid, gid };
  };
  t.same(rights(path.dirname(tenants)), { mode: 0o2750, uid: 0, gid });
  await mustRun([command, 'tenant', 'add', 'somebody', '--tenants', tenants], { env });
  t.same(rights(tenants), { mode: 0o640, uid: 0, gid }, 'also after a change');
});

t.test('installed once more, nothing that was changed is lost', { skip: noRoot }, async (t) => {
  const tenants = machine.path('etc', 'outboard', 'tenants.yaml');
  const before = [machine.user('outboard'), readFileSync(tenants, 'utf8')];
  await machine.install(deb);
  t.same([machine.user('outboard'), readFileSync(tenants, 'utf8')], before);
});

t.test('the installed server serves programs', { skip: skip || noPrograms }, async (t) => {
  // As the unit does it: its user, its folders, its configuration.
  const home = machine.path('var', 'lib', 'outboard');
  mkdirSync(home, { recursive: true });
  const user = isRoot ? machine.user('outboard') : null;
  if (user) chownSync(home, user.uid, user.gid);
  const server = spawn(
    command,
    [
      ...['serve', '--config', machine.path('etc', 'outboard', 'serve.yaml')],
      ...['--device', 'software', '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0'],
      ...['--servers-per-gpu', '1', '--grace', '0'],
    ],
    { ...(user ?? {}), cwd: home, env: { ...env, HOME: home }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let log = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    log += text;
  });
  const ended = once(server, 'exit');
  try {
    const { guests, page } = await addresses(server.stdout, ended, () => log);
    if (existsSync(path.join(tree, 'build', 'web'))) {
      t.match(await (await fetch(page)).text(), /<title>/, 'the web page');
    }
    for (const { name, testArgs } of listPrograms(path.join(root, 'examples'))) {
      const program = path.join(build, 'examples', name);
      const native = await run([program, ...testArgs], {
        env: { ...env, ...libraries(path.join(tree, 'build', 'software-device')) },
      });
      const argv = [command, 'run', '--server', guests, '--', program, ...testArgs];
      const remoted = await run(argv, { env: { ...env, ...libraries() } });
      t.equal(native.code, 0, `${name} natively: ${native.stderr}`);
      t.same(remoted, native, `${name} through the server`);
    }
    server.kill('SIGTERM');
    t.same(await ended, [0, null], 'it ends when told');
    const levels = log.trim().split('\n');
    t.same(
      levels.filter((line) => JSON.parse(line).level > 40),
      [],
      'its log is JSON lines, none of an error',
    );
  } finally {
    server.kill('SIGKILL');
  }
});

const activate = which('systemd-socket-activate');
const noActivation = skip || noPrograms || (activate ? false : 'no systemd-socket-activate');

t.test(
  'a socket of systemd: the first guest starts the server',
  { skip: noActivation },
  async (t) => {
    const at = (name: string) => path.join(machine.folder, name);
    const [socket, tenants, token] = [at('guests.sock'), at('tenants.yaml'), at('token')];
    const files = ['--tenants', tenants, '--token-file', token];
    await mustRun([command, 'tenant', 'add', 'guest', ...files], { env });
    const config = machine.path('etc', 'outboard', 'serve.yaml');
    const serve = [command, 'serve', '--config', config, '--tenants', tenants];
    const server = spawn(
      activate ?? '',
      [...['-l', socket], ...serve, ...['--device', 'software', '--http', 'none', '--grace', '0']],
      { env, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const ended = once(server, 'exit');
    try {
      const lines = createInterface({ input: server.stderr });
      await Promise.race([once(lines, 'line'), ended]);
      lines.resume();
      const program = path.join(build, 'examples', 'vector-add');
      const asked = [command, 'run', '--server', `unix:${socket}`, '--token-file', token];
      const remoted = await run([...asked, '--', program], { env: { ...env, ...libraries() } });
      t.match(remoted, { code: 0, stdout: / correct$/m, stderr: '' });
      server.kill('SIGTERM');
      t.same(await ended, [0, null]);
    } finally {
      server.kill('SIGKILL');
    }
  },
);

/** Where the server says that it listens. */
async function addresses(
  stdout: NodeJS.ReadableStream,
  ended: Promise<unknown[]>,
  log: () => string,
): Promise<{ guests: string; page: string }> {
  const lines = createInterface({ input: stdout });
  const found = new Promise<{ guests: string; page: string }>((resolve) => {
    let guests = '';
    lines.on('line', (line) => {
      guests = /^listening on (.+)$/.exec(line)?.[1] ?? guests;
      const page = /^operators: (.+)$/.exec(line)?.[1];
      if (page !== undefined) resolve({ guests, page });
    });
  });
  return Promise.race([
    found,
    ended.then(([code]) => Promise.reject(new Error(`the server ended with ${code}:\n${log()}`))),
  ]);
}

/** With CUDA's own shared runtime, for programs that want it. */
function libraries(...folders: string[]) {
  const cuda = process.env['CUDA_HOME'];
  if (cuda) folders.push(path.join(cuda, 'lib64'));
  return folders.length > 0 ? { LD_LIBRARY_PATH: folders.join(':') } : {};
}

t.test('purged, nothing is left but the user', { skip: noRoot }, async (t) => {
  const state = machine.path('var', 'lib', 'outboard');
  mkdirSync(state, { recursive: true });
  writeFileSync(path.join(state, 'state'), 'x');
  const tenants = machine.path('etc', 'outboard', 'tenants.yaml');

  await machine.dpkg('--remove', 'outboard');
  t.ok(existsSync(tenants) && existsSync(state), 'removal keeps configuration and state');
  t.notOk(existsSync(tree));
  await machine.dpkg('--purge', 'outboard');
  const users = ['group', 'gshadow', 'passwd', 'shadow'];
  t.same(
    [...walk(machine.root)]
      .map((file) => path.relative(machine.path('etc'), file))
      .filter((file) => !users.includes(file.replace(/-$/, '')) && file !== '.pwd.lock'),
    [],
  );
  t.equal(await mustRun(['find', machine.root, '-name', '*outboard*']), '');
});
