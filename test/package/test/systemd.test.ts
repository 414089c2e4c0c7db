// The systemd units: right for systemd, and as closed as they say.
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { serveOptions } from '../../../monitor/src/server/serve-options.js';
import { which } from '../../../scripts/setup/command.mjs';
import { root } from '../../support/paths.js';
import { run } from '../machine.js';

const skip = which('systemd-analyze') === undefined && 'no systemd-analyze';
const source = path.join(root, 'deploy', 'systemd');
const service = readFileSync(path.join(source, 'outboard.service'), 'utf8');

/** The units in a folder where the command is there, as systemd-analyze wants it. */
function units(t: Test) {
  const folder = t.testdir();
  const command = path.join(folder, 'outboard');
  symlinkSync(process.execPath, command);
  cpSync(path.join(source, 'outboard.socket'), path.join(folder, 'outboard.socket'));
  const placed = service.replaceAll('/usr/bin/outboard', command);
  writeFileSync(path.join(folder, 'outboard.service'), placed);
  return ['outboard.service', 'outboard.socket'].map((unit) => path.join(folder, unit));
}

t.test('systemd finds nothing wrong', { skip }, async (t) => {
  const checked = await run(['systemd-analyze', 'verify', '--man=no', ...units(t)]);
  t.same(checked, { code: 0, signal: null, stdout: '', stderr: '' });
});

t.test('exposed less than 2.0 of 10', { skip }, async (t) => {
  const [unit = ''] = units(t);
  const argv = ['systemd-analyze', 'security', '--no-pager', '--offline=true', '--threshold=19'];
  const { code, stdout } = await run([...argv, unit]);
  t.equal(code, 0, stdout);
  t.match(stdout, /Overall exposure level for outboard.service: 1\.\d/);
});

t.test('the sandbox of slots may be made', { skip }, async (t) => {
  const filters = [...service.matchAll(/^SystemCallFilter=([^~].*)$/gm)];
  const allowed = new Set<string>();
  const waiting = filters.flatMap(([, names = '']) => names.split(/\s+/));
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (allowed.has(name)) continue;
    allowed.add(name);
    if (!name.startsWith('@')) continue;
    const { stdout } = await run(['systemd-analyze', '--no-pager', 'syscall-filter', name]);
    waiting.push(...[...stdout.matchAll(/^ +([@\w-]+)$/gm)].map(([, one = '']) => one));
  }
  t.ok(allowed.has('openat'), 'sets are known');
  const landlock = ['create_ruleset', 'add_rule', 'restrict_self'].map((one) => `landlock_${one}`);
  for (const call of [...landlock, 'seccomp', 'prctl']) t.ok(allowed.has(call), call);
});

t.test('systemd waits longer than sessions get', async (t) => {
  const [, stop = ''] = /^TimeoutStopSec=(\d+)$/m.exec(service) ?? [];
  // What they get when they have been told is 5 seconds: commands/serve.ts.
  t.ok(Number(stop) >= serveOptions.grace.fallback + 10, `${stop} s`);
});

t.test('what sessions can take is bounded, and within what they may have', async (t) => {
  const number = (text: string, name: RegExp) => Number(name.exec(text)?.[1]);
  const setting = (name: string) => number(service, new RegExp(`^${name}=(\\d+)`, 'm'));
  const executor = path.join(root, 'api-server', 'executor');
  const limits = readFileSync(path.join(executor, 'base', 'session_limits.h'), 'utf8');
  const pool = readFileSync(path.join(executor, 'session', 'thread_pool.h'), 'utf8');
  const limit = (name: string) => {
    const most = new RegExp(`LIMIT\\(${name}, ([^)]*)\\)`).exec(limits)?.[1] ?? '';
    const [value = Number.NaN, shift = 0] = most.split('<<').map(Number);
    return value * 2 ** shift;
  };
  const files = limit('shareable') + limit('lendable') + limit('offers');
  const strangers = serveOptions['hello-limit'].fallback;
  t.ok(setting('LimitNOFILE') > 2 * (files + strangers), `${files} files of a session`);
  const threads = number(pool, /kMost = (\d+);/);
  // Slots may have half (api-server/confine/confine.c), and leave the server some.
  const slots = setting('LimitNPROC') / 2;
  t.ok(slots > 8 * 16 * (threads + 100), `${threads} threads of a session`);
  t.ok(setting('TasksMax') >= slots + 10_000, 'and the server can go on');
  t.match(service, /^MemoryMax=\d+%$/m);
  t.match(service, /^OOMPolicy=continue$/m);
});

t.test('what V8 and GPUs need is not taken from them', async (t) => {
  t.notMatch(service, /^(?:MemoryDenyWriteExecute|PrivateDevices|PrivateUsers)=yes/m);
  t.match(service, /^DeviceAllow=char-nvidia\* rwm$/m);
});
