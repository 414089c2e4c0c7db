// That `npm run bench -- idle --quick` has every row, and that a session which does nothing wakes
// nobody: no thread of the program, of the executor or of the driver.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { js } from '../../bin/paths.mjs';
import { notBuilt } from '../../test/support/paths.js';
import { type Activity, activity } from '../idle/threads.js';

const skip = notBuilt(
  'api-server/executor.node',
  'bench/bench-idle',
  'software-device/libcuda.so.1',
);

t.test('threads of one name are one line', async (t) => {
  const counts = (name: string, nanoseconds: number, sleeps: number) => {
    return { name, nanoseconds, sleeps };
  };
  const before = new Map([
    [1, counts('a', 1e7, 5)],
    [2, counts('b', 0, 0)],
  ]);
  const after = new Map([
    [1, counts('a', 3e7, 6)],
    [2, counts('b', 0, 40)],
    [3, counts('a', 2e7, 3)],
  ]);
  t.same(activity(before, after, 2), [
    { thread: 'b', count: 1, cpu: 0, wakeUps: 20 },
    { thread: 'a', count: 2, cpu: 2, wakeUps: 2 },
  ]);
});

t.test('an idle session', { skip, timeout: 120_000 }, async (t) => {
  const out = path.join(t.testdir(), 'idle.json');
  const argv = ['--enable-source-maps', path.join(js, 'bench', 'idle', 'main.js')];
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...argv, '--quick', '--out', out],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, stderr);
  const { rows, threads } = JSON.parse(readFileSync(out, 'utf8'));
  for (const row of rows) t.ok(row.value >= 0 && stdout.includes(row.name), row.name);
  for (const device of ['null', 'software']) {
    const awake = (process: string): string[] =>
      threads[`${process}.${device}`]
        .filter(({ wakeUps }: Activity) => wakeUps > 0)
        .map(({ thread }: Activity) => thread);
    t.same(awake('program'), [], `the program on the ${device} device`);
    const native = awake('executor').filter((thread) => thread !== 'node');
    t.same(native, [], `the executor of the ${device} device`);
  }
});
