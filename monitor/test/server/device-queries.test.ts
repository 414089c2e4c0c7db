// Queries at a live server: no slot, no queue, nothing of other tenants.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import t from 'tap';
import { encodeHello } from '../../../api-server/src/control.js';
import { asking, Guest, usualHello } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const MiB = 1n << 20n;

t.test('while every slot is taken and somebody waits', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const ask = (...given: Parameters<typeof asking>) =>
    Guest.hello(serving.address, asking(...given)).report();
  const before = await ask();
  t.equal(before.devices.length, 1);
  t.equal(before.processes.length, 0);
  t.ok((before.devices[0]?.memoryTotal ?? 0n) > 0n);

  const running = Guest.hello(serving.address, { memory: 128n * MiB, program: 'train', pid: 77 });
  const welcome = await running.welcome();
  const waiting = Guest.hello(serving.address);
  t.equal(await waiting.position(), 1);
  const during = await ask();
  t.match(during.devices, [{ memoryTotal: 128n * MiB, memoryUsed: 0n }]);
  t.match(during.processes, [
    { session: welcome.session, pid: 77, host: 'here', program: 'train' },
  ]);
  const [device] = welcome.devices;
  t.same(
    { name: during.devices[0]?.name, uuid: during.devices[0]?.uuid },
    { name: device?.name, uuid: device?.uuid },
  );
  t.equal(during.devices[0]?.pciBusId, device?.pciBusId);
  t.equal(during.driverVersion, welcome.driverVersion);
  t.match((await ask(welcome.session)).devices, during.devices);
  await running.leave();
  const { session: last } = await waiting.welcome();
  await waiting.leave();
  await serving.logged({ msg: 'session begins', session: Number(last) });
  const begun = serving.lines.filter(({ msg }) => msg === 'session begins');
  t.equal(begun.length, 2, 'queries are no sessions');
});

t.test('of a tenant, and of no other', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const tenant = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', ...args, '--tenants', file], {
      encoding: 'utf8',
    }).trim();
  const acme = tenant('acme', '--sessions', '1');
  const other = tenant('other', '--gpus', '1');
  const serving = await Serving.start(t, ['--gpus', '2', '--tenants', file]);
  const ask = (token: string, session = 0n, devices = 2) =>
    Guest.hello(serving.address, { ...asking(session), token, devices });

  const hidden = { program: 'secret-of-acme', host: 'host-of-acme', token: acme };
  const guest = Guest.hello(serving.address, { ...hidden, memory: 64n * MiB });
  const { session } = await guest.welcome();
  const own = await ask(acme).report();
  t.equal(own.devices.length, 2);
  t.match(own.processes, [{ session, program: 'secret-of-acme', host: 'host-of-acme' }]);

  for (const guessed of [0n, session]) {
    const seen = await ask(other, guessed).report();
    t.equal(seen.devices.length, 1, 'it may use one of the two');
    t.same(seen.processes, []);
    t.match(seen.devices, [{ memoryUsed: 0n, busy: 0, uuid: own.devices[1]?.uuid }]);
  }
  t.equal((await ask(acme, 0n, 0).report()).devices.length, 1, 'as many as a session gets');
  t.match(await ask('').refusal(), { code: 'OB_TOKEN_MISSING', result: 800 });
  t.match(await ask('wrong').refusal(), { code: 'OB_TOKEN_UNKNOWN', result: 800 });
  await guest.leave();
});

t.test('a server that knows no queries refuses them instead of giving a slot away', async (t) => {
  const serving = await Serving.start(t);
  const unknown = encodeHello({ ...usualHello, ...asking(), query: null });
  const guest = new Guest(serving.address);
  guest.send(unknown);
  t.match(await guest.refusal(), { code: 'OB_HELLO_VALUE' });
});
