// The HTTP API over operations in memory: answers, refusals, who may, and the OpenAPI document.
import { once } from 'node:events';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { validate } from '@readme/openapi-parser';
import { Ajv } from 'ajv';
import { Ajv2020, type AnySchema } from 'ajv/dist/2020.js';
import { pino } from 'pino';
import t from 'tap';
import { WebSocket } from 'ws';
import { buildApp, newMetrics } from '../../src/api/api.js';
import { History } from '../../src/api/history.js';
import { openapi } from '../../src/api/openapi.js';
import { routes } from '../../src/api/routes.js';
import { TenantsSchema } from '../../src/tenants/file.js';
import { ask, somePolicies, TestApi } from '../support/api.js';
import { MemoryOperations, session } from '../support/operations.js';

t.test('the state and its parts', async (t) => {
  const api = await TestApi.start(t);
  const state = await api.ask('GET', '/v1/state');
  t.equal(state.status, 200);
  const { server, ...parts } = api.operations.view();
  t.match(state.json, { server: { ...server, now: String }, ...parts });
  t.same((await api.ask('GET', '/v1/gpus')).json, parts.gpus);
  t.same((await api.ask('GET', '/v1/sessions')).json, parts.sessions);
  t.same((await api.ask('GET', '/v1/sessions/1')).json, parts.sessions[0]);
  t.same((await api.ask('GET', '/v1/queue')).json, parts.queue);
  t.same((await api.ask('GET', '/v1/tenants')).json, parts.tenants);
  t.same((await api.ask('GET', '/v1/policies')).json, somePolicies);
  t.equal((await api.ask('HEAD', '/v1/state')).text, '');
});

t.test(
  'a view that holds no more than it should: what is not described does not go out',
  async (t) => {
    const api = await TestApi.start(t);
    Object.assign(api.operations.tenants[0] ?? {}, { token: 'secret' });
    const { text } = await api.ask('GET', '/v1/state');
    t.match(text, 'acme');
    t.notMatch(text, 'secret');
  },
);

t.test('acts', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  const share = await api.ask('PUT', '/v1/sessions/1/share', { body: { request: 40, limit: 80 } });
  t.match(share, { status: 200, json: { id: 1, share: { request: 40, limit: 80 } } });
  const killed = await api.ask('DELETE', '/v1/sessions/1?reason=too%0along');
  t.match(killed, { status: 204, text: '' });
  t.equal((await api.ask('DELETE', '/v1/sessions/2')).status, 204);
  t.same(operations.killed, [
    [1, 'too long'],
    [2, 'ended by operator local'],
  ]);
  const emptied = { sessions: 0, queued: 0 };
  t.match(await api.ask('PUT', '/v1/drain'), { status: 200, json: { draining: true, ...emptied } });
  t.equal(operations.draining, true);
  t.same((await api.ask('GET', '/v1/drain')).json, { draining: true, ...emptied });
  t.same((await api.ask('DELETE', '/v1/drain')).json, { draining: false, ...emptied });
  t.equal(operations.draining, false);
});

t.test('the newest lines of the log', async (t) => {
  const api = await TestApi.start(t);
  const lines = [1, 2, 3].map((time) => ({ time, level: 'info', msg: `line ${time}`, gpu: 0 }));
  for (const line of lines) api.operations.log(line);
  t.same((await api.ask('GET', '/v1/logs')).json, lines);
  t.same((await api.ask('GET', '/v1/logs?lines=2')).json, lines.slice(1));
  t.match(await api.ask('GET', '/v1/logs?lines=0'), { status: 400 });
});

t.test('refusals say what was wrong and what to do', async (t) => {
  const api = await TestApi.start(t);
  const wrong: [string, string, unknown, number, string, RegExp][] = [
    ['GET', '/v1/sessions/77', undefined, 404, 'OB_NO_SESSION', /no session 77/],
    ['DELETE', '/v1/sessions/77', undefined, 404, 'OB_NO_SESSION', /no session 77/],
    ['GET', '/v1/sessions/x', undefined, 400, 'OB_API_REQUEST', /id must be integer/],
    ['DELETE', '/v1/sessions/-1', undefined, 400, 'OB_API_REQUEST', /id must be >= 1/],
    ['PUT', '/v1/sessions/1/share', { request: 50 }, 400, 'OB_API_REQUEST', /limit/],
    ['PUT', '/v1/sessions/1/share', { request: '5', limit: 9 }, 400, 'OB_API_REQUEST', /number/],
    ['PUT', '/v1/sessions/1/share', { request: 5, limit: 101 }, 400, 'OB_API_REQUEST', /<= 100/],
    ['PUT', '/v1/sessions/1/share', { request: 50, limit: 9 }, 400, 'OB_QUOTA', /below/],
    ['PUT', '/v1/sessions/1/share', { a: 1, request: 1, limit: 9 }, 400, 'OB_API_REQUEST', /addit/],
    ['PUT', '/v1/sessions/1/share', 'x'.repeat(70_000), 413, 'OB_API_REQUEST', /large/],
    ['POST', '/v1/state', undefined, 404, 'OB_API_PATH', /no POST \/v1\/state/],
    ['GET', '/v1/nothing', undefined, 404, 'OB_API_PATH', /no GET \/v1\/nothing/],
    ['GET', '/nothing', undefined, 404, 'OB_API_PATH', /no page \/nothing/],
    ['GET', '/?from=here', undefined, 404, 'OB_API_PAGE', /not built/],
  ];
  for (const [method, url, body, status, code, message] of wrong) {
    const answer = await api.ask(method, url, { body });
    t.match(answer, { status, json: { code, message, remedy: /\w/ } }, `${method} ${url}`);
  }
  const text = { 'content-type': 'text/plain' };
  const plain = await api.ask('PUT', '/v1/sessions/1/share', { body: {}, headers: text });
  const wants = /application\/json/;
  t.match(plain, { status: 415, json: { code: 'OB_API_REQUEST', message: wants } });
  api.operations.kill = () => {
    throw new Error('a mistake of ours');
  };
  t.match(await api.ask('DELETE', '/v1/sessions/1'), {
    status: 500,
    json: { code: 'OB_INTERNAL' },
  });
});

t.test('alive and ready', async (t) => {
  const api = await TestApi.start(t);
  const { operations } = api;
  t.match(await api.ask('GET', '/livez'), { status: 200, text: 'ok\n' });
  t.match(await api.ask('GET', '/readyz'), { status: 200, text: 'ok\n' });
  operations.drain();
  const draining = { code: 'OB_NOT_READY', message: /is being emptied/ };
  t.match(await api.ask('GET', '/readyz'), { status: 503, json: draining });
  operations.resume();
  const slots = operations.gpus.flatMap((gpu) => gpu.slots);
  for (const slot of slots) slot.state = 'reserved';
  t.match(await api.ask('GET', '/readyz'), { status: 200 }, 'kept for somebody, and warm');
  for (const slot of slots) slot.state = 'starting';
  t.match(await api.ask('GET', '/readyz'), { status: 503, json: { message: /no API server/ } });
  t.match(await api.ask('GET', '/livez'), { status: 200 });
});

const operators: Record<string, { name: string; rights: 'view' | 'act' }> = {
  'token-of-ann': { name: 'ann', rights: 'act' },
  'token-of-vic': { name: 'vic', rights: 'view' },
};
const authorise = (token: string) => operators[token] ?? null;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

t.test('with operators, TCP needs a token of theirs and the Unix socket its own', async (t) => {
  // Not in the test's folder: a socket's path is short.
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-api-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'api.sock');
  const tcp = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;
  const unix = { kind: 'unix', path: file } as const;
  const api = await TestApi.start(t, { authorise, listen: [tcp, unix] });
  const refused = { status: 401, json: { code: 'OB_API_TOKEN' } };
  for (const url of ['/v1/state', '/v1/openapi.json', '/metrics', '/v1/logs']) {
    t.match(await api.ask('GET', url), refused, url);
    t.match(await api.ask('GET', url, { headers: bearer('wrong') }), refused, url);
    for (const token of Object.keys(operators)) {
      t.match(await api.ask('GET', url, { headers: bearer(token) }), { status: 200 }, url);
    }
  }
  t.equal((await api.ask('GET', '/v1/state')).headers['www-authenticate'], 'Bearer');
  t.match(await api.ask('GET', '/livez'), { status: 200 });
  t.match(await api.ask('GET', '/readyz'), { status: 200 });

  const acts: [string, string][] = [
    ['DELETE', '/v1/sessions/1'],
    ['PUT', '/v1/drain'],
    ['DELETE', '/v1/drain'],
  ];
  for (const [method, url] of acts) {
    t.match(await api.ask(method, url), refused);
    const viewer = await api.ask(method, url, { headers: bearer('token-of-vic') });
    t.match(viewer, { status: 403, json: { code: 'OB_API_RIGHTS', message: /vic/ } });
  }
  t.same(api.operations.killed, []);
  t.equal(api.operations.draining, false);
  const headers = bearer('token-of-ann');
  t.match(await api.ask('DELETE', '/v1/sessions/1', { headers }), { status: 204 });
  t.same(api.operations.killed, [[1, 'ended by operator ann']]);

  t.equal(statSync(file).mode & 0o777, 0o600);
  // `ask` reads the token of a socket, as commands do.
  t.match(await ask(unix, 'GET', '/v1/state'), { status: 200 });
  t.match(await ask(unix, 'DELETE', '/v1/sessions/2'), { status: 204 });
  for (const headers of [{ authorization: '' }, bearer('wrong')]) {
    t.match(await ask(unix, 'DELETE', '/v1/sessions/3', undefined, headers), refused);
    t.match(await ask(unix, 'GET', '/v1/state', undefined, headers), refused);
  }
  const viewer = bearer('token-of-vic');
  t.match(await ask(unix, 'GET', '/v1/state', undefined, viewer), { status: 200 });
  t.match(await ask(unix, 'DELETE', '/v1/sessions/3', undefined, viewer), { status: 403 });
  const live = new WebSocket(`ws+unix:${file}:/v1/live`, ['json']);
  const [, response] = await once(live, 'unexpected-response');
  t.equal(response.statusCode, 401);
  live.on('error', () => {}).terminate();
  const long = { kind: 'unix', path: path.join(folder, 'x'.repeat(108)) } as const;
  await t.rejects(TestApi.start(t, { listen: [long] }), { code: 'OB_API_LISTEN' });
  await t.rejects(TestApi.start(t, { listen: [unix] }), { code: 'OB_API_LISTEN' }, 'taken');
});

t.test("the token of a Unix socket is this server's", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-api-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const unix = { kind: 'unix', path: path.join(folder, 'api.sock') } as const;
  const token = `${unix.path}.token`;
  const victim = path.join(folder, 'victim');
  writeFileSync(victim, 'untouched');
  symlinkSync(victim, token);
  const first = await TestApi.start(t, { listen: [unix] });
  t.equal(readFileSync(victim, 'utf8'), 'untouched');
  t.ok(lstatSync(token).isFile());
  t.equal(statSync(token).mode & 0o777, 0o600);
  const old = readFileSync(token, 'utf8').trim();
  t.match(await ask(unix, 'GET', '/v1/state', undefined, bearer(old)), { status: 200 });
  await first.api.close();
  t.notOk(existsSync(token), 'it goes with the server');
  await TestApi.start(t, { listen: [unix] });
  t.match(await ask(unix, 'GET', '/v1/state', undefined, bearer(old)), { status: 401 });
  t.match(await ask(unix, 'GET', '/v1/state'), { status: 200 });
});

t.test('without operators: pages of others cannot look or act', async (t) => {
  const api = await TestApi.start(t);
  const own = `127.0.0.1:${api.port}`;
  const refused: [Record<string, string>, string][] = [
    [{ host: 'attacker.example' }, 'OB_API_HOST'],
    [{ host: `attacker.example:${api.port}` }, 'OB_API_HOST'],
    [{ host: 'localhost.attacker.example' }, 'OB_API_HOST'],
    [{ host: '127.0.0.1.attacker.example' }, 'OB_API_HOST'],
    // A name that was rebound to this machine: the browser holds it to be the same origin.
    [{ host: 'attacker.example', origin: 'http://attacker.example' }, 'OB_API_HOST'],
    [{ host: own, origin: 'https://attacker.example' }, 'OB_API_ORIGIN'],
    [{ host: own, origin: 'http://127.0.0.1:3000' }, 'OB_API_ORIGIN'],
    [{ host: own, origin: 'null' }, 'OB_API_ORIGIN'],
    [{ host: own, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }, 'OB_API_ORIGIN'],
    [{ host: own, 'x-forwarded-for': '192.0.2.1' }, 'OB_API_PEER'],
  ];
  for (const [headers, code] of refused) {
    const said = JSON.stringify(headers);
    t.match(await api.ask('GET', '/v1/state', { headers }), { status: 403, json: { code } }, said);
    t.match(await api.ask('DELETE', '/v1/sessions/1', { headers }), { status: 403 }, said);
  }
  t.same(api.operations.killed, []);
  const allowed: Record<string, string>[] = [
    { host: own, origin: `http://${own}` },
    { host: 'localhost:8080', origin: 'http://localhost:8080' },
    { host: '[::1]:4461' },
    { host: own, 'sec-fetch-site': 'same-origin' },
    { host: own, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
  ];
  for (const headers of allowed) {
    t.match(
      await api.ask('GET', '/v1/state', { headers }),
      { status: 200 },
      JSON.stringify(headers),
    );
  }
  // The question that browsers ask before they send what pages of others may not send.
  const question = {
    origin: 'https://attacker.example',
    'access-control-request-method': 'DELETE',
  };
  const answer = await api.ask('OPTIONS', '/v1/sessions/1', { headers: question });
  t.ok(answer.status >= 400);
  t.notHas(answer.headers, 'access-control-allow-origin');
});

t.test('without operators: other machines are not answered', async (t) => {
  const app = buildApp(
    {
      operations: new MemoryOperations(),
      metrics: newMetrics(),
      authorise: null,
      listen: [],
      log: pino({ level: 'silent' }),
      webRoot: null,
      policies: () => somePolicies,
    },
    new History(),
  );
  t.teardown(() => app.close());
  const from = async (remoteAddress: string, url: string) =>
    (await app.inject({ url, remoteAddress, headers: { host: 'localhost' } })).statusCode;
  for (const peer of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '127.8.9.10']) {
    t.equal(await from(peer, '/v1/state'), 200, peer);
  }
  for (const peer of ['192.0.2.1', '::ffff:192.0.2.1', '2001:db8::1', '10.0.0.1']) {
    for (const url of ['/v1/state', '/metrics', '/', '/nothing']) {
      t.equal(await from(peer, url), 403, `${peer} ${url}`);
    }
    t.equal(await from(peer, '/livez'), 200, 'a probe');
  }
});

t.test('the web page, and nothing beside its folder', async (t) => {
  const folder = t.testdir({ web: {}, secret: 'secret' });
  const webRoot = path.join(folder, 'web');
  mkdirSync(path.join(webRoot, 'assets'));
  writeFileSync(path.join(webRoot, 'index.html'), '<title>Outboard</title>');
  writeFileSync(path.join(webRoot, 'assets', 'index-Abc12345.js'), 'start()');
  symlinkSync(path.join(folder, 'secret'), path.join(webRoot, 'link'));
  const api = await TestApi.start(t, { webRoot });
  const page = await api.ask('GET', '/');
  t.match(page, { status: 200, text: '<title>Outboard</title>' });
  t.match(page.headers, {
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-cache',
    'content-security-policy': /default-src 'none'.*frame-ancestors 'none'/,
    'x-content-type-options': 'nosniff',
  });
  const script = await api.ask('GET', '/assets/index-Abc12345.js');
  t.match(script, { status: 200, text: 'start()' });
  t.match(script.headers, { 'content-type': /^text\/javascript/, 'cache-control': /immutable/ });
  for (const url of ['/../secret', '/%2e%2e/secret', '/link', '/assets', '/%00', '/%zz', '/x']) {
    const answer = await api.ask('GET', url);
    t.ok([400, 404].includes(answer.status), url);
    t.notMatch(answer.text, 'secret\n');
  }
  t.match(await api.ask('POST', '/'), { status: 404 });
  const closed = await TestApi.start(t, { webRoot, authorise });
  t.match(await closed.ask('GET', '/'), { status: 200 }, 'the page asks for the token itself');
});

t.test('history in columns, of the newest samples', async (t) => {
  const operations = new MemoryOperations();
  const history = new History(3);
  t.same(history.last(600), { times: [], gpus: [], sessions: [] });
  const add = (received: number, ...ids: number[]) => {
    operations.sessions = ids.map((id) => {
      const { share, ...rest } = session(id);
      return { ...rest, share: { ...share, received } };
    });
    history.add(operations.view());
  };
  for (const [received, ids] of [
    [1, [1]],
    [2, [1, 7]],
    [3, [1, 7]],
    [4, [7, 8]],
  ] as const) {
    add(received, ...ids);
  }
  const all = history.last(600);
  t.equal(all.times.length, 3);
  t.match(all.gpus, [
    { index: 0, busy: [55, 55, 55], reserved: Array(3).fill(2 ** 31) },
    { index: 1 },
  ]);
  t.match(all.sessions, [
    { id: 7, from: 0, received: [2, 3, 4], owed: [30, 30, 30] },
    { id: 8, from: 2, received: [4], used: [2 ** 30] },
  ]);
  t.match(history.last(2).sessions, [
    { id: 7, from: 0, received: [3, 4] },
    { id: 8, from: 1 },
  ]);
});

t.test('the OpenAPI document is right, and is what the routes do', async (t) => {
  const api = await TestApi.start(t);
  const document = (await api.ask('GET', '/v1/openapi.json')).json;
  t.same(document, JSON.parse(JSON.stringify(openapi())));
  const checked = await validate(structuredClone(document));
  t.match(checked, { valid: true }, JSON.stringify(checked));

  // Every route that fastify has, and no other, is in it.
  const app = buildApp(
    {
      operations: new MemoryOperations(),
      metrics: newMetrics(),
      authorise: null,
      listen: [],
      log: pino({ level: 'silent' }),
      webRoot: null,
      policies: () => somePolicies,
    },
    new History(),
  );
  await app.ready();
  t.teardown(() => app.close());
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  let operations = 0;
  for (const [url, methods] of Object.entries<Record<string, Operation>>(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      operations++;
      const upper = method.toUpperCase() as 'GET';
      t.ok(
        app.hasRoute({ method: upper, url: url.replace(/\{(\w+)\}/g, ':$1') }),
        `${method} ${url}`,
      );
      await answersAsDescribed(t, api, ajv, document, upper, url, operation);
    }
  }
  const listed = app.printRoutes({ commonPrefix: false }).match(/\((?:GET|PUT|DELETE)[^)]*\)/g);
  const methods = listed?.flatMap((list) => list.slice(1, -1).split(', ')) ?? [];
  t.equal(methods.filter((method) => method !== 'HEAD').length, operations);
});

interface Operation {
  requestBody?: unknown;
  responses: Record<string, { content?: Record<string, { schema: AnySchema }> }>;
}

/** Asks for what is described, as it is described, and holds the answer against it. */
async function answersAsDescribed(
  t: Tap.Test,
  api: TestApi,
  ajv: Ajv2020,
  document: object,
  method: string,
  url: string,
  { requestBody, responses }: Operation,
) {
  api.operations.sessions = [session(1)];
  const bodies: Record<string, object> = {
    '/v1/sessions/{id}/share': { request: 10, limit: 20 },
    '/v1/sessions/{id}/place': { gpu: 1 },
    '/v1/gpus/{gpu}/drain': { move: true },
  };
  const body = requestBody ? bodies[url] : undefined;
  const answer = await api.ask(method, url.replace('{id}', '1').replace('{gpu}', '0'), { body });
  const described = responses[String(answer.status)];
  const said = `${method} ${url}: ${answer.status}`;
  t.ok(described && answer.status < 300, said);
  const type = answer.headers['content-type']?.split(';')[0];
  const [media] = Object.keys(described?.content ?? {});
  t.equal(type, media, `${said}: ${media ?? 'no content'}`);
  if (media !== 'application/json') return;
  const schema = described?.content?.[media]?.schema;
  const whole = { ...(schema as object), components: (document as Described).components };
  t.ok(ajv.validate(whole, answer.json), `${said}: ${ajv.errorsText()}`);
}

interface Described {
  components: object;
}

declare namespace Tap {
  type Test = Pick<typeof t, 'ok' | 'equal'>;
}

t.test('what requests are checked by are schemas', async (t) => {
  const ajv = new Ajv({ strict: false });
  for (const { url, params, query, body } of routes)
    for (const schema of [params, query, body])
      if (schema) t.ok(ajv.validateSchema(schema), `${url}: ${ajv.errorsText()}`);
  t.ok(ajv.validateSchema(TenantsSchema), ajv.errorsText());
});
