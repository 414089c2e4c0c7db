// What becomes of slots, queues and sessions when things go wrong or somebody is in a hurry.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { DescriptorLimit } from '../support/descriptors.js';
import { Guest } from '../support/guest.js';
import { isAlive, Serving } from '../support/serving.js';
import { SharedMemory } from '../support/shared-memory.js';

const MiB = 1n << 20n;

t.test('a process that hangs is killed and replaced, whatever it does', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '2', '--hang-timeout', '1']);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  const [busy, free] = serving.slotPids();
  if (!busy || !free) throw new Error('two processes');
  for (const pid of [busy, free]) process.kill(pid, 'SIGSTOP');
  await guest.rest();
  await serving.logged({ session: 1, msg: /session lost: .*it hung/ });
  for (const pid of [busy, free]) {
    await serving.logged({ slotPid: pid, msg: /hangs: killed/ });
    await serving.logged({ slotPid: pid, msg: /it hung: replaced/ });
    t.notOk(isAlive(pid));
  }
  const guests = [Guest.hello(serving.address), Guest.hello(serving.address)];
  for (const guest of guests) await guest.welcome();
  for (const guest of guests) await guest.leave();
});

t.test('where no process can be started, it is tried again', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const descriptors = new DescriptorLimit(serving.child.pid);
  const welcomed = async () => {
    const guest = Guest.hello(serving.address);
    await guest.welcome();
    return guest;
  };
  await (await welcomed()).leave();
  await serving.logged({ msg: /^session ends/ });
  const before = descriptors.open.length;
  const guest = await welcomed();
  const waiting = Guest.hello(serving.address);
  t.equal(await waiting.position(), 1);

  // There is none even for its page.
  descriptors.leave(0);
  const [slot = 0] = serving.slotPids();
  process.kill(slot, 'SIGKILL');
  const again = /^not started: tried again in/;
  await serving.logged({ msg: again });
  t.match(await serving.logged({ code: 'OB_SLOT_START' }), {
    msg: /^the process of slot 0\.0 cannot be started: .*Too many open files/,
    remedy: /LimitNOFILE/,
  });
  t.match(await serving.logged({ code: 'OB_DESCRIPTORS' }), { remedy: /LimitNOFILE/ });
  // Then for its page, but not for the two ends beside it; then for these, but not for its pipes.
  for (const some of [1, 4]) {
    const from = serving.lines.length;
    descriptors.leave(some);
    await serving.logged({ msg: again }, from);
  }
  t.match(await waiting.refusal(), { code: 'OB_NO_SLOT', sentence: /cannot be started/ });
  await guest.rest();

  const from = serving.lines.length;
  descriptors.reset();
  await serving.logged({ msg: 'ready' }, from);
  await serving.logged({ msg: 'there are file descriptors again' });
  await (await welcomed()).leave();
  await until(() => descriptors.open.length <= before);
  t.pass('and what had been opened for those is closed');
});

t.test('where a GPU has no memory left for a process, it is tried again', async (t) => {
  const SOFTWARE_DEVICE_CONFIG = path.join(t.testdir({}), 'device');
  const has = (memory: string) => writeFileSync(SOFTWARE_DEVICE_CONFIG, `memory = ${memory}\n`);
  has('1G');
  const env = { SOFTWARE_DEVICE_CONFIG, SOFTWARE_DEVICE_TRAITS: 'hidden-memory' };
  const serving = await Serving.start(t, ['--servers-per-gpu', '1'], env);

  has('4M');
  const [slot = 0] = serving.slotPids();
  process.kill(slot, 'SIGKILL');
  const { msg } = await serving.logged({ level: 50, code: 'OB_DEVICE_FULL', slot: '0.0' });
  t.match(msg, /^GPU 0 has too little free memory for one more process: .*OUT_OF_MEMORY/);
  t.equal(
    serving.lines.find(({ code }) => code === 'OB_GPU_LOST'),
    undefined,
    'it is not lost',
  );
  await serving.logged({ msg: /tried again in/ });
  t.match((await serving.state()).gpus, [{ healthy: false, problem: msg }]);

  has('1G');
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  await guest.leave();
});

t.test('where memory runs out, the processes of sessions end first', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '2']);
  const score = (pid: number | undefined) =>
    Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
  const slots = serving.slotPids();
  t.equal(slots.length, 2);
  for (const pid of slots) t.ok(score(pid) > score(serving.child.pid));
});

t.test('SIGTERM: sessions get the grace; nobody new comes in', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '2', '--grace', '3600']);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  serving.child.kill('SIGTERM');
  await serving.logged({ msg: /sessions may end by themselves/, sessions: 1 });
  t.match(await Guest.hello(serving.address).refusal(), { code: 'OB_SHUTDOWN' });
  t.equal(serving.child.exitCode, null, 'it waits');
  await guest.leave();
  t.equal(await serving.exit, 0, 'the last session has ended');
});

t.test('a second signal does not wait for sessions', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--grace', '3600']);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  serving.child.kill('SIGTERM');
  await serving.logged({ msg: /sessions may end by themselves/ });
  serving.child.kill('SIGTERM');
  t.match((await guest.rest()).toString('latin1'), /the server is being shut down/);
  t.equal(await serving.exit, 0);
});

t.test('who waits too long is told so, and makes way', async (t) => {
  const args = ['--servers-per-gpu', '1', '--queue-timeout', '1'];
  const serving = await Serving.start(t, args);
  const guest = Guest.hello(serving.address);
  await guest.welcome();
  const waiting = Guest.hello(serving.address);
  t.equal(await waiting.position(), 1);
  t.match(await waiting.refusal(), { code: 'OB_QUEUE_TIMEOUT', result: 46 });
  await guest.leave();
  // Who comes before that waits, too.
  await serving.logged({ session: 1, msg: /^session ends/ });
  const next = Guest.hello(serving.address);
  await next.welcome();
  await next.leave();
});

t.test('one that fits passes one that does not only where that is wanted', async (t) => {
  for (const skip of [false, true]) {
    const args = ['--servers-per-gpu', '3', ...(skip ? ['--queue-skip'] : [])];
    const env = { SOFTWARE_DEVICE_MEMORY: String(1024n * MiB) };
    const serving = await Serving.start(t, args, env);
    const { memory } = await serving.logged({ msg: 'GPU' });
    const all = BigInt(Number(memory));
    const guest = Guest.hello(serving.address, { memory: all / 2n });
    await guest.welcome();
    const large = Guest.hello(serving.address, { memory: all });
    t.equal(await large.position(), 1);
    const small = Guest.hello(serving.address, { memory: 2n * MiB });
    if (skip) t.ok(await small.welcome(), 'it fits beside the first');
    else t.equal(await small.position(), 2, 'the head of the queue blocks it');
    await guest.leave();
    if (skip) await small.leave();
    t.ok(await large.welcome(), 'the large one gets its turn');
    await large.leave();
    if (!skip) await small.welcome();
    await small.leave();
  }
});

t.test('a thousand sessions, some killed, some with their process: nothing is left', async (t) => {
  const shared = new SharedMemory();
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '2']);
  const monitor = serving.child.pid ?? 0;
  const descriptors = () => readdirSync(`/proc/${monitor}/fd`).length;
  const warm = async () => {
    const guests = Array.from({ length: 4 }, () => Guest.hello(serving.address));
    await Promise.all(guests.map((guest) => guest.welcome()));
    await Promise.all(guests.map((guest) => guest.leave()));
  };
  await warm();
  shared.look([monitor, ...serving.slotPids()]);
  const open = descriptors();
  const random = generator(20261121);
  let left = 1000;
  let killed = 0;
  let served = 0;
  const one = async () => {
    while (left-- > 0) {
      const guest = Guest.hello(serving.address);
      const answer = await guest.welcome().catch(() => null);
      if (answer) served++;
      const chance = random();
      if (chance < 0.03) {
        const pids = serving.slotPids();
        const victim = pids[Math.floor(random() * pids.length)];
        if (victim !== undefined) {
          shared.look([victim]);
          process.kill(victim, 'SIGKILL');
          killed++;
        }
      }
      // Some go without a word of farewell, with bytes that nobody has read.
      if (chance > 0.8) guest.send(Buffer.alloc(64));
      await guest.leave();
    }
  };
  await Promise.all(Array.from({ length: 8 }, one));
  t.ok(killed > 10, `${killed} processes were killed`);
  t.ok(served > 900, `${served} guests were served`);
  // All slots are there again, and all memory: four equal parts can be had at once.
  await warm();
  await until(() => descriptors() <= open);
  t.ok(descriptors() <= open, 'no descriptor is left open');
  t.equal(serving.slotPids().length, 4);
  shared.look([monitor, ...serving.slotPids()]);
  t.equal(await serving.stop(), 0);
  t.same(serving.slotPids(), [], 'no process is left');
  t.same(shared.left, [], 'no shared memory is left');
});

t.test('a configuration file: after flags and the environment', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-config-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'serve.yaml');
  writeFileSync(
    file,
    `# of this test
version: v1
listen: [127.0.0.1:0, unix:${folder}/guests]
servers-per-gpu: 3
gpus: 2
ready-file: ready
`,
  );
  const args = ['serve', '--http', 'none', '--device', 'software', '--config', file, '--gpus', '1'];
  const serving = await Serving.start(t, args, { OUTBOARD_SERVERS_PER_GPU: '2' });
  await serving.logged({ msg: 'listening', gpus: 1, slots: 2 });
  t.equal(serving.listening.length, 2);
  t.equal(readFileSync(path.join(folder, 'ready'), 'utf8'), `${serving.listening.join('\n')}\n`);
  const guest = Guest.hello({ path: path.join(folder, 'guests') });
  await guest.welcome();
  await guest.leave();
});

/** The same numbers in each run. */
function generator(seed: number) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Waits for something that happens by itself; the test's limit ends it if it does not. */
async function until(condition: () => boolean) {
  while (!condition()) await new Promise((again) => setTimeout(again, 20));
}
