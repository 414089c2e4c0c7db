// `outboard why` of a real server: of one that waits, that runs, that has ended, that was refused.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import type { DecisionView, WhyView } from '../../src/base/view.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const MiB = 1n << 20n;

async function why({ http }: Serving, id: number): Promise<WhyView> {
  const answer = await fetch(new URL(`/v1/sessions/${id}/why`, http));
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as WhyView;
}

const texts = (decisions: readonly DecisionView[]) =>
  decisions.map(({ kind, text }) => `${kind}: ${text}`);

t.test('each decision has its reasons, from admission to the end', async (t) => {
  const args = ['--gpus', '2', '--servers-per-gpu', '1', '--placement', 'spread'];
  const serving = await Serving.start(t, args, { SOFTWARE_DEVICE_MEMORY: '1G' });
  const first = Guest.hello(serving.address, {
    ...{ name: 'first', memory: 64n * MiB, shareRequest: 20, shareLimit: 60 },
  });
  await first.welcome();
  const running = await why(serving, 1);
  t.match(running, { session: 1, name: 'first', tenant: '', state: 'running', leftOut: 0 });
  const [admission, placement, quota, ...more] = texts(running.decisions);
  t.match(admission, 'admission: everybody may come in: 1 of the GPUs (all), 64 MiB, share 20:60');
  t.match(placement, /^placement: GPU 0 with 64 MiB, by spread, because the least of its time/);
  t.match(placement, /; GPU 1: fits, .* unreserved, 0 percent promised$/);
  t.match(
    quota,
    /^quota: device-time on GPU 0: promised 20 percent, never above 60; .* promised 0$/,
  );
  t.same(more, []);
  t.match(running.now[0], 'it is on GPU 0, with a share of 20:60');

  const second = Guest.hello(serving.address, { name: 'second', memory: 64n * MiB });
  await second.welcome();
  t.match(
    texts((await why(serving, 2)).decisions)[1],
    /^placement: GPU 1 .*; GPU 0: no warm process is free \(1 in all\)$/,
  );
  const third = Guest.hello(serving.address, { name: 'third' });
  t.equal(await third.position(), 1);
  const fourth = Guest.hello(serving.address, { name: 'fourth' });
  t.equal(await fourth.position(), 2);
  const waiting = await why(serving, 4);
  t.equal(waiting.state, 'waiting');
  t.match(waiting.now, [
    'position 2 of 2: it waits for sessions to end',
    'GPU 0: no warm process is free (1 in all)',
    'GPU 1: no warm process is free (1 in all)',
  ]);
  t.match(texts(waiting.decisions), [/^admission: /, 'queue: it waits for sessions to end']);

  const set = await fetch(new URL(`/v1/sessions/1/share`, serving.http), {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: 40, limit: 80 }),
  });
  t.ok(set.ok, String(set.status));
  const changed = texts((await why(serving, 1)).decisions).at(-1);
  t.match(
    changed,
    'quota: an operator changed its share of 20:60: device-time on GPU 0: promised 40',
  );

  await first.leave();
  await third.welcome();
  await serving.logged({ session: 1, msg: /session ends/ });
  const ended = await why(serving, 1);
  t.match(ended, { state: 'ended', now: [] });
  t.match(texts(ended.decisions).at(-1), /^end: over after \d+\.\d{3} seconds: /);
  t.match(texts((await why(serving, 3)).decisions), [
    /^admission: /,
    /^queue: /,
    /^placement: GPU 0 /,
    /^quota: /,
  ]);

  const killed = await fetch(new URL(`/v1/sessions/4?reason=late`, serving.http), {
    method: 'DELETE',
  });
  t.ok(killed.ok);
  t.match(await fourth.refusal(), { code: 'OB_KILLED' });
  const refused = await why(serving, 4);
  t.match(refused.state, 'ended');
  t.match(texts(refused.decisions).at(-1), /^end: refused: .*late.* \(OB_KILLED\)$/);

  const { stdout } = await promisify(execFile)(process.execPath, [
    ...[outboard, 'why', '4', '--api', serving.http],
  ]);
  t.match(stdout, /^session 4 \(fourth\): ended\n {2}[\d:.]{12} {2}admission {2}everybody/);
  const unknown = await fetch(new URL('/v1/sessions/99/why', serving.http));
  t.equal(unknown.status, 404);
  t.match(await unknown.json(), { code: 'OB_NO_DECISIONS', message: /99/ });
  second.socket.resetAndDestroy();
  await serving.logged({ session: 2, msg: /session ends/ });
  t.match(
    texts((await why(serving, 2)).decisions).at(-1),
    /^end: over after \d+\.\d{3} seconds: the guest's connection was reset: /,
  );
  await third.leave();
});

t.test('one that waits for memory or for its tenant, and one that leaves', async (t) => {
  const args = ['--servers-per-gpu', '3'];
  const serving = await Serving.start(t, args, { SOFTWARE_DEVICE_MEMORY: '1G' });
  const { memory } = await serving.logged({ msg: 'GPU' });
  const all = BigInt(Number(memory));
  const large = Guest.hello(serving.address, { memory: all - 2n * MiB });
  await large.welcome();
  const whole = Guest.hello(serving.address, { memory: 4n * MiB });
  await whole.position();
  const { now } = await why(serving, 2);
  t.match(now, [/^position 1 of 1: /, 'GPU 0: 2 MiB unreserved, of 4 MiB that it would get']);
  await whole.leave();
  await serving.logged({ msg: 'left the queue' });
  const left = await why(serving, 2);
  t.match(texts(left.decisions).at(-1), 'end: its program has left the queue');
  await large.leave();
});
