// Which processes go first where the machine's memory is short: slots, and none can put itself behind the others.
import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

const score = (pid: number) => `/proc/${pid}/oom_score_adj`;

t.test('a slot that does not want to go first any more is ended', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const guest = Guest.hello(serving.address);
  const { session } = await guest.welcome();
  const begins = await serving.logged({ session: Number(session), msg: 'session begins' });
  const pid = Number(begins['slotPid']);
  t.equal(readFileSync(score(pid), 'utf8').trim(), '500');
  // As a tenant can that has taken the process over, where the server is not root.
  writeFileSync(score(pid), '0');
  await serving.logged({ slotPid: pid, msg: /has changed that it goes first/ });
  await serving.logged({ slotPid: pid, msg: /behind others where memory is short: replaced/ });
  await guest.leave();
});
