// The command itself: its words, its exit codes.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import t from 'tap';
import { outboard } from '../support/serving.js';

function cli(args: string[], env: NodeJS.ProcessEnv = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [outboard, ...args], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

t.test('stdout that takes nothing', async (t) => {
  const full = openSync('/dev/full', 'w');
  t.teardown(() => closeSync(full));
  for (const args of [['help', 'serve'], ['run', '--help'], ['version'], ['policies'], ['man']]) {
    const run = spawnSync(process.execPath, [outboard, ...args], {
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    t.match(run, { status: 3, stderr: /^outboard: cannot write to stdout: .*\n$/ }, args.join(' '));
    const gone = spawn(process.execPath, [outboard, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    gone.stdout.destroy();
    let said = '';
    gone.stderr.on('data', (text) => {
      said += text;
    });
    const [status] = await once(gone, 'close');
    t.same({ status, said }, { status: 0, said: '' }, args.join(' '));
  }
});

t.test('a policy is explained, wherever it runs', async (t) => {
  const about = (name: string) => cli(['policies', name]).stdout.split('\n');
  const [title, good, chosen, ...more] = about('pack');
  t.match(title, /^placement pack \(live\): the GPU of whose time the most is promised/);
  t.match(good, /^ {2}For sessions with promised shares .*, so that some stay empty/);
  t.same([chosen, ...more], ['  chosen with: outboard serve --placement pack', '']);
  const dilu = about('dilu').join('\n');
  t.match(dilu, /^placement dilu \(live\)(.|\n)* --placement dilu\n(.|\n)*^placement dilu \(sim/m);
  t.match(dilu, /\(simulated\).*\n {2}from Dilu, /);
  t.notMatch(about('drain').join('\n'), /chosen with/, 'it is not: an operator empties a GPU');
});

t.test('version and help', async (t) => {
  t.match(cli(['version']), { status: 0, stdout: /^outboard \d+\.\d+\.\d+, protocol \d+\n$/ });
  t.same(cli(['--version']), cli(['version']));
  const overview = cli(['help']);
  t.match(overview, { status: 0, stderr: '' });
  for (const name of ['serve', 'run', 'version', 'help']) {
    t.match(overview.stdout, new RegExp(`^  ${name} +\\S`, 'm'));
    const page = cli(['help', name]);
    t.match(page, { status: 0, stdout: `Usage: outboard ${name}` });
    t.same(cli([name, '--help']), page);
  }
  t.match(cli(['help', 'serve']).stdout, /OUTBOARD_SERVERS_PER_GPU/);
  t.match(cli(['help', 'run']).stdout, /20 alone is 20:20/);
});

t.test('wrong usage is 2, and says what is right', async (t) => {
  const wrong: [string[], RegExp, NodeJS.ProcessEnv?][] = [
    [[], /^outboard: no command\nCommands: serve, run, .*help\n$/],
    [['sreve'], /no command sreve; did you mean serve\?\nCommands: serve/],
    [['x'], /no command x\nCommands: serve/],
    [['help', 'sreve'], /no command sreve; there are serve, run/],
    [['version', '--x'], /Unknown option '--x'/],
    [['serve', 'now'], /Unexpected argument 'now'/],
    [['serve', '--listen', '4460'], /--listen 4460 is not understood: expected HOST:PORT/],
    [['serve'], /OUTBOARD_LISTEN=x is not understood: expected HOST/, { OUTBOARD_LISTEN: 'x' }],
    [['serve', '--network-timeout', '0'], /--network-timeout 0 .* seconds from 1 to 3600/],
    [
      ['serve'],
      /OUTBOARD_NETWORK_TIMEOUT=10s .* seconds from 1 to 3600/,
      { OUTBOARD_NETWORK_TIMEOUT: '10s' },
    ],
    [['serve', '--gpus', '0'], /--gpus 0 .* how many GPUs, from 1 to 64/],
    [['serve', '--servers-per-gpu', 'x'], /--servers-per-gpu x .* from 1 to 64/],
    [['serve', '--log-level', 'loud'], /--log-level loud .* one of fatal, error/],
    [['run'], /no program to run/],
    [['run', '--memroy', '4G', 'true'], /Unknown option '--memroy'; did you mean --memory\?/],
    [
      ['run', '--token-file', '/no/such', 'true'],
      /--token-file \/no\/such cannot be read: there is no/,
    ],
    [['doctor', '--token-file', '/no/such'], /--token-file \/no\/such cannot be read: there is no/],
    [['run', 'true'], /OUTBOARD_TOKEN_FILE=\/tmp is a folder/, { OUTBOARD_TOKEN_FILE: '/tmp' }],
    [['run', '--memory', '4XB', 'true'], /--memory 4XB .* as in 4G/],
    [['run', 'true'], /OUTBOARD_SHARE=101 .* percent/, { OUTBOARD_SHARE: '101' }],
    [['run', '--log', 'x', 'true'], /--log x .* off, error/],
  ];
  for (const [args, stderr, env] of wrong) {
    t.match(cli(args, env), { status: 2, stdout: '', stderr }, args.join(' '));
  }
  t.match(cli(['serve', '--x']).stderr, /\nSee: outboard help serve\n$/);
});

t.test('what cannot start is 3, with a code and a remedy', async (t) => {
  const nothing = t.testdir();
  t.match(cli(['serve', '--build', nothing]), {
    status: 3,
    stderr: /OB_NOT_BUILT.*npm run build.*executor\.node does not exist/,
  });
  t.match(cli(['run', '--build', nothing, 'true']), {
    status: 3,
    stderr: `outboard: ${path.join(nothing, 'guest-lib', 'libcuda.so.1')} does not exist (OB_NOT_BUILT)\nRun \`npm run build\``,
  });
  t.match(cli(['serve', '--device', '/nonexistent/libcuda.so.1']), {
    status: 3,
    stderr: /OB_NOT_BUILT.*\/nonexistent\/libcuda\.so\.1 does not exist/,
  });
  t.match(cli(['serve', '--device', 'software'], { SOFTWARE_DEVICE_WORKERS: 'abc' }), {
    status: 3,
    stderr: /OB_SOFTWARE_DEVICE.*Correct its settings.*SOFTWARE_DEVICE_WORKERS/,
  });
  t.match(cli(['serve', '--device', process.execPath]), { status: 3, stderr: /OB_DRIVER_LIBRARY/ });
});

t.test('a port that is taken', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const args = ['serve', '--device', 'software', '--listen', `127.0.0.1:${port}`];
  t.match(cli(args), { status: 3, stdout: '', stderr: /OB_LISTEN.*EADDRINUSE/ });
});
