// Who may come in: the file and its errors, tokens and certificates, limits, changes while running.
import { createHash } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { OutboardError } from '../../src/base/errors.js';
import { formatListen, parseListen } from '../../src/network/listeners.js';
import { hashAccessToken, newAccessToken } from '../../src/tenants/access-token.js';
import { parseMoment, parseTenants } from '../../src/tenants/file.js';
import {
  allowedGpus,
  type CertificateIdentity,
  check,
  classFor,
  identify,
  isLocal,
  requireLocal,
  type Tenant,
  Tenants,
} from '../../src/tenants/tenants.js';

const full = `version: v1
tenants:
  - name: vision
    tokens:
      - hash: ${hashAccessToken('old')}
        expires: 2027-01-01
      - hash: ${hashAccessToken('new')}
    certificates: [CN=vision, URI=spiffe://lab/vision]
    expires: 2028-06-01T12:00:00Z
    class: best-effort
    uploadCache: true
    moves: false
    limits: { sessions: 2, memory: 8G, share: 150, gpus: [1, GPU-aB] }
  - name: speech
    tokens: [{ hash: "${hashAccessToken('speech')}" }]
operators:
  - name: ann
    tokens: [{ hash: "${hashAccessToken('ann')}", expires: 2027-01-01T00:00:00+01:00 }]
    rights: act
`;

const content = parseTenants(full, 'tenants.yaml');
const [vision, speech] = content.tenants as [Tenant, Tenant];
const before = Date.parse('2026-12-01');
const none = { token: '', certificate: null };

function codeOf(act: () => unknown): string {
  try {
    act();
    return 'none';
  } catch (error) {
    if (error instanceof OutboardError) return error.code;
    throw error;
  }
}

t.test('a file with everything', async (t) => {
  t.match(vision, {
    name: 'vision',
    certificates: ['CN=vision', 'URI=spiffe://lab/vision'],
    expires: Date.parse('2028-06-01T12:00:00Z'),
    class: 'best-effort',
    uploadCache: true,
    moves: false,
    limits: { sessions: 2, memory: 8n << 30n, share: 150, gpus: [1, 'GPU-aB'] },
  });
  t.equal(vision.accessTokens[0]?.expires, Date.parse('2027-01-01T00:00:00Z'));
  t.same(vision.accessTokens[1]?.hash, createHash('sha256').update('new').digest());
  t.match(speech, {
    certificates: [],
    expires: null,
    class: 'latency-strict',
    uploadCache: false,
    moves: true,
    limits: {
      ...{ sessions: null, memory: null, share: null, gpus: null },
      ...{ kernelSeconds: null, idleSeconds: null, graceDisconnectedSeconds: null },
    },
  });
  t.match(content.operators, [{ name: 'ann', rights: 'act', expires: null }]);
  t.same(parseTenants('version: v1', 'x'), { tenants: [], operators: [] });
});

const tenant = 'version: v1\ntenants:\n  - name: a\n';

/** The text, and what is said about it. */
const wrong: [string, string][] = [
  ['', 'f:1: must be object'],
  ['[]', 'f:1: must be object'],
  ['tenants: []', 'f:1: version is missing'],
  ['\n\nversion: v2', 'f:3: version: expected v1'],
  ['version: v1\ntenants:\n  - [', 'f:3: '],
  ['version: v1\nversion: v1', 'f:2: '],
  ['version: v1\ntenants:\n  - {}\n', 'f:3: tenants[0]: name is missing'],
  ['version: v1\ntenants:\n  - name: a b\n', 'f:3: tenants[0].name: expected stands in logs'],
  ['version: v1\ntenants:\n  - name: 7\n', 'f:3: tenants[0].name: must be string'],
  [
    `${tenant}    limit: {}\n`,
    'f:4: tenants[0].limit: there is no such key here; there are name, tokens, certificates, expires, class, uploadCache, moves, limits',
  ],
  [
    `${tenant}    limits:\n      sesions: 3\n`,
    'f:5: tenants[0].limits.sesions: there is no such key',
  ],
  [`${tenant}    limits:\n      sessions: -1\n`, 'f:5: tenants[0].limits.sessions: must be >= 0'],
  [
    `${tenant}    limits:\n      sessions: 1.5\n`,
    'f:5: tenants[0].limits.sessions: must be integer',
  ],
  [
    `${tenant}    limits:\n      memory: 4 apples\n`,
    'f:5: tenants[0].limits.memory: expected a size',
  ],
  [
    `${tenant}    limits:\n      memory: {}\n`,
    'f:5: tenants[0].limits.memory: expected device memory',
  ],
  [
    `${tenant}    limits:\n      gpus: []\n`,
    'f:5: tenants[0].limits.gpus: must NOT have fewer than 1',
  ],
  [`${tenant}    limits:\n      gpus: [gpu0]\n`, 'f:5: tenants[0].limits.gpus[0]: '],
  [`${tenant}    class: urgent\n`, 'f:4: tenants[0].class: expected latency-strict or best-effort'],
  [`${tenant}    expires: soon\n`, 'f:4: tenants[0].expires: expected a day'],
  [`${tenant}    expires: 2027-02-31T99:00:00Z\n`, 'f:4: tenants[0].expires: expected a day'],
  [`${tenant}    certificates: [vision]\n`, 'f:4: tenants[0].certificates[0]: expected'],
  [
    `${tenant}    tokens:\n      - hash: secret\n`,
    'f:5: tenants[0].tokens[0].hash: expected sha256:',
  ],
  [`${tenant}  - name: a\n`, 'f:4: tenants[1].name: name a stands here a second time'],
  [
    `${tenant}operators:\n  - {name: a, rights: act}\n`,
    'f:5: operators[0].name: name a stands here',
  ],
  [`${tenant}operators:\n  - {name: b}\n`, 'f:5: operators[0]: rights is missing'],
  [
    `${tenant}    certificates: [CN=x]\n  - name: b\n    certificates: [CN=x]\n`,
    'f:6: tenants[1].certificates[0]: certificate CN=x stands here a second time',
  ],
  [
    `${tenant}    tokens:\n      - hash: ${hashAccessToken('x')}\noperators:\n  - name: b\n    rights: view\n    tokens:\n      - hash: ${hashAccessToken('x')}\n`,
    'f:10: operators[0].tokens[0].hash: this token stands here a second time',
  ],
];

t.test('every error has its line', async (t) => {
  for (const [text, says] of wrong) {
    try {
      parseTenants(text, 'f');
      t.fail(`taken: ${text}`);
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      t.equal(error.code, 'OB_TENANTS_FILE');
      t.ok(error.message.startsWith(says), `${error.message} | ${says}`);
    }
  }
  t.equal(
    codeOf(() => new Tenants('/no/such/file', pino({ enabled: false }))),
    'OB_TENANTS_MISSING',
  );
});

t.test('moments', async (t) => {
  t.equal(parseMoment('2027-01-31'), Date.UTC(2027, 0, 31));
  t.equal(parseMoment('2027-01-31T01:00+01:00'), Date.UTC(2027, 0, 31));
  for (const text of ['', '2027', 'tomorrow', '2027-13-01', '2027-01-31T12:00:00', '31.1.2027']) {
    t.equal(parseMoment(text), null, text);
  }
});

t.test('tokens', async (t) => {
  const who = (accessToken: string, now = before) =>
    identify(content, { ...none, accessToken }, now).name;
  t.equal(who('new'), 'vision');
  t.equal(who('old'), 'vision', 'several hold at a time');
  t.equal(who('speech'), 'speech');
  t.equal(
    codeOf(() => who('')),
    'OB_TOKEN_MISSING',
  );
  t.throws(() => who('ann'), { code: 'OB_TOKEN_OPERATORS', message: /of the operator ann,/ });
  for (const token of ['x', 'New', 'new ', 'Ann', hashAccessToken('new'), 'x'.repeat(4095)]) {
    t.equal(
      codeOf(() => who(token)),
      'OB_TOKEN_UNKNOWN',
      token.slice(0, 80),
    );
  }
  const later = Date.parse('2027-01-01');
  t.equal(
    codeOf(() => who('old', later)),
    'OB_TOKEN_EXPIRED',
    'at that moment already',
  );
  t.equal(who('old', later - 1), 'vision');
  t.equal(who('new', later), 'vision');
  t.equal(
    codeOf(() => who('new', Date.parse('2028-06-01T12:00:00Z'))),
    'OB_TENANT_EXPIRED',
  );
  const fresh = newAccessToken();
  t.match(fresh, /^outboard_[A-Za-z0-9_-]{43}$/);
  t.not(fresh, newAccessToken());
});

t.test('certificates', async (t) => {
  const who = (some: Partial<CertificateIdentity>, accessToken = '') =>
    identify(
      content,
      { accessToken, certificate: { cn: null, dns: [], uris: [], ...some } },
      before,
    ).name;
  t.equal(who({ cn: 'vision' }), 'vision');
  t.equal(who({ cn: 'x', uris: ['spiffe://lab/other', 'spiffe://lab/vision'] }), 'vision');
  t.equal(
    codeOf(() => who({ dns: ['vision'] })),
    'OB_CERTIFICATE_UNKNOWN',
    'another kind of name',
  );
  t.equal(
    codeOf(() => who({ cn: 'Vision' })),
    'OB_CERTIFICATE_UNKNOWN',
  );
  t.equal(
    codeOf(() => who({})),
    'OB_CERTIFICATE_UNKNOWN',
  );
  t.equal(who({ cn: 'vision' }, 'speech'), 'speech', 'a token decides');
  t.equal(
    codeOf(() => who({ cn: 'vision' }, 'wrong')),
    'OB_TOKEN_UNKNOWN',
  );
  t.throws(() => who({ cn: 'a\nb' }), { message: /CN=a\\u\{a\}b$/ }, 'fit for a log');
});

t.test('limits', async (t) => {
  const usage = { sessions: 1, memory: 6n << 30n, share: 100 };
  const demand = { sessions: 1, memory: 2n << 30n, share: 50 };
  t.equal(check(vision, usage, demand), null, 'to the last byte and percent');
  t.equal(check(vision, { ...usage, sessions: 2 }, demand)?.code, 'OB_TENANT_SESSIONS');
  t.equal(check(vision, { ...usage, sessions: 0 }, { ...demand, sessions: 2 }), null);
  t.match(check(vision, usage, { ...demand, sessions: 2 }), {
    code: 'OB_TENANT_SESSIONS',
    message:
      'tenant vision may have 2 sessions, one for each GPU of a program; 1 run and wait already, and this would be 2 more',
  });
  const one = { ...vision, limits: { ...vision.limits, sessions: 1 } };
  t.match(
    check(one, usage, demand)?.message,
    /^tenant vision may have 1 session, one for each GPU/,
  );
  t.match(check(vision, usage, { ...demand, memory: (2n << 30n) + 1n }), {
    code: 'OB_TENANT_MEMORY',
    result: 2,
    message:
      'tenant vision may have 8 GiB of device memory; its sessions have 6 GiB, and this one asks for 2 GiB (2147483649 bytes)',
  });
  t.equal(check(vision, usage, { ...demand, share: 51 })?.code, 'OB_TENANT_SHARE');
  t.equal(check(speech, { sessions: 1e6, memory: 1n << 60n, share: 1e6 }, demand), null);
});

t.test('classes', async (t) => {
  t.equal(classFor(vision, ''), 'best-effort');
  t.equal(classFor(vision, 'best-effort'), 'best-effort');
  t.equal(
    codeOf(() => classFor(vision, 'latency-strict')),
    'OB_TENANT_CLASS',
  );
  t.equal(classFor(speech, ''), 'latency-strict');
  t.equal(classFor(speech, 'best-effort'), 'best-effort');
});

t.test('GPUs', async (t) => {
  const gpus = ['GPU-aa', 'GPU-bb', 'GPU-AB1', 'GPU-ab2'].map((uuid, index) => ({ index, uuid }));
  t.equal(allowedGpus(speech, gpus), null);
  t.same(allowedGpus(vision, gpus), [1, 2, 3]);
  t.equal(
    codeOf(() => allowedGpus(vision, gpus.slice(0, 1))),
    'OB_TENANT_GPUS',
  );
});

t.test('without a file', async (t) => {
  const local = ['127.0.0.1:1', '127.8.0.1:1', '[::1]:1', 'localhost:1', 'unix:/run/x'];
  const open = ['0.0.0.0:1', '[::]:1', '10.0.0.1:1', 'localhost.example:1', '[::ffff:10.0.0.1]:1'];
  for (const text of local) t.ok(isLocal(parseListen(text)), text);
  for (const text of open) t.notOk(isLocal(parseListen(text)), text);
  t.notOk(isLocal({ kind: 'fd', fd: 3 }));
  requireLocal(local.map(parseListen), formatListen);
  t.equal(
    codeOf(() => requireLocal(open.map(parseListen), formatListen)),
    'OB_TENANTS_NEEDED',
  );
});

t.test('operators', async (t) => {
  const { tenants } = watched(t, path.join(t.testdir({ file: full }), 'file'));
  t.ok(tenants.hasOperators);
  t.same(tenants.operator('ann', before), { name: 'ann', rights: 'act' });
  t.equal(tenants.operator('ann', Date.parse('2026-12-31T23:00:00Z')), null, 'expired');
  t.equal(tenants.operator('new', before), null, "a tenant's token");
  t.equal(tenants.operator('', before), null);
});

/** With the lines of its log, and a promise of the next. */
function watched(t: Test, file: string) {
  const lines: { msg: string; code?: string }[] = [];
  let wake: () => void = () => {};
  const write = (line: string) => {
    lines.push(JSON.parse(line));
    wake();
  };
  const log = pino({ base: null }, { write });
  const tenants = new Tenants(file, log);
  // Watching alone keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  t.teardown(() => {
    clearInterval(alive);
    tenants.close();
  });
  const next = async () => {
    while (lines.length === 0) await new Promise<void>((resolve) => (wake = resolve));
    return lines.shift();
  };
  return { tenants, next };
}

t.test('a change is taken over; a wrong file changes nothing', async (t) => {
  const folder = t.testdir({ file: full });
  const file = path.join(folder, 'file');
  const { tenants, next } = watched(t, file);
  const changes: number[] = [];
  const off = tenants.onChange((content) => changes.push(content.tenants.length));
  t.equal(tenants.identify({ ...none, accessToken: 'new' }, before).name, 'vision');

  writeFileSync(`${file}.new`, `version: v1\ntenants:\n  - name: x\n    limit: 3\n`);
  renameSync(`${file}.new`, file);
  t.match(await next(), {
    code: 'OB_TENANTS_FILE',
    msg: /stay as they were: .*file:4: tenants\[0\]/,
  });
  t.equal(
    tenants.identify({ ...none, accessToken: 'new' }, before).name,
    'vision',
    'still in force',
  );

  rmSync(file);
  t.match(await next(), { code: 'OB_TENANTS_MISSING', msg: /no tenants file/ });
  t.ok(tenants.named('vision'));

  symlinkSync('file', file);
  t.match(await next(), { code: 'OB_TENANTS_FILE', msg: /ELOOP/ });
  t.ok(tenants.named('vision'));

  writeFileSync(`${file}.new`, full.replace('name: vision', 'name: sight'));
  renameSync(`${file}.new`, file);
  t.match(await next(), { msg: 'tenants read' });
  t.equal(tenants.identify({ ...none, accessToken: 'new' }, before).name, 'sight');
  t.equal(tenants.named('vision'), null);
  t.same(changes, [2]);
  off();
  t.ok(tenants.reload());
  t.same(changes, [2]);
});

t.test('as Kubernetes replaces files: a link to a folder is exchanged', async (t) => {
  const folder = t.testdir();
  for (const [name, text] of [
    ['one', full],
    ['two', 'version: v1'],
  ] as const) {
    mkdirSync(path.join(folder, name));
    writeFileSync(path.join(folder, name, 'file'), text);
  }
  symlinkSync('one', path.join(folder, 'data'));
  symlinkSync('data/file', path.join(folder, 'file'));
  const { tenants, next } = watched(t, path.join(folder, 'file'));
  t.equal(tenants.content.tenants.length, 2);
  symlinkSync('two', path.join(folder, 'data.new'));
  renameSync(path.join(folder, 'data.new'), path.join(folder, 'data'));
  t.match(await next(), { msg: 'tenants read' });
  t.equal(tenants.content.tenants.length, 0);
});
