// What keeps tenants apart who use the same GPU: a process of their own, a sandbox around it, nothing
// kept of what the driver compiled for them; and that it is said, or refused.
import { readFileSync, symlinkSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { driverFor, pageableAccess } from '../../src/server/isolation.js';
import { aDriver } from '../support/driver.js';
import { Guest } from '../support/guest.js';
import { isAlive, Serving } from '../support/serving.js';
import { tenantsFile } from '../support/tenants.js';

/** The process that serves a session, once it has been told of. */
async function processOf(serving: Serving, session: number): Promise<number> {
  const line = await serving.logged({ session, msg: 'session begins' });
  return Number(line['slotPid']);
}

async function visit(serving: Serving, token: string): Promise<number> {
  const guest = Guest.hello(serving.address, { token });
  const { session } = await guest.welcome();
  const pid = await processOf(serving, Number(session));
  await guest.leave();
  await serving.logged({ session: Number(session), msg: /^session ends/ });
  return pid;
}

t.test('no process serves two tenants', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const args = ['--servers-per-gpu', '1', '--tenants', file, '--new-process', 'tenant'];
  const serving = await Serving.start(t, args);
  const first = await visit(serving, one);
  t.equal(await visit(serving, one), first, 'the same tenant finds it warm');
  const second = await visit(serving, other);
  t.not(second, first, 'another one gets its own');
  t.notOk(isAlive(first));
  t.not(await visit(serving, one), second);
  t.notOk(serving.lines.some(({ level, msg }) => level >= 50 || /lost/.test(msg)));
});

t.test('a process that nobody else has used is taken first', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const args = ['--servers-per-gpu', '2', '--tenants', file, '--new-process', 'tenant'];
  const serving = await Serving.start(t, args);
  const mine = await visit(serving, one);
  const theirs = await visit(serving, other);
  t.not(theirs, mine);
  for (let round = 0; round < 2; round++) {
    t.equal(await visit(serving, one), mine);
    t.equal(await visit(serving, other), theirs);
  }
  // All at once, more than there are slots: everybody gets one, in turn.
  const tokens = [one, one, one, other, other];
  await Promise.all(
    tokens.map(async (token) => {
      const guest = Guest.hello(serving.address, { token });
      await guest.welcome();
      await guest.leave();
    }),
  );
});

t.test('who may not wait takes no process from others', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const limits = ['--queue-limit', '1', '--queue-skip', '--new-process', 'tenant'];
  const serving = await Serving.start(t, ['--servers-per-gpu', '2', '--tenants', file, ...limits]);
  const memory = BigInt(Number((await serving.logged({ msg: 'GPU' }))['memory']));
  const warm = await visit(serving, one);
  const comes = (memory: bigint) => Guest.hello(serving.address, { token: other, memory });
  const most = comes(memory / 2n);
  t.not(await processOf(serving, Number((await most.welcome()).session)), warm);
  const waiting = comes(memory);
  t.equal(await waiting.position(), 1);
  t.match(await comes(2n << 20n).refusal(), { code: 'OB_QUEUE_FULL' });
  t.ok(isAlive(warm));
  await waiting.leave();
  await most.leave();
  t.equal(await visit(serving, one), warm, 'the same tenant finds it warm');
});

t.test('who waits for its own tenant keeps nobody from a new process', async (t) => {
  const { file, one, other } = tenantsFile(t, '{ memory: 256M }');
  const args = ['--servers-per-gpu', '2', '--new-process', 'tenant'];
  const serving = await Serving.start(t, ['--tenants', file, ...args]);
  const comes = (token: string, memory?: bigint) =>
    Guest.hello(serving.address, { token, ...(memory === undefined ? {} : { memory }) });
  const both = [comes(one, 128n << 20n), comes(one, 128n << 20n)];
  const sessions = await Promise.all(both.map(async (guest) => (await guest.welcome()).session));
  for (const guest of both) await guest.leave();
  for (const session of sessions) {
    await serving.logged({ session: Number(session), msg: /^session ends/ });
  }
  const all = comes(one, 256n << 20n);
  await all.welcome();
  const waiting = comes(one);
  t.equal(await waiting.position(), 1);
  const passing = comes(other);
  t.ok((await passing.welcome()).session, 'a process is made for it');
  for (const guest of [passing, all]) await guest.leave();
  await waiting.welcome();
  await waiting.leave();
});

t.test('who comes and leaves again costs others no warm process', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const args = ['--servers-per-gpu', '2', '--new-process', 'tenant'];
  const serving = await Serving.start(t, ['--tenants', file, ...args]);
  const both = [0, 1].map(() => Guest.hello(serving.address, { token: other }));
  for (const guest of both) await guest.welcome();
  for (const guest of both) await guest.leave();
  await serving.logged({ session: 1, msg: /^session ends/ });
  await serving.logged({ session: 2, msg: /^session ends/ });
  const passing = Guest.hello(serving.address, { token: one });
  t.equal(await passing.position(), 1);
  const made = await serving.logged({ msg: /^made new/ });
  const { slot, slotPid } = made;
  await passing.leave();
  await serving.logged({ slot, msg: 'ready' }, serving.lines.indexOf(made));
  const warm = await visit(serving, other);
  t.not(warm, slotPid);
  t.ok(
    serving.lines.some(
      (line) =>
        line.msg === 'session begins' && line['slotPid'] === warm && Number(line['session']) < 3,
    ),
    'its own process, not the new one',
  );
  await visit(serving, one);
  t.equal(serving.lines.filter(({ msg }) => /^made new/.test(msg)).length, 1);
});

t.test('who comes again waits for what is being made new for it', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const args = ['--servers-per-gpu', '3', '--new-process', 'tenant'];
  const serving = await Serving.start(t, ['--tenants', file, ...args]);
  const all = [0, 1, 2].map(() => Guest.hello(serving.address, { token: other }));
  for (const guest of all) await guest.welcome();
  const { session } = await serving.logged({ slot: '0.0', msg: 'session begins' });
  for (const [index, guest] of all.entries()) if (index + 1 !== session) await guest.leave();
  for (const id of [1, 2, 3]) {
    if (id !== session) await serving.logged({ session: id, msg: /^session ends/ });
  }
  const comes = async () => {
    const guest = Guest.hello(serving.address, { token: one });
    await guest.answer();
    return guest;
  };
  await (await comes()).leave();
  await serving.logged({ msg: 'left the queue' });
  await all[Number(session) - 1]?.leave();
  await serving.logged({ session, msg: /^session ends/ });
  const again = await comes();
  await serving.logged({ session: 5, msg: 'session begins' });
  t.equal(serving.lines.filter(({ msg }) => /^made new/.test(msg)).length, 1);
  await again.leave();
});

t.test(
  'a process that is made new for a tenant is one of its sessions until it is there',
  async (t) => {
    const { file, one, other } = tenantsFile(t, '{ sessions: 1 }', '{}');
    const args = ['--gpus', '2', '--servers-per-gpu', '2', '--new-process', 'tenant'];
    const policy = ['--placement', 'best-fit', '--tenants', file];
    const serving = await Serving.start(t, [...args, ...policy], { SOFTWARE_DEVICE_MEMORY: '1G' });
    const memory = BigInt(Number((await serving.logged({ msg: 'GPU' }))['memory']));
    const comes = (token: string, memory = 2n << 20n) =>
      Guest.hello(serving.address, { token, memory });
    const halves = [0, 1, 2, 3].map(() => comes(other, memory / 2n));
    for (const guest of halves) await guest.welcome();
    for (const guest of halves) await guest.leave();
    for (const session of [1, 2, 3, 4]) await serving.logged({ session, msg: /^session ends/ });
    const large = comes(other, (memory * 3n) / 4n);
    await large.welcome();
    const first = comes(one);
    t.equal(await first.position(), 1);
    const { slot } = await serving.logged({ msg: /^made new/ });
    const from = serving.lines.length;
    await first.leave();
    const second = comes(one, memory / 2n);
    await second.welcome();
    const lines = serving.lines.slice(from);
    const ready = lines.findIndex((line) => line['slot'] === slot && line.msg === 'ready');
    const next = lines.findIndex(({ msg }) => /^made new/.test(msg));
    t.ok(next > ready && ready >= 0, `${ready}, ${next}`);
    for (const guest of [large, second]) await guest.leave();
  },
);

t.test('a process that a session has cost is its session until there is another', async (t) => {
  const { file, one, other } = tenantsFile(t, '{ sessions: 1 }', '{}');
  const args = ['--servers-per-gpu', '2', '--new-process', 'never', '--queue-limit', '0'];
  const library = path.join(t.testdir(), 'libcuda.so.1');
  const link = () => symlinkSync(path.join(build, 'software-device', 'libcuda.so.1'), library);
  link();
  const serving = await Serving.start(t, ['--device', library, '--tenants', file, ...args]);
  const comes = (token: string) => Guest.hello(serving.address, { token });
  const first = comes(one);
  await first.welcome();
  const pid = await processOf(serving, 1);
  const { slot } = await serving.logged({ session: 1, msg: 'session begins' });
  // There is no other one before that is wanted here.
  unlinkSync(library);
  process.kill(pid, 'SIGKILL');
  await serving.logged({ session: 1, msg: /^session lost/ });
  const again = comes(one);
  t.equal(await again.position(), 1, 'it waits, though there is another slot');
  const passing = comes(other);
  await passing.welcome();
  link();
  const served = Number((await again.welcome()).session);
  t.equal((await serving.logged({ session: served, msg: 'session begins' }))['slot'], slot);
  for (const guest of [again, passing]) await guest.leave();
});

t.test('where nobody may wait, one waits for a process of its own', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const limits = ['--queue-limit', '0', '--new-process', 'tenant'];
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--tenants', file, ...limits]);
  const first = await visit(serving, one);
  t.not(await visit(serving, other), first);
});

t.test('on one after the other, where that is wanted, or there are no tenants', async (t) => {
  const { file, one, other } = tenantsFile(t);
  const args = ['--servers-per-gpu', '1', '--tenants', file, '--new-process', 'never'];
  const serving = await Serving.start(t, args);
  t.match(await serving.logged({ msg: 'isolation' }), { newProcess: false, cudaCache: false });
  t.equal(await visit(serving, one), await visit(serving, other));
  const open = await Serving.start(t, ['--servers-per-gpu', '1']);
  t.match(await open.logged({ msg: 'isolation' }), { newProcess: false, cudaCache: true });
});

t.test('what slots may do is less than what the server may', async (t) => {
  const { file } = tenantsFile(t);
  const args = ['--servers-per-gpu', '1', '--tenants', file];
  const serving = Serving.launch(t, args);
  const said = await serving.logged({ msg: /^isolation$|sandbox/ });
  // A kernel without Landlock: refused, as was asked for.
  if (said.msg !== 'isolation') {
    t.equal(said.code, 'OB_SANDBOX');
    return;
  }
  t.match(said['sandbox'], /^Landlock \d/);
  await serving.logged({ msg: 'listening' });
  const [pid = 0] = serving.slotPids();
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  t.match(status, /^NoNewPrivs:\s*1$/m);
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  t.ok(environment.includes('CUDA_CACHE_DISABLE=1'), 'what it compiles is kept nowhere');
});

t.test('who is not in a sandbox is told', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--sandbox', 'off']);
  t.equal((await serving.logged({ msg: 'isolation' }))['sandbox'], null);
});

t.test('devices whose kernels reach all memory', (t) => {
  const attributes = new Int32Array(140);
  t.equal(pageableAccess({ attributes }), null);
  attributes[88] = 1;
  t.equal(pageableAccess({ attributes }), 'PAGEABLE_MEMORY_ACCESS');
  attributes[100] = 1;
  t.match(pageableAccess({ attributes }), /, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES$/);
  t.end();
});

t.test("the driver's own cache is the operator's to allow", (t) => {
  const driver = aDriver({ kind: 'nvidia' });
  const named = { ...driver, env: { CUDA_CACHE_DISABLE: '0' } };
  const tenants = {} as Parameters<typeof driverFor>[0]['tenants'];
  t.equal(driverFor({ driver, tenants }).env['CUDA_CACHE_DISABLE'], '1');
  t.equal(driverFor({ driver: named, tenants }).env['CUDA_CACHE_DISABLE'], '0');
  t.same(driverFor({ driver, tenants: null }).env, {});
  t.end();
});
