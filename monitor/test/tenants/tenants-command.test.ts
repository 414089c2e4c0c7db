// `outboard tenant`, the real command, on real files; and several of them at once.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { holderOf } from '../../src/tenants/access-token.js';
import { readTenantsFile } from '../../src/tenants/file.js';
import { outboard } from '../support/serving.js';

function command(args: string[], env: NodeJS.ProcessEnv = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [outboard, 'tenant', ...args], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

/** On a file of its own. */
function onFile(t: Test, text?: string) {
  const file = path.join(t.testdir(text === undefined ? {} : { tenants: text }), 'tenants');
  const run = (...args: string[]) => command(args, { OUTBOARD_TENANTS: file });
  const good = (...args: string[]) => {
    const { status, stdout, stderr } = run(...args);
    if (status !== 0) throw new Error(stderr);
    return stdout;
  };
  return { file, run, good };
}

const tokenForm = /^outboard_[A-Za-z0-9_-]{43}\n$/;

t.test('add: the file, the token, what it may have', async (t) => {
  const { file, good } = onFile(t);
  const words = '--sessions 3 --memory 64G --share 150 --gpus 0,GPU-4e1f --class best-effort';
  const more =
    '--expires 2027-01-31 --certificates CN=vision,URI=spiffe://lab/vision --upload-cache --moves no';
  const token = good('add', 'vision', ...words.split(' '), ...more.split(' '));
  t.match(token, tokenForm);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.notMatch(readFileSync(file, 'utf8'), token.trim(), 'only its hash is kept');
  const { tenants } = readTenantsFile(file);
  t.match(tenants, [
    {
      name: 'vision',
      class: 'best-effort',
      uploadCache: true,
      moves: false,
      expires: Date.UTC(2027, 0, 31),
      certificates: ['CN=vision', 'URI=spiffe://lab/vision'],
      limits: { sessions: 3, memory: 64n << 30n, share: 150, gpus: [0, 'GPU-4e1f'] },
    },
  ]);
  t.equal(holderOf(token.trim(), tenants)?.holder.name, 'vision');

  const second = JSON.parse(good('add', '--json', 'speech'));
  t.match(second, { name: 'speech', token: /^outboard_/ });
  good('add', 'ann', '--operator', 'act');
  const content = readTenantsFile(file);
  t.equal(holderOf(second.token, content.tenants)?.holder.name, 'speech');
  t.match(content.operators, [{ name: 'ann', rights: 'act' }]);
});

t.test('a token into a file', async (t) => {
  const { file, run, good } = onFile(t);
  const secret = path.join(path.dirname(file), 'secret');
  writeFileSync(secret, 'an older one', { mode: 0o644 });
  t.equal(good('add', 'vision', '--token-file', secret), '');
  t.equal(statSync(secret).mode & 0o777, 0o600);
  const token = readFileSync(secret, 'utf8');
  t.match(token, tokenForm);
  t.equal(holderOf(token.trim(), readTenantsFile(file).tenants)?.holder.name, 'vision');
  const nowhere = run('add', 'speech', '--token-file', '/no/such/folder/secret');
  t.match(nowhere, { status: 2, stdout: '', stderr: /--token-file .* cannot be written/ });
  t.equal(readTenantsFile(file).tenants.length, 1, 'and nothing was added');
  t.same(readdirSync(path.dirname(file)).sort(), ['secret', 'tenants'], 'nothing is left behind');
});

const commented = `# Ours.
version: v1

operators: []
# The teams:
tenants:
  # night shift
  - name: vision # Bob's
    tokens:
      # on the build machine
      - hash: sha256:${'1'.repeat(64)}
      - hash: sha256:${'2'.repeat(64)}
        expires: 2001-01-01
    limits: {sessions: 4}

  - name: speech
`;

t.test('comments and order stay', async (t) => {
  const { file, good } = onFile(t, commented);
  chmodSync(file, 0o640);
  good('add', 'music');
  const text = readFileSync(file, 'utf8');
  const lines = commented.split('\n').filter(Boolean);
  for (const line of lines)
    t.ok(
      text.includes(line.replaceAll(/[{}]/g, '').trim()) ||
        text.includes(line.replace('{sessions: 4}', '{ sessions: 4 }')),
      line,
    );
  const places = ['# Ours', 'operators', '# The teams', '# night shift', 'speech', 'music'];
  const found = places.map((place) => text.indexOf(place));
  t.same(
    found,
    [...found].sort((a, b) => a - b),
  );
  t.equal(statSync(file).mode & 0o777, 0o640, 'and its mode');
  good('remove', 'music');
  t.equal(readFileSync(file, 'utf8'), text.slice(0, text.indexOf('  - name: music')));
});

t.test('set: what is named changes, and nothing else', async (t) => {
  const { file, run, good } = onFile(t, commented);
  const limits = () => readTenantsFile(file).tenants.map(({ limits }) => limits);
  t.match(run('set', 'vision', '--share', '30', '--memory', '8G', '--gpus', '0,1'), {
    status: 0,
    stdout: '',
    stderr: /^vision has now: memory 8G, share 30, gpus 0,1\. Sessions that run are left alone/,
  });
  t.match(limits()[0], { sessions: 4, share: 30, memory: 8n << 30n, gpus: [0, 1] });
  t.match(JSON.parse(good('set', 'vision', '--sessions', 'none', '--share', '40', '--json')), {
    name: 'vision',
    set: { sessions: null, share: 40 },
  });
  t.match(limits()[0], { sessions: null, share: 40, memory: 8n << 30n });
  good('set', 'vision', '--share', 'none', '--memory', 'none', '--gpus', 'none');
  t.match(limits()[0], { sessions: null, share: null, memory: null, gpus: null });
  t.notMatch(readFileSync(file, 'utf8'), /limits/, 'nothing empty is left');
  good('set', 'speech', '--class', 'best-effort', '--upload-cache', '--expires', '2027-01-31');
  t.match(run('set', 'speech', '--moves', 'no').stderr, /^speech has now: moves no\. .* too\.\n$/);
  const [vision, speech] = readTenantsFile(file).tenants;
  t.match(vision, { class: 'latency-strict', accessTokens: { length: 2 } });
  const moment = Date.UTC(2027, 0, 31);
  t.match(speech, { class: 'best-effort', uploadCache: true, moves: false, expires: moment });
  good('set', 'speech', '--no-upload-cache', '--expires', 'none', '--idle-seconds', '60');
  const both = run('set', 'speech', '--moves', 'yes', '--grace-disconnected', '0');
  t.match(both.stderr, /: moves yes, graceDisconnectedSeconds 0\. Sessions .* alone, but .* moves/);
  const changed = readTenantsFile(file).tenants[1];
  t.match(changed, { uploadCache: false, moves: true, expires: null });
  t.match(changed?.limits, { idleSeconds: 60, graceDisconnectedSeconds: 0 });
  good('set', 'speech', '--grace-disconnected', 'none');
  t.match(readTenantsFile(file).tenants[1]?.limits, { graceDisconnectedSeconds: null });
  const text = readFileSync(file, 'utf8');
  for (const kept of ['# Ours.', '# night shift', "# Bob's", '# on the build machine']) {
    t.ok(text.includes(kept), kept);
  }
  good('add', 'ann', '--operator', 'view');
  good('set', 'ann', '--operator', 'act');
  t.match(readTenantsFile(file).operators, [{ name: 'ann', rights: 'act' }]);
  const wrong = run('set', 'ann', '--share', '5');
  t.match(wrong, {
    status: 3,
    stderr: /ann is an operator, which has no share \(OB_TENANT_KIND\)/,
  });
});

t.test('rotate: old and new hold for a while', async (t) => {
  const { file, good } = onFile(t, commented);
  const begin = Date.now();
  const token = good('rotate', 'vision', '--overlap', '2h', '--expires', '2040-01-01').trim();
  const { tenants } = readTenantsFile(file);
  const [fresh, old, ...others] = tenants[0]?.accessTokens ?? [];
  t.equal(others.length, 0, 'what had ended is gone');
  t.equal(holderOf(token, tenants)?.accessToken, fresh);
  t.equal(fresh?.expires, Date.UTC(2040, 0, 1));
  t.equal(old?.hash.toString('hex'), '1'.repeat(64));
  const overlap = (old?.expires ?? 0) - begin;
  t.ok(overlap > 7_190_000 && overlap < 7_500_000, `${overlap} ms`);
  t.match(readFileSync(file, 'utf8'), /# on the build machine/);
  // An end that comes sooner is not put off.
  const again = good('rotate', 'vision').trim();
  const tokens = readTenantsFile(file).tenants[0]?.accessTokens ?? [];
  t.equal(tokens.length, 3);
  t.equal(tokens[2]?.expires, old?.expires);
  t.equal(holderOf(again, readTenantsFile(file).tenants)?.accessToken.expires, null);
  good('rotate', 'vision', '--overlap', '0');
  const last = readTenantsFile(file).tenants[0]?.accessTokens ?? [];
  t.ok(last.slice(1).every(({ expires }) => expires !== null && expires <= Date.now()));
});

t.test('a date that has passed is said to have', async (t) => {
  const { run } = onFile(t, commented);
  const past = ['--expires', '2001-01-01'];
  const warning = (what: string) =>
    new RegExp(`^--expires 2001-01-01 is in the past: ${what}\\.$`, 'm');
  t.match(run('set', 'vision', ...past).stderr, warning('vision is not admitted'));
  t.match(run('add', 'late', ...past).stderr, warning('late is not admitted'));
  t.match(run('add', 'ann', '--operator', 'act', ...past).stderr, warning('ann is not admitted'));
  const rotated = run('rotate', 'speech', '--json', ...past);
  t.match(rotated.stderr, warning('the new access token of speech does not hold'));
  t.match(JSON.parse(rotated.stdout), { name: 'speech' }, 'and stdout is for programs');
  for (const fine of [[], ['--expires', 'none'], ['--expires', '2400-01-01']]) {
    t.notMatch(run('set', 'vision', '--share', '10', ...fine).stderr, /in the past/);
  }
});

t.test('list', async (t) => {
  const { good } = onFile(t, commented);
  t.equal(
    good('list'),
    'TENANT  TOKENS  CLASS           SESSIONS  MEMORY  SHARE  GPUS  UPLOADS  MOVES  EXPIRES\n' +
      'vision  2       latency-strict  4         -       -      all   -        yes    -\n' +
      'speech  0       latency-strict  -         -       -      all   -        yes    -\n',
  );
  const { tenants } = JSON.parse(good('list', '--json'));
  t.match(tenants[0], { name: 'vision', limits: { sessions: 4, memory: null } });
  t.equal(tenants[0].tokens[0].hash, 'sha256:11111111', 'no more of it');
});

t.test('remove the last one', async (t) => {
  const { file, good } = onFile(t);
  good('add', 'vision');
  t.match(JSON.parse(good('remove', 'vision', '--json')), { name: 'vision', removed: true });
  t.same(readTenantsFile(file).tenants, []);
  good('add', 'vision');
  t.equal(readTenantsFile(file).tenants.length, 1);
});

t.test('a link stays a link', async (t) => {
  const { file, good } = onFile(t, commented);
  const link = `${file}.link`;
  symlinkSync('tenants', link);
  good('add', 'music', '--tenants', link);
  t.ok(lstatSync(link).isSymbolicLink());
  t.equal(readTenantsFile(file).tenants.length, 3);
});

t.test('mistakes', async (t) => {
  const { file, run } = onFile(t, commented);
  const says = (args: string[], status: number, stderr: RegExp) =>
    t.match(run(...args), { status, stdout: '', stderr }, args.join(' '));
  says([], 2, /no action; there are add, set, rotate, remove, list/);
  says(['ad', 'x'], 2, /no action ad/);
  says(['add'], 2, /a name is missing/i);
  says(['add', 'a b'], 2, /the name "a b" is not understood/);
  says(['add', 'a', 'b'], 2, /Unexpected argument 'b'/);
  says(['add', 'a', '--memory', 'much'], 2, /--memory much is not understood: expected a size/);
  says(['add', 'a', '--gpus', '0,x'], 2, /--gpus 0,x is not understood: expected indices/);
  says(['add', 'a', '--expires', 'soon'], 2, /expected a day/);
  says(['rotate', 'vision', '--overlap', 'long'], 2, /expected a time/);
  says(['list', 'vision'], 2, /list takes no name/);
  says(
    ['add', 'vision'],
    3,
    /names vision already \(OB_TENANT_EXISTS\)\n.*`outboard tenant set NAME`/,
  );
  says(['set', 'vision'], 2, /set what\? Name it with an option/);
  says(['set', 'nobody', '--share', '5'], 3, /names no nobody \(OB_TENANT_NOT_THERE\)/);
  says(['set', 'vision', '--share', 'x'], 2, /--share x is not understood: expected percent/);
  says(['set', 'vision', '--operator', 'act'], 3, /vision is a tenant, which has no rights/);
  says(['set', 'vision', '--certificates', 'x'], 3, /certificates\[0\]: .*OB_TENANTS_FILE/s);
  says(['remove', 'nobody'], 3, /names no nobody \(OB_TENANT_NOT_THERE\)/);
  says(['add', 'a', '--certificates', 'x'], 3, /certificates\[0\]: expected .*OB_TENANTS_FILE/s);
  says(['list', '--tenants', '/no/such'], 3, /OB_TENANTS_MISSING.*tenant add NAME/s);
  says(
    ['add', 'a', '--tenants', '/no/such/file'],
    3,
    /the tenants file \/no\/such\/file cannot be written: there is no folder \/no\/such \(OB_TENANTS_WRITE\)\n.*a folder that is there/,
  );
  says(['add', 'a', '--tenants', `${file}/under`], 3, /cannot be written: .*tenants is no folder/);
  t.equal(readFileSync(file, 'utf8'), commented, 'and nothing has changed');
  t.match(command(['list'], { OUTBOARD_TENANTS: '' }), { status: 2, stderr: /no file: name it/ });
  writeFileSync(file, 'version: v1\ntenant: []\n');
  says(['add', 'a'], 3, /tenants:2: tenant: there is no such key/);
  t.notOk(existsSync(`${file}.link`));
});

t.test('many at once: every one is there', async (t) => {
  const { file } = onFile(t);
  const names = Array.from({ length: 8 }, (_, i) => `tenant-${i}`);
  const children = names.map((name) =>
    spawn(process.execPath, [outboard, 'tenant', 'add', name, '--tenants', file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }),
  );
  const tokens = await Promise.all(children.map(printed));
  const { tenants } = readTenantsFile(file);
  t.same(tenants.map(({ name }) => name).sort(), names);
  for (const [i, token] of tokens.entries()) {
    t.equal(holderOf(token.trim(), tenants)?.holder.name, names[i]);
  }
});

async function printed(child: ChildProcess): Promise<string> {
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(child, 'close');
  return text;
}
