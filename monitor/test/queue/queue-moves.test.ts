// The queue moves as soon as its head fits, whatever it was that made room.
import t from 'tap';
import { Guest } from '../support/guest.js';
import { Serving } from '../support/serving.js';

/** One GPU, three slots, and a session that has all memory but a little. */
async function crowded(t: { teardown(end: () => unknown): void }) {
  const args = ['--servers-per-gpu', '3', '--http', '127.0.0.1:0'];
  const serving = await Serving.start(t, args, { SOFTWARE_DEVICE_MEMORY: '1G' });
  const { memory } = await serving.logged({ msg: 'GPU' });
  const all = BigInt(Number(memory));
  const large = Guest.hello(serving.address, { memory: all - (64n << 20n) });
  await large.welcome();
  const whole = Guest.hello(serving.address, { memory: all });
  await whole.position();
  return { serving, all, large, whole };
}

t.test('memory of a session that is lost with its process is there at once', async (t) => {
  const { serving, whole } = await crowded(t);
  const { slotPid } = await serving.logged({ session: 1, msg: /begins/ });
  const from = serving.lines.length;
  process.kill(Number(slotPid), 'SIGKILL');
  await whole.welcome();
  await serving.logged({ msg: 'ready' }, from);
  const order = serving.lines.slice(from).map(({ msg }) => msg);
  // Two more slots are warm: it need not wait until the third is again.
  t.ok(order.indexOf('offered') < order.indexOf('ready'), order.join('\n'));
  await whole.leave();
});

t.test('who waits behind one that is killed in the queue moves up', async (t) => {
  const { serving, whole, large } = await crowded(t);
  const small = Guest.hello(serving.address, { memory: 2n << 20n });
  t.equal(await small.position(), 2);
  const { http } = await serving.logged({ msg: /HTTP/i });
  const answer = await fetch(`http://${http}/v1/sessions/2`, { method: 'DELETE' });
  t.ok(answer.ok, String(answer.status));
  t.match(await whole.refusal(), { code: 'OB_KILLED' });
  await small.welcome();
  await small.leave();
  await large.leave();
});
