// A server with a tenants file: who gets in, with what, and what operators see of it.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { parseListen } from '../../src/network/listeners.js';
import { ask } from '../support/api.js';
import { DescriptorLimit } from '../support/descriptors.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const MiB = 1n << 20n;

t.test('tenants come with tokens, and have what they may have', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const tenant = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', ...args, '--tenants', file], {
      encoding: 'utf8',
    }).trim();
  const acme = tenant('add', 'acme', '--sessions', '2', '--memory', '256M', '--share', '60');
  const other = tenant('add', 'other', '--gpus', '1', '--class', 'best-effort');
  const serving = await Serving.start(t, ['--gpus', '2', '--tenants', file]);
  const hello = (token: string, rest = {}) => Guest.hello(serving.address, { token, ...rest });
  const state = () => serving.state();

  t.match(await hello('').refusal(), { code: 'OB_TOKEN_MISSING' });
  t.match(await hello('wrong').refusal(), { code: 'OB_TOKEN_UNKNOWN' });

  const first = hello(acme, { memory: 128n * MiB, shareRequest: 40, name: 'resize' });
  await first.welcome();
  t.match(await hello(acme, { memory: 129n * MiB }).refusal(), { code: 'OB_TENANT_MEMORY' });
  t.match(await hello(acme, { memory: MiB, shareRequest: 21 }).refusal(), {
    code: 'OB_TENANT_SHARE',
  });
  const second = hello(acme, { memory: 2n * MiB });
  await second.welcome();
  t.match(await hello(acme, { memory: 2n * MiB }).refusal(), { code: 'OB_TENANT_SESSIONS' });

  const third = hello(other);
  await third.welcome();
  t.match(await hello(other, { sessionClass: 'latency-strict' }).refusal(), {
    code: 'OB_TENANT_CLASS',
  });
  const { sessions, tenants } = await state();
  t.match(
    sessions.find(({ tenant }) => tenant === 'other'),
    { gpu: 1, class: 'best-effort' },
  );
  t.match(
    sessions.find(({ name }) => name === 'resize'),
    { tenant: 'acme', share: { request: 40 }, memory: { limit: Number(128n * MiB) } },
  );
  t.match(
    tenants.find(({ name }) => name === 'acme'),
    { sessions: 2, queued: 0, share: 40, memory: Number(130n * MiB) },
  );

  await first.leave();
  await second.leave();
  const before = serving.lines.length;
  tenant('remove', 'acme');
  await serving.logged({ msg: 'tenants read' }, before);
  t.match(await hello(acme).refusal(), { code: 'OB_TOKEN_UNKNOWN' });
  t.ok(
    (await state()).sessions.some(({ tenant }) => tenant === 'other'),
    'others go on',
  );
  await third.leave();
  t.notMatch(serving.log, acme, 'tokens are in no log');
});

t.test('who does not ask gets what its tenant has left, or waits and is passed', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', ...args, '--tenants', file], {
      encoding: 'utf8',
    }).trim();
  const [small, other] = [add('small', '--memory', '300M'), add('other')];
  const args = ['--session-memory', '200M', '--servers-per-gpu', '4', '--tenants', file];
  const serving = await Serving.start(t, args);
  const comes = (token: string) => Guest.hello(serving.address, { token, program: 'python' });
  const first = comes(small);
  t.equal((await first.welcome()).memoryLimit, 200n * MiB);
  const second = comes(small);
  t.equal(await second.position(), 1, 'it is not refused, and gets no less than others');
  const third = comes(other);
  t.equal((await third.welcome()).memoryLimit, 200n * MiB, 'nobody waits behind it');
  t.match(await second.answer(), {
    queued: { warning: /\(1\) that this one waits for are of py/ },
  });
  await first.leave();
  t.equal((await second.welcome()).memoryLimit, 200n * MiB);
  for (const guest of [second, third]) await guest.leave();

  // Where the usual is half of what is left, that is said of the limit, too.
  const halves = await Serving.start(t, ['--tenants', file]);
  const more = [1, 2, 3].map(() => Guest.hello(halves.address, { token: small }));
  const limits = [];
  for (const guest of more) limits.push((await guest.welcome()).memoryLimit);
  t.same(limits, [150n * MiB, 74n * MiB, 38n * MiB]);
  for (const guest of more) await guest.leave();
});

t.test('an operator promises more than a tenant may have only knowingly', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = ['tenant', 'add', 'acme', '--share', '50', '--tenants', file];
  const token = execFileSync(process.execPath, [outboard, ...add], { encoding: 'utf8' }).trim();
  const serving = await Serving.start(t, ['--gpus', '2', '--tenants', file]);
  const guest = Guest.hello(serving.address, { token, shareRequest: 20, shareLimit: 20 });
  await guest.welcome();
  const other = Guest.hello(serving.address, { token, shareRequest: 20, shareLimit: 20 });
  await other.welcome();
  const http = parseListen(serving.http);
  const set = (body: unknown) => ask(http, 'PUT', '/v1/sessions/1/share', body);
  t.match(await set({ request: 31, limit: 31 }), {
    status: 409,
    json: {
      code: 'OB_QUOTA_TENANT',
      message: /session 1 .* 31 percent: tenant acme may be promised 50, .* promised 20$/,
      remedy: /outboard tenant set NAME --share PERCENT.*--beyond-limit/,
    },
  });
  t.match(await set({ request: 30, limit: 10 }), {
    status: 400,
    json: { code: 'OB_QUOTA', message: /30:10 percent: the limit is below/ },
  });
  t.match(await set({ request: 30, limit: 40 }), {
    status: 200,
    json: { share: { request: 30, limit: 40, beyondLimit: false } },
  });
  const beyond = await set({ request: 70, limit: 70, beyondLimit: true });
  t.match(beyond, { status: 200, json: { share: { request: 70, beyondLimit: true } } });
  const { sessions, tenants } = await serving.state();
  t.match(
    sessions.map(({ share }) => share.beyondLimit),
    [true, false],
  );
  t.match(tenants, [{ share: 90, limits: { share: 50 } }]);
  const less = await set({ request: 60, limit: 60 });
  t.match(less, { status: 200, json: { share: { beyondLimit: true } } }, 'less is no more');
  const within = await set({ request: 30, limit: 30 });
  t.match(within, { status: 200, json: { share: { beyondLimit: false } } });
  await guest.leave();
  await other.leave();
});

t.test('a change that cannot be read for want of descriptors is read later', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  writeFileSync(file, 'version: v1\ntenants: []\n');
  const serving = await Serving.start(t, ['--servers-per-gpu', '1', '--tenants', file]);
  const descriptors = new DescriptorLimit(serving.child.pid);
  descriptors.leave(0);
  writeFileSync(file, `version: v1\ntenants:\n  - name: vision\n`);
  await serving.logged({ code: 'OB_DESCRIPTORS' });
  descriptors.reset();
  await serving.logged({ msg: 'tenants read' });
  t.notOk(serving.lines.some(({ code }) => code === 'OB_TENANTS_FILE'));
});

t.test('without a tenants file only this machine is served', async (t) => {
  const args = ['serve', '--listen', '0.0.0.0:0', '--http', 'none', '--device', 'software'];
  await t.rejects(Serving.start(t, args), { message: /ended with 3:.*OB_TENANTS_NEEDED/s });
  const serving = await Serving.start(t);
  await serving.logged({ msg: /no tenants file: only this machine/ });
});

t.test('tenants need operators, where the HTTP API is on TCP', async (t) => {
  const file = path.join(t.testdir(), 'tenants.yaml');
  const add = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, 'tenant', 'add', ...args, '--tenants', file], {
      encoding: 'utf8',
    }).trim();
  add('acme');
  const args = ['--tenants', file, '--http', '127.0.0.1:0'];
  const refused = Serving.launch(t, args);
  t.equal(await refused.exit, 3);
  t.match(await refused.logged({ code: 'OB_OPERATORS_NEEDED' }), {
    msg: /127\.0\.0\.1:0 .*tenants\.yaml/,
    remedy: /--operator act.*--http unix:PATH.*--http none/,
  });

  const ann = add('ann', '--operator', 'act');
  const serving = await Serving.start(t, args);
  const asks = async (headers: Record<string, string> = {}) =>
    (await fetch(`${serving.http}v1/state`, { headers })).status;
  const headers = { authorization: `Bearer ${ann}` };
  t.equal(await asks(headers), 200);
  t.equal(await asks(), 401);
  const before = serving.lines.length;
  execFileSync(process.execPath, [outboard, 'tenant', 'remove', 'ann', '--tenants', file]);
  await serving.logged({ msg: 'tenants read' }, before);
  t.equal(await asks(headers), 401);
  t.equal(await asks(), 401, "without operators it does not become everybody's");
});
