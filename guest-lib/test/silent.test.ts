// LD_PRELOAD puts the library into every process that is started: nobody may notice it there.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { guestLibrary } from '../../test/support/paths.js';
import { scriptedServer } from './support/scripted-server.js';

interface Said {
  stdout: string;
  stderr: string;
  code: number | null;
}

async function run(command: string[], env: Record<string, string>): Promise<Said> {
  const [program = '', ...args] = command;
  const child = spawn(program, args, { env: { PATH: process.env['PATH'], ...env } });
  const said = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.stderr += text;
  });
  const [code] = await once(child, 'close');
  return { ...said, code };
}

t.test('programs that make no CUDA call', async (t) => {
  const folder = t.testdir();
  const server = await scriptedServer(() => {});
  t.teardown(() => server.stop());
  const log = path.join(folder, 'log');
  const stats = path.join(folder, 'stats');
  const preload = {
    LD_PRELOAD: guestLibrary,
    OUTBOARD_SERVER: server.address,
    OUTBOARD_LOG: `trace:${log}`,
    OUTBOARD_STATS: stats,
  };
  const script = 'ls / | head -1 >&2; (exit 3); echo $?';

  t.same(await run(['true'], preload), { stdout: '', stderr: '', code: 0 });
  t.same(await run(['sh', '-c', script], preload), await run(['sh', '-c', script], {}));

  // The same threads, files and address space as without it, but for the library itself.
  const state = 'grep Threads: /proc/self/status; ls -l /proc/self/fd | grep -c socket';
  t.same(await run(['sh', '-c', state], preload), await run(['sh', '-c', state], {}));
  const { stdout: maps } = await run(['cat', '/proc/self/maps'], preload);
  t.match(maps, guestLibrary, 'it was loaded');
  const sizes = maps
    .split('\n')
    .map((line) => /^([0-9a-f]+)-([0-9a-f]+) /.exec(line))
    .map((m) => (m ? BigInt(`0x${m[2]}`) - BigInt(`0x${m[1]}`) : 0n));
  t.ok(
    sizes.every((size) => size < 1n << 32n),
    'no address window',
  );

  t.equal(server.connections(), 0, 'nobody connected');
  t.notOk(existsSync(log), 'no log');
  t.notOk(existsSync(stats), 'no counters');
});

/** Why system calls cannot be watched here, or false. */
const unwatched = (() => {
  try {
    execFileSync('strace', ['-qq', '-o', '/dev/null', 'true'], { stdio: 'pipe' });
    return false;
  } catch (error) {
    const { code, stderr } = error as { code?: string; stderr?: Buffer };
    if (code === 'ENOENT') return 'strace is not installed';
    return `strace cannot trace here: ${String(stderr).trim()}`;
  }
})();

t.test('not a single system call of its own', { skip: unwatched }, async (t) => {
  const file = path.join(t.testdir(), 'trace');
  const calls = async (command: string[], preload: Record<string, string>) => {
    const only = 'trace=network,clone,clone3,eventfd2,write,getrandom,rt_sigaction';
    const environment = Object.entries(preload).flatMap(([name, value]) => [
      '-E',
      `${name}=${value}`,
    ]);
    const { code, stderr } = await run(
      ['strace', '-f', '-qq', '-e', only, '-o', file, ...environment, ...command],
      {},
    );
    t.same({ code, stderr }, { code: 0, stderr: '' }, `${command.join(' ')} under strace`);
    const lines = readFileSync(file, 'utf8').split('\n');
    rmSync(file);
    return lines.map((line) =>
      line.replace(/^\d+ +/, '').replace(/0x[0-9a-f]+|"[^"]*"(\.\.\.)?/g, 'X'),
    );
  };
  const preload = { LD_PRELOAD: guestLibrary };
  const echo = ['sh', '-c', 'echo word'];
  t.ok(
    (await calls(echo, {})).some((call) => call.startsWith('write(1, X')),
    'calls are seen',
  );
  t.same(await calls(['true'], preload), await calls(['true'], {}));
  t.same(await calls(echo, preload), await calls(echo, {}));
});
