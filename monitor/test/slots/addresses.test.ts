// Where slots have their memory: not where programs have theirs, or the address of a module's variable could be one of
// memory of a program's.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

/** The last address of each library that a process has loaded. */
function librariesOf(pid: number | 'self'): number[] {
  return readFileSync(`/proc/${pid}/maps`, 'utf8')
    .split('\n')
    .filter((line) => /\.so[.\d]*$/.test(line))
    .map((line) => Number.parseInt(line.split(/[- ]/)[1] ?? '', 16));
}

/** Half of what a program may address; the kernel's usual layout begins at the top. */
const middle = 2 ** 46;

t.test('slots fill their address space from below', async (t) => {
  t.ok(Math.min(...librariesOf('self')) > middle, 'as programs do not');
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const guest = Guest.hello(serving.address);
  const { session } = await guest.welcome();
  const line = await serving.logged({ session: Number(session), msg: 'session begins' });
  const theirs = librariesOf(Number(line['slotPid']));
  t.ok(theirs.length > 5);
  t.ok(Math.max(...theirs) < middle);
  await guest.leave();
});
