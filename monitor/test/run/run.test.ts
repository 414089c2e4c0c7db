// `outboard run`: the program's environment, its exit code, its signals.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { guestEnvironment } from '../../src/commands/run.js';
import { outboard } from '../support/serving.js';

const guestLib = path.join(build, 'guest-lib');
const library = path.join(guestLib, 'libcuda.so.1');

function run(args: string[], env: NodeJS.ProcessEnv = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [outboard, 'run', ...args], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
    input: 'what stdin says\n',
  });
  return { status, stdout, stderr };
}

t.test('the program keeps its streams, arguments and exit code', async (t) => {
  const script = 'read line; echo "$line, $1"; echo to stderr >&2; exit 7';
  t.same(run(['--', 'sh', '-c', script, 'sh', '--memory']), {
    status: 7,
    stdout: 'what stdin says, --memory\n',
    stderr: 'to stderr\n',
  });
  t.equal(run(['true']).status, 0);
});

t.test('the environment it gets', async (t) => {
  const show = ['env'];
  const settings = ['--server', 'gpu1:1', '--memory', '1G', '--share', '20:50', '--log', 'warn'];
  const env = {
    OUTBOARD_TOKEN: 'x',
    OUTBOARD_GPUS: '1',
    OUTBOARD_MEMORY: '3G',
    LD_LIBRARY_PATH: '/elsewhere',
  };
  const token = path.join(t.testdir({ token: 'secret\n' }), 'token');
  const who = [
    '--token-file',
    path.relative('', token),
    '--name',
    'resize images',
    '--class',
    'best-effort',
  ];
  const { stdout } = run([...settings, ...who, '--stats-file', 'stats', ...show], env);
  const lines = stdout.split('\n');
  for (const line of [
    `LD_PRELOAD=${library}`,
    `LD_LIBRARY_PATH=${guestLib}:/elsewhere`,
    'OUTBOARD_SERVER=gpu1:1',
    'OUTBOARD_GPUS=1',
    'OUTBOARD_MEMORY=1073741824',
    'OUTBOARD_SHARE=20:50',
    'OUTBOARD_LOG=warn',
    `OUTBOARD_TOKEN_FILE=${token}`,
    'OUTBOARD_NAME=resize images',
    'OUTBOARD_CLASS=best-effort',
    `OUTBOARD_STATS=${path.resolve('stats')}`,
  ]) {
    t.ok(lines.includes(line), line);
  }
  t.ok(lines.includes('OUTBOARD_TOKEN='), 'the file goes before a token in the environment');
  const usual = run(show, { OUTBOARD_TOKEN: 'kept' }).stdout;
  t.match(usual, /^OUTBOARD_TOKEN=kept$/m);
  t.match(usual, /^OUTBOARD_SERVER=127\.0\.0\.1:4460$/m);
  t.notMatch(usual, /^OUTBOARD_(GPUS|MEMORY|SHARE|LOG|STATS|NAME|CLASS|TOKEN_FILE)=/m);
});

t.test('a file with no access token is refused before anything runs', async (t) => {
  const folder = t.testdir({ empty: ' \n' });
  const empty = path.join(folder, 'empty');
  const said = { status: 2, stdout: '' };
  t.match(run(['--token-file', empty, 'echo', 'ran']), {
    ...said,
    stderr: `outboard: --token-file ${empty} is empty: it holds no access token\n`,
  });
  const variable = { OUTBOARD_TOKEN_FILE: empty };
  t.match(run(['echo', 'ran'], variable), {
    ...said,
    stderr: `outboard: OUTBOARD_TOKEN_FILE=${empty} is empty: it holds no access token\n`,
  });
  t.match(run(['echo', 'ran'], { ...variable, OUTBOARD_TOKEN: 'x' }), {
    status: 0,
    stdout: 'ran\n',
    stderr: '',
  });
  t.match(run(['--token-file', '/dev/null', 'echo', 'ran']), { status: 0 }, 'it is no file');
});

t.test('a library that is preloaded already stays, behind ours', async (t) => {
  const env = guestEnvironment(build, { LD_PRELOAD: '/lib/other.so' }, {});
  t.equal(env['LD_PRELOAD'], `${library}:/lib/other.so`);
});

t.test('a path that the loader cannot preload', async (t) => {
  const folder = t.testdir({ 'a b': { 'guest-lib': { 'libcuda.so.1': '' } } });
  t.throws(() => guestEnvironment(path.join(folder, 'a b'), {}, {}), { code: 'OB_PRELOAD_PATH' });
});

t.test('programs that are not there, or not programs', async (t) => {
  const file = path.join(t.testdir(), 'file');
  writeFileSync(file, '#!/bin/sh\n');
  chmodSync(file, 0o644);
  t.match(run(['no-such-program-at-all']), {
    status: 127,
    stderr: 'outboard: cannot run no-such-program-at-all: there is no such program\n',
  });
  t.match(run([file]), {
    status: 126,
    stderr: `outboard: cannot run ${file}: it is not executable, or not by this user\n`,
  });
  t.match(run([path.dirname(file)]), { status: 126, stderr: /cannot run .*: it is a folder\n$/ });
});

t.test('128+N for the signal that ended it', async (t) => {
  t.equal(run(['sh', '-c', 'kill -KILL $$']).status, 137);
  t.equal(run(['sh', '-c', 'kill -SEGV $$']).status, 139);
});

t.test('signals are passed on', async (t) => {
  // Says when it is ready, then which signal came.
  const script = `
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2', 'SIGWINCH'])
      process.on(signal, () => { console.log(signal); process.exit(9); });
    setInterval(() => {}, 1000);
    console.log('ready');`;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2', 'SIGWINCH'] as const) {
    const child = spawn(process.execPath, [outboard, 'run', process.execPath, '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      // No terminal: the signal reaches the command alone.
      detached: true,
    });
    // It may end in the moment that its last line comes.
    const ended = once(child, 'exit');
    t.equal(await line(child), 'ready');
    child.kill(signal);
    t.equal(await line(child), signal);
    t.same(await ended, [9, null]);
  }
});

/** The next thing it prints. */
async function line(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('no stdout');
  const [chunk] = await once(child.stdout, 'data');
  return String(chunk).trim();
}
