// Programs with several GPUs: placed together, a connection and a session for each.
import { execFileSync } from 'node:child_process';
import { readdirSync, symlinkSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import type { Hello, Welcome } from '../../../api-server/src/control.js';
import { build } from '../../../bin/paths.mjs';
import type { View } from '../../src/base/view.js';
import { asking, Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const MiB = 1n << 20n;

function uuidOf({ devices }: Welcome): string {
  return Buffer.from(devices[0]?.uuid ?? []).toString('hex');
}

/** A guest that is welcomed, and its tickets. */
async function begin(serving: Serving, devices: number, hello: Partial<Hello> = {}) {
  const guest = Guest.hello(serving.address, { devices, ...hello });
  const welcome = await guest.welcome();
  return { guest, welcome, tickets: welcome.tickets ?? [] };
}

/** The whole program: each of its GPUs connected. */
async function beginAll(serving: Serving, devices: number, hello: Partial<Hello> = {}) {
  const { guest, welcome, tickets } = await begin(serving, devices, hello);
  const others = tickets.map((ticket) => Guest.hello(serving.address, { ...hello, ticket }));
  const welcomes = [welcome, ...(await Promise.all(others.map((other) => other.welcome())))];
  return { guests: [guest, ...others], welcomes };
}

const stateOf = (serving: Serving): Promise<View> => serving.state();

/** Waits until nobody has anything. */
async function allFree(serving: Serving) {
  for (;;) {
    const { gpus, sessions, queue } = await stateOf(serving);
    const slots = gpus.flatMap((gpu) => gpu.slots);
    const free = slots.every(({ state }) => state === 'free');
    const reserved = gpus.some(({ memory, share }) => memory.reserved > 0 || share.requested > 0);
    if (free && !reserved && sessions.length === 0 && queue.length === 0) return;
    await new Promise((again) => setTimeout(again, 20));
  }
}

t.test('each GPU has a session, with what was asked for on each', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '3', '--servers-per-gpu', '2']);
  const asked = { memory: 64n * MiB, shareRequest: 20, program: 'gang' };
  const { guests, welcomes } = await beginAll(serving, 3, asked);
  t.equal(new Set(welcomes.map(uuidOf)).size, 3, 'all different');
  t.same(
    welcomes.map(({ session, memoryLimit }) => [session, memoryLimit]),
    [1n, 2n, 3n].map((session) => [session, 64n * MiB]),
  );
  t.same(
    welcomes.map(({ tickets }) => tickets?.length),
    [2, 0, 0],
  );
  const { sessions, gpus } = await stateOf(serving);
  t.match(
    sessions.toSorted((a, b) => a.id - b.id),
    [0, 1, 2].map((ordinal) => ({
      id: ordinal + 1,
      gpu: ordinal,
      program: 'gang',
      group: { session: 1, ordinal, gpus: [0, 1, 2] },
      share: { request: 20 },
    })),
  );
  for (const { memory } of gpus) t.equal(memory.reserved, Number(64n * MiB));
  const report = await Guest.hello(serving.address, asking(2n)).report();
  t.same(
    report.devices.map(({ uuid }) => Buffer.from(uuid).toString('hex')),
    welcomes.map(uuidOf),
    'a query tells of all of them',
  );
  for (const guest of guests) await guest.leave();
  await allFree(serving);
});

t.test('one queue for all: a program waits until it gets all its GPUs', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '1']);
  const { address } = serving;
  const single = Guest.hello(address);
  await single.welcome();
  const first = Guest.hello(address, { devices: 2, program: 'first' });
  t.equal(await first.position(), 1, 'one GPU is free, and it wants two');
  const second = Guest.hello(address, { devices: 2 });
  t.equal(await second.position(), 2);
  const last = Guest.hello(address);
  t.equal(await last.position(), 3, 'would fit, but came later');
  t.match((await stateOf(serving)).queue, [
    { program: 'first', gpus: 2 },
    { gpus: 2 },
    { gpus: 1 },
  ]);
  t.match(
    (await stateOf(serving)).gpus[1],
    { memory: { reserved: 0 } },
    'nothing is held in parts',
  );

  await single.leave();
  const welcome = await first.welcome();
  t.equal(await second.position(), 1);
  const other = Guest.hello(address, { ticket: welcome.tickets?.[0] ?? '' });
  t.not(uuidOf(await other.welcome()), uuidOf(welcome));
  await first.leave();
  await other.leave();
  t.equal((await second.welcome()).tickets?.length, 1);
  await second.leave();
  await last.welcome();
  await last.leave();
  await allFree(serving);
});

t.test('one that fits passes a program with several GPUs where that is wanted', async (t) => {
  const args = ['--gpus', '2', '--servers-per-gpu', '1', '--queue-skip'];
  const serving = await Serving.start(t, args);
  const single = Guest.hello(serving.address);
  await single.welcome();
  const both = Guest.hello(serving.address, { devices: 2 });
  await both.position();
  const small = Guest.hello(serving.address);
  t.equal((await small.welcome()).devices.length, 1, 'came later and is there');
  await single.leave();
  await small.leave();
  await both.welcome();
  await both.leave();
  await allFree(serving);
});

t.test('a kept place is nobody else’s, nor are its memory and its time', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '2']);
  const { guest, tickets } = await begin(serving, 2, { shareRequest: 60, memory: 64n * MiB });
  const { gpus, sessions } = await stateOf(serving);
  t.equal(sessions.length, 1);
  t.match(gpus[1], {
    memory: { reserved: Number(64n * MiB) },
    share: { requested: 60 },
    slots: [{ state: 'reserved' }, { state: 'free' }],
  });
  const metrics = await (await fetch(`${serving.http}metrics`)).text();
  t.match(metrics, /outboard_slots\{gpu="1",.*state="reserved",.*\} 1/);
  const greedy = Guest.hello(serving.address, { shareRequest: 60 });
  t.equal(await greedy.position(), 1, 'the time is promised');
  await greedy.leave();
  const neighbours = [Guest.hello(serving.address), Guest.hello(serving.address)];
  for (const one of neighbours) await one.welcome();
  const late = Guest.hello(serving.address);
  t.equal(await late.position(), 1, 'a slot is warm, and kept');
  const other = Guest.hello(serving.address, { ticket: tickets[0] ?? '' });
  await other.welcome();
  await guest.leave();
  await late.welcome();
  for (const one of [other, late, ...neighbours]) await one.leave();
  await allFree(serving);
});

t.test('tickets are good once, for a while', async (t) => {
  const args = ['--gpus', '2', '--servers-per-gpu', '1'];
  const serving = await Serving.start(t, args);
  const claim = (ticket: string) => Guest.hello(serving.address, { ticket });
  const refused = { code: 'OB_TICKET', result: 46, remedy: /--claim-timeout/ };
  t.match(await claim('0123456789abcdef'.repeat(3)).refusal(), refused, 'unknown');
  t.match(await claim('x'.repeat(60_000)).refusal(), refused, 'none at all');

  const { guest, tickets } = await begin(serving, 2);
  const [ticket = ''] = tickets;
  t.match(ticket, /^[0-9a-f]{48}$/);
  const other = claim(ticket);
  await other.welcome();
  t.match(await claim(ticket).refusal(), refused, 'used');
  await guest.leave();
  await other.leave();
  t.match(await claim(ticket).refusal(), refused, 'of a program that is gone');
  t.notMatch(serving.log, ticket, 'tickets are in no log');
  await allFree(serving);
});

t.test('who comes too late with a ticket', async (t) => {
  const args = ['--gpus', '2', '--servers-per-gpu', '1', '--claim-timeout', '1'];
  const serving = await Serving.start(t, args);
  const slow = await begin(serving, 2);
  const waiting = Guest.hello(serving.address);
  await waiting.welcome();
  await serving.logged({ msg: /nobody has come after 1 seconds: the GPU is given back/, gpu: 1 });
  const [ticket = ''] = slow.tickets;
  const refused = { code: 'OB_TICKET', result: 46, remedy: /--claim-timeout/ };
  t.match(await Guest.hello(serving.address, { ticket }).refusal(), refused);
  t.notMatch(serving.log, ticket, 'tickets are in no log');
  await slow.guest.leave();
  await waiting.leave();
  await allFree(serving);
});

t.test('a guest that goes leaves nothing behind, whenever it goes', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '3', '--servers-per-gpu', '1']);
  const { address } = serving;
  const unclaimed = await begin(serving, 3);
  const [ticket = ''] = unclaimed.tickets;
  await unclaimed.guest.leave();
  await allFree(serving);
  t.match(await Guest.hello(address, { ticket }).refusal(), { code: 'OB_TICKET' });

  const some = await begin(serving, 3);
  const claimed = Guest.hello(address, { ticket: some.tickets[1] ?? '' });
  const { session } = await claimed.welcome();
  await some.guest.leave();
  // What was claimed goes on, what was not is given back.
  const both = Guest.hello(address, { devices: 2 });
  const welcome = await both.welcome();
  t.match(
    (await stateOf(serving)).sessions.find(({ id }) => id === Number(session)),
    {
      state: 'running',
      group: { session: Number(some.welcome.session), ordinal: 2, gpus: [0, 1, 2] },
    },
  );
  await both.leave();
  await claimed.leave();
  await allFree(serving);

  const busy = Guest.hello(address);
  await busy.welcome();
  const waiting = Guest.hello(address, { devices: 3 });
  await waiting.position();
  await waiting.leave();
  await serving.logged({ msg: 'left the queue' });
  await busy.leave();
  await allFree(serving);
  t.ok(welcome.session > session);
});

/** Ids of the API server processes, by slot. */
function pidsOf(serving: Serving): Map<string, number> {
  const all = serving.lines.filter(({ slotPid }) => typeof slotPid === 'number');
  return new Map(all.map((line) => [String(line['slot']), Number(line['slotPid'])]));
}

t.test('a process that dies while a program takes over its GPUs loses nobody', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '2', '--servers-per-gpu', '1']);
  const { address } = serving;
  const kill = (slot: string, signal: NodeJS.Signals) =>
    process.kill(pidsOf(serving).get(slot) ?? 0, signal);

  // A guest that goes before its Welcome, at the first GPU and at another.
  kill('0.0', 'SIGSTOP');
  const hasty = Guest.hello(address, { devices: 2 });
  await serving.logged({ msg: 'offered', session: 1 });
  await hasty.leave();
  kill('0.0', 'SIGCONT');
  await allFree(serving);
  kill('1.0', 'SIGSTOP');
  const half = await begin(serving, 2);
  const latecomer = Guest.hello(address, { ticket: half.tickets[0] ?? '' });
  await serving.logged({ msg: 'offered', slot: '1.0' });
  await latecomer.leave();
  await half.guest.leave();
  kill('1.0', 'SIGCONT');
  await allFree(serving);

  let from = serving.lines.length;
  kill('0.0', 'SIGSTOP');
  const guest = Guest.hello(address, { devices: 2 });
  await serving.logged({ msg: 'offered', slot: '0.0' }, from);
  const behind = Guest.hello(address);
  t.equal(await behind.position(), 1, 'the other GPU is kept');
  kill('0.0', 'SIGKILL');
  const { session, tickets = [] } = await guest.welcome();
  t.equal(session, 5n, 'by other processes, with its number');
  t.equal(tickets.length, 1);

  // Before its ticket is used, and while it is.
  from = serving.lines.length;
  kill('1.0', 'SIGKILL');
  await serving.logged({ slot: '1.0', msg: 'ready' }, from);
  kill('1.0', 'SIGSTOP');
  const other = Guest.hello(address, { ticket: tickets[0] ?? '' });
  await serving.logged({ msg: 'offered', slot: '1.0' }, from);
  from = serving.lines.length;
  kill('1.0', 'SIGKILL');
  await serving.logged({ msg: /waits for the next one there/, group: 5 }, from);
  t.not(uuidOf(await other.welcome()), '');
  const { sessions } = await stateOf(serving);
  t.same(sessions.map(({ group, gpu }) => [group.session, group.ordinal, gpu]).sort(), [
    [5, 0, 0],
    [5, 1, 1],
  ]);
  await guest.leave();
  await behind.welcome();
  await behind.leave();
  await other.leave();
  await allFree(serving);
});

t.test('a GPU that breaks before its connection comes', async (t) => {
  const library = path.join(t.testdir(), 'libcuda.so.1');
  const link = () => symlinkSync(path.join(build, 'software-device', 'libcuda.so.1'), library);
  link();
  const args = ['--device', library, '--servers-per-gpu', '1', '--claim-timeout', '5'];
  const serving = await Serving.start(t, args, { SOFTWARE_DEVICE_GPUS: '3' });
  const { guest, tickets } = await begin(serving, 3);
  unlinkSync(library);
  for (const slot of ['1.0', '2.0']) process.kill(pidsOf(serving).get(slot) ?? 0, 'SIGKILL');
  const [patient, hasty] = tickets.map((ticket) => Guest.hello(serving.address, { ticket }));
  await serving.logged({ msg: /tried again in/, slot: '1.0' });
  await hasty?.leave();
  await serving.logged({ msg: 'left the queue' });
  t.match(await patient?.refusal(), { code: 'OB_SLOT_LOST', result: 46 });
  await serving.logged({
    msg: /no process is ready after 5 seconds: the GPU is given back/,
    gpu: 1,
  });
  t.equal((await stateOf(serving)).sessions.length, 1, 'the first goes on');
  link();
  await guest.leave();
  await allFree(serving);
  const { guests } = await beginAll(serving, 3);
  for (const one of guests) await one.leave();
});

t.test('operators end one session of it, empty the server, and stop it', async (t) => {
  const args = ['--gpus', '3', '--servers-per-gpu', '1', '--claim-timeout', '3600'];
  const serving = await Serving.start(t, args);
  const ask = (method: string, what: string) => fetch(`${serving.http}v1/${what}`, { method });
  const end = (session: bigint) => ask('DELETE', `sessions/${session}`);
  const { guest, welcome, tickets } = await begin(serving, 3);
  const [one = '', two = ''] = tickets;
  t.ok((await ask('PUT', 'drain')).ok);
  t.match(await Guest.hello(serving.address).refusal(), { code: 'OB_DRAINING' });
  const second = Guest.hello(serving.address, { ticket: one });
  const { session } = await second.welcome();
  t.pass('of a program that was there before');
  t.equal((await end(session + 1n)).status, 404, 'it has not come yet');
  t.ok((await end(session)).ok);
  await second.rest();
  await serving.logged({ msg: /^session ends/, session: Number(session) });
  t.equal((await stateOf(serving)).sessions.length, 1, 'the others of the program go on');
  const third = Guest.hello(serving.address, { ticket: two });
  await third.welcome();
  t.ok((await end(welcome.session)).ok);
  await guest.rest();
  await serving.logged({ msg: /^session ends/, session: Number(welcome.session) });
  t.match((await stateOf(serving)).sessions, [{ group: { ordinal: 2 } }]);
  await third.leave();
  t.ok((await ask('DELETE', 'drain')).ok);
  await allFree(serving);

  const last = await begin(serving, 2);
  t.equal(await serving.stop(), 0, 'it does not wait for connections to come');
  await last.guest.rest();
});

t.test('tenants: limits are of all GPUs together, tickets of one tenant', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const tenant = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', ...args, '--tenants', file], {
      encoding: 'utf8',
    }).trim();
  const two = tenant('two', '--sessions', '2');
  const little = tenant('little', '--memory', '100M', '--share', '50');
  const few = tenant('few', '--gpus', '0,2');
  const serving = await Serving.start(t, ['--gpus', '3', '--tenants', file]);
  const refused = (token: string, devices: number, hello: Partial<Hello> = {}) =>
    Guest.hello(serving.address, { token, devices, ...hello }).refusal();

  t.match(await refused(two, 3), {
    code: 'OB_TENANT_SESSIONS',
    sentence: /may have 2 sessions, .*; 0 run and wait already, and this would be 3 more$/,
  });
  t.match(await refused(little, 2, { memory: 60n * MiB }), { code: 'OB_TENANT_MEMORY' });
  t.match(await refused(little, 2, { memory: MiB, shareRequest: 30 }), { code: 'OB_TENANT_SHARE' });
  t.match(await refused(few, 3), {
    code: 'OB_TOO_MANY_GPUS',
    sentence: /asks for 3 GPUs; it can have 2 here$/,
    remedy: /OUTBOARD_GPUS/,
  });
  t.match(await refused(few, 4), { code: 'OB_TOO_MANY_GPUS' });

  const { guest, tickets } = await begin(serving, 2, { token: two });
  const [ticket = ''] = tickets;
  t.match(await refused(two, 1), { code: 'OB_TENANT_SESSIONS' }, 'one of two has not come yet');
  const usage = async () => (await stateOf(serving)).tenants.find(({ name }) => name === 'two');
  t.match(await usage(), { sessions: 2 });
  const other = (token: string) => Guest.hello(serving.address, { token, ticket });
  t.match(await other(few).refusal(), { code: 'OB_TICKET' }, 'of another tenant');
  t.match(await other('').refusal(), { code: 'OB_TOKEN_MISSING' });
  const claimed = other(two);
  await claimed.welcome();
  t.match(await usage(), { sessions: 2 });
  t.match(await serving.logged({ msg: 'session begins', session: 2 }), { tenant: 'two', group: 1 });
  await guest.leave();
  await claimed.leave();

  const { guests, welcomes } = await beginAll(serving, 2, { token: few });
  const ids = new Set(welcomes.map(({ session }) => Number(session)));
  const { sessions } = await stateOf(serving);
  t.same(
    sessions
      .filter(({ id }) => ids.has(id))
      .map(({ gpu }) => gpu)
      .sort(),
    [0, 2],
  );
  for (const one of guests) await one.leave();
  await allFree(serving);
});

t.test('many come, go and die in any order: nothing is left', async (t) => {
  const serving = await Serving.start(t, ['--gpus', '3', '--servers-per-gpu', '2']);
  const open = () => readdirSync(`/proc/${serving.child.pid}/fd`).length;
  const { guests } = await beginAll(serving, 3);
  for (const guest of guests) await guest.leave();
  await allFree(serving);
  const before = open();

  // The same each time, as far as times allow.
  let seed = 12345;
  const draw = (most: number) => {
    seed = (seed * 48271) % 2147483647;
    return seed % most;
  };
  const pause = () => new Promise((go) => setTimeout(go, draw(30)));
  const program = async (devices: number, claimed: number, patience: number | null) => {
    const guest = Guest.hello(serving.address, { devices });
    const came = guest.welcome().catch(() => null);
    const gone = (after: number) => new Promise<null>((go) => setTimeout(() => go(null), after));
    const welcome = await (patience === null ? came : Promise.race([came, gone(patience)]));
    const tickets = (welcome?.tickets ?? []).slice(0, claimed);
    const others = tickets.map((ticket) => Guest.hello(serving.address, { ticket }));
    await pause();
    for (const one of [guest, ...others]) await one.leave();
    return welcome !== null;
  };
  const running: Promise<boolean>[] = [];
  for (let round = 0; round < 60; round++) {
    running.push(program(1 + draw(3), draw(3), draw(2) === 0 ? draw(20) : null));
    if (round % 15 === 7) {
      const pids = serving.slotPids();
      const pid = pids[draw(pids.length || 1)];
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
    }
    await pause();
  }
  const served = (await Promise.all(running)).filter(Boolean).length;
  t.ok(served >= 20, `${served} of 60 were served`);
  await allFree(serving);
  // Fewer, if one was on its way out at first.
  while (open() > before) await new Promise((again) => setTimeout(again, 20));
  t.pass('no descriptor either');
  const last = await beginAll(serving, 3);
  t.equal(new Set(last.welcomes.map(uuidOf)).size, 3);
  for (const guest of last.guests) await guest.leave();
});
