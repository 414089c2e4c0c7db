// Slots that are made when they are wanted, and programs that wait for themselves.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import t from 'tap';
import { build } from '../../../bin/paths.mjs';
import { bytes } from '../../src/cli/table.js';
import { formatAddress, formatBytes } from '../../src/options/values.js';
import { Guest } from '../support/guest.js';
import { outboard, Serving } from '../support/serving.js';

const MiB = 1n << 20n;

t.test('memory decides how many there are, and they go again', async (t) => {
  // What is kept back for each slot is memory that sessions do not get.
  const little = ['--module-memory', '16M', '--pinned-memory', '16M'];
  const serving = await Serving.start(t, ['--slot-idle', '1', ...little]);
  const { memory, slots } = await serving.logged({ msg: 'GPU' });
  t.equal(slots, 2, 'at first');
  const guests: Guest[] = [];
  const limits: bigint[] = [];
  // A parent, and as many children as find memory without asking for any.
  for (let i = 0; i < 5; i++) {
    const guest = Guest.hello(serving.address);
    limits.push((await guest.welcome()).memoryLimit);
    guests.push(guest);
  }
  t.ok(limits.every((limit, index) => index === 0 || limit <= (limits[index - 1] ?? 0n)));
  t.ok(limits[0] && limits[0] >= BigInt(Number(memory)) / 2n - 2n * MiB, 'the first has half');
  t.ok(limits.every((limit) => limit >= BigInt(Number(memory)) / 32n - 2n * MiB));
  const waiting = Guest.hello(serving.address, { memory: BigInt(Number(memory)) / 2n });
  t.equal(await waiting.position(), 1, 'and then one waits');
  await waiting.leave();
  // All at once, for little.
  for (const guest of guests) await guest.leave();
  const small = Array.from({ length: 8 }, () => Guest.hello(serving.address, { memory: 2n * MiB }));
  for (const guest of small) await guest.welcome();
  for (const guest of small) await guest.leave();
  await serving.logged({ msg: 'a slot is not needed any more', slots: 2 });
  const last = Guest.hello(serving.address, { memory: BigInt(Number(memory)) });
  t.equal((await last.welcome()).memoryLimit, BigInt(Number(memory)), 'all of it again');
  await last.leave();
});

t.test('a program that begins while another ends has what that had', async (t) => {
  const serving = await Serving.start(t, []);
  const first = Guest.hello(serving.address);
  const { memoryLimit } = await first.welcome();
  let before = first;
  for (let right = 0, id = 1; right < 5; id++) {
    await before.leave();
    // It is being ended, or has.
    while ((await serving.state()).sessions.some(({ state }) => state !== 'ending'));
    const next = Guest.hello(serving.address);
    const { memoryLimit: limit } = await next.welcome();
    before = next;
    await serving.logged({ session: id, msg: /^session (ends|lost)/ });
    const offered = await serving.logged({ session: id + 1, msg: 'offered' });
    const ended = serving.lines.findIndex(
      ({ session, msg }) => session === id && /^session (ends|lost)/.test(msg),
    );
    // It waits for a moment only, which is short for a slow machine.
    if (ended > serving.lines.indexOf(offered)) continue;
    t.equal(limit, memoryLimit);
    right++;
  }
  const beside = Guest.hello(serving.address);
  t.ok((await beside.welcome()).memoryLimit < memoryLimit, 'and less beside one');
  await before.leave();
  await beside.leave();
});

t.test('what a session gets that does not say is what the operator says', async (t) => {
  const config = path.join(t.testdir({ 'serve.yaml': 'version: v1\nsession-memory: 40%\n' }));
  const serving = await Serving.start(t, ['--config', path.join(config, 'serve.yaml')]);
  const { memory } = await serving.logged({ msg: 'GPU' });
  const part = ((BigInt(Number(memory)) * 2n) / 5n / (2n * MiB) + 1n) * 2n * MiB;
  const first = Guest.hello(serving.address);
  const second = Guest.hello(serving.address);
  for (const guest of [first, second]) t.equal((await guest.welcome()).memoryLimit, part);
  const third = Guest.hello(serving.address);
  t.equal(await third.position(), 1, 'so much is not free');
  const { server, gpus } = await serving.state();
  t.equal(server.sessionMemory, '40%');
  t.equal(gpus[0]?.memory.usual, Number(part));
  const cli = (...args: string[]) =>
    execFileSync(process.execPath, [outboard, ...args], { encoding: 'utf8' });
  for (const args of [['status'], ['top', '--once']]) {
    const shown = cli(...args, '--api', serving.http);
    t.match(shown, / session memory 40%/);
    t.match(shown, new RegExp(`DEFAULT.*\\n.* ${bytes(Number(part))} `));
  }
  await first.leave();
  t.equal((await third.welcome()).memoryLimit, part);
  await second.leave();
  // A tenant that has sessions is told what another one would get, not what they have.
  const server_ = ['--server', formatAddress(serving.address)];
  t.match(
    cli('doctor', ...server_),
    `a session gets ${formatBytes(part)} (--session-memory 40%); `,
  );
  t.match(cli('doctor', ...server_, '--memory', '64M'), 'a session gets 64 MiB; ');
  await third.leave();
});

t.test('a program that waits for itself is told so', async (t) => {
  const serving = await Serving.start(t, ['--servers-per-gpu', '1']);
  const other = Guest.hello(serving.address, { program: 'other' });
  await other.welcome();
  const patient = Guest.hello(serving.address, { program: 'python' });
  t.equal(await patient.position(), 1);
  await other.leave();
  await patient.welcome();
  const child = Guest.hello(serving.address, { program: 'python' });
  t.equal(await child.position(), 1);
  t.match(await child.answer(), {
    queued: { position: 1, warning: /^all sessions \(1\) .*of python on this machine.*OUTBOARD_M/ },
  });
  await serving.logged({ msg: /^all sessions \(1\) that this one waits for/, program: 'python' });
  await child.leave();
  await patient.leave();

  // The guest library says it.
  const client = path.join(build, 'guest-lib', 'test', 'guest-client');
  // The second one begins when the first has its session.
  const second = `while read -r line && [ "$line" != ready ]; do :; done; ${client} init`;
  const script = `${client} server-dies | { ${second}; cat; }`;
  const run = spawn(process.execPath, [outboard, 'run', 'sh', '-c', script], {
    env: { ...process.env, OUTBOARD_SERVER: formatAddress(serving.address) },
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let said = '';
  for await (const part of run.stderr.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    said += part;
    if (said.includes('\n') && said.includes('all sessions')) break;
  }
  t.match(said, /^outboard: all sessions \(1\) that this one waits for are of guest-client on/m);
  const api = ['--api', serving.http];
  const { sessions } = JSON.parse(
    execFileSync(process.execPath, [outboard, 'status', '--json', ...api], { encoding: 'utf8' }),
  );
  execFileSync(process.execPath, [outboard, 'kill', `${sessions[0].id}`, ...api]);
  run.stdin.end('go on\n');
  await once(run, 'close');
});
