// The HTTP API, the live WebSocket, the metrics and the web page: one fastify application behind
// any number of addresses. Nothing here can do more than Operations can.
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  STATUS_CODES,
} from 'node:http';
import { hostname } from 'node:os';
import type { Duplex } from 'node:stream';
import { Ajv, type ValidateFunction } from 'ajv';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { version } from '../../../api-server/src/version.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import { ownSchemas } from '../base/own-schemas.js';
import type { Observer, Operations } from '../base/view.js';
import { formatListen, type Listen, listenError, removeStale } from '../network/listeners.js';
import { machineOf } from '../network/strangers.js';
import { unixPathMost } from '../options/values.js';
import {
  type Authorise,
  admitRequest,
  admitToPage,
  cameThroughUnix,
  mayAct,
  type Operator,
  senderOf,
} from './access.js';
import { Connections, keep } from './connections.js';
import { History } from './history.js';
import { Live } from './live.js';
import { Metrics } from './metrics.js';
import { openapi } from './openapi.js';
import { policy, sendPage } from './pages.js';
import { problemOf, sendProblem, statusOf } from './problems.js';
import { type Call, type Context, type Route, routes } from './routes.js';
import type { PoliciesView } from './schemas.js';
import { newSocketToken, removeSocketToken, writeSocketToken } from './socket-token.js';

export interface ApiOptions {
  operations: Operations;
  /** Made before the server, which tells it what happens; see newMetrics(). */
  metrics: Metrics;
  /** Null: there are no operators and no tenants, and only this machine itself is answered. */
  readonly authorise: Authorise | null;
  listen: readonly Listen[];
  log: Log;
  /** The folder of the built web page; null: none is served. */
  webRoot: string | null;
  policies: () => PoliciesView;
}

export interface Api {
  /** What `listen` has become: port 0 is a real one. */
  addresses: Listen[];
  close(): Promise<void>;
}

const sampleMilliseconds = 1000;
const bodyMost = 64 << 10;
export const connectionsMost = 1024;
/** Half of all, so that one address alone cannot keep out others. */
export const connectionsMostOfAddress = 512;
/** Operators and scrapers ask little, and at once. Looked after once a second. */
const patience = {
  requestTimeout: 10_000,
  headersTimeout: 10_000,
  connectionsCheckingInterval: 1000,
};

/** The Observer that the server is given; its counts are what /metrics shows. */
export function newMetrics(): Metrics & Observer {
  return new Metrics(hostname(), version);
}

/** Throws OB_API_LISTEN. */
export async function startApi(options: ApiOptions): Promise<Api> {
  const { operations, metrics } = options;
  if (options.listen.length === 0) {
    options.log.info({ http: [], operators: options.authorise !== null }, 'HTTP API');
    return { addresses: [], close: async () => {} };
  }
  const history = new History();
  const live = new Live(operations);
  const app = buildApp(options, history);
  await app.ready();
  const servers: HttpServer[] = [];
  const sockets: string[] = [];
  const sample = () => {
    const view = operations.view();
    metrics.observe(view);
    history.add(view);
    live.show(view);
  };
  sample();
  const sampling = setInterval(sample, sampleMilliseconds);
  const close = async () => {
    clearInterval(sampling);
    live.close();
    const closed = servers.map((server) => new Promise((done) => server.close(done)));
    for (const server of servers) server.closeAllConnections();
    await Promise.all(closed);
    for (const socket of sockets) removeSocketToken(socket);
    await app.close();
  };
  try {
    const addresses: Listen[] = [];
    for (const listen of options.listen) {
      const accessToken = newSocketToken();
      const arrived = (request: IncomingMessage) => {
        if (listen.kind === 'unix') cameThroughUnix(request, accessToken);
      };
      const server = createServer(patience, (request, response) => {
        arrived(request);
        app.routing(request, response);
      });
      // This time holds for an answer that nobody reads, too, not only for a request that does not go on.
      server.timeout = 30_000;
      boundConnections(server, listen.kind === 'unix');
      server.on('upgrade', (request, socket, head) => {
        arrived(request);
        upgradeToLive(request, socket, head, options.authorise, live);
      });
      addresses.push(await open(server, listen));
      servers.push(server);
      if (listen.kind === 'unix') {
        // Written before the event loop turns, so before the first request is read.
        tellAccessToken(listen, accessToken);
        sockets.push(listen.path);
      }
    }
    const shown = addresses.map(formatListen);
    options.log.info({ http: shown, operators: options.authorise !== null }, 'HTTP API');
    return { addresses, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function tellAccessToken(listen: Extract<Listen, { kind: 'unix' }>, accessToken: string) {
  try {
    writeSocketToken(listen.path, accessToken);
  } catch (error) {
    const why = `its access token cannot be written: ${(error as Error).message}`;
    throw new OutboardError('OB_API_LISTEN', formatListen(listen), why);
  }
}

/** Called before Node's own listener, so that a connection that has to go is closed before it is read. */
function boundConnections(server: HttpServer, isUnix: boolean) {
  const ofMachine = isUnix ? connectionsMost : connectionsMostOfAddress;
  const connections = new Connections({ all: connectionsMost, ofMachine });
  server.prependListener('connection', (socket) => {
    const { remoteAddress } = socket;
    if (isUnix) connections.enter(socket, 'unix');
    else if (remoteAddress === undefined) socket.destroy();
    else connections.enter(socket, machineOf(remoteAddress));
  });
}

async function open(server: HttpServer, listen: Listen): Promise<Listen> {
  if (listen.kind === 'unix') {
    // The kernel would cut the path off, and the socket would be somewhere else.
    if (Buffer.byteLength(listen.path) > unixPathMost) {
      const why = `a socket's path has ${unixPathMost} bytes at most`;
      throw new OutboardError('OB_API_LISTEN', formatListen(listen), why);
    }
    await removeStale(listen.path);
  }
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(listenError('OB_API_LISTEN', listen, error)));
    const options = listen.kind === 'tcp' ? { host: listen.host, port: listen.port } : listen;
    // The file of a Unix socket gets its mode when it is made, so that nobody can connect before a chmod.
    const mask = process.umask(0o177);
    try {
      server.listen(options, resolve);
    } finally {
      process.umask(mask);
    }
  });
  // An error of accept (no descriptors left) must not end the server.
  server.removeAllListeners('error').on('error', () => {});
  const address = server.address();
  return listen.kind === 'tcp' && typeof address === 'object' && address
    ? { ...listen, port: address.port }
    : listen;
}

/** The application, not yet listening; for tests, too. */
export function buildApp(options: ApiOptions, history: History): FastifyInstance {
  const { operations, metrics, log } = options;
  const app = fastify({ bodyLimit: bodyMost, logger: false });
  const document = openapi();
  const context: Context = {
    operations,
    history,
    policies: options.policies,
    metrics: () => metrics.text(operations.view()),
    metricsType: metrics.contentType,
    document: () => document,
  };
  // Only JSON is taken: a form of another page could send text without the browser asking first.
  app.removeContentTypeParser('text/plain');
  checkStrictly(app);
  app.addHook('onSend', async (_request, reply) => {
    reply.headers({
      'content-security-policy': policy,
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'cross-origin-resource-policy': 'same-origin',
    });
    if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store');
  });
  app.setErrorHandler((error, request, reply) => {
    const told = asProblem(error, log);
    // A body too long or of another type has a status of its own.
    const { statusCode } = error as { statusCode?: number };
    const status = told.code === 'OB_API_REQUEST' ? statusCode : undefined;
    log.debug({ code: told.code, method: request.method, url: request.url }, told.message);
    return sendProblem(reply, told, status);
  });
  app.setNotFoundHandler((request, reply) => {
    const { method, url } = request;
    admitToPage(request.raw, options.authorise);
    log.trace({ method, url }, 'page');
    const page = (method === 'GET' || method === 'HEAD') && !url.startsWith('/v1/');
    if (!page) throw new OutboardError('OB_API_PATH', method, url.slice(0, 200));
    return sendPage(reply, options.webRoot, url);
  });
  for (const route of routes) addRoute(app, route, context, options);
  return app;
}

function addRoute(app: FastifyInstance, route: Route, context: Context, options: ApiOptions) {
  const { log } = options;
  const { method, url, rights, params, query, body, answer } = route;
  const operators = new WeakMap<FastifyRequest, Operator>();
  const text = typeof answer === 'string';
  const schema = {
    ...(params && { params }),
    ...(query && { querystring: query }),
    ...(body && { body }),
    ...(answer !== null && !text && { response: { 200: answer } }),
  };
  app.route({
    method,
    url,
    schema,
    onRequest: async (request, reply) => {
      if (rights === 'open') return;
      const operator = admitRequest(request.raw, options.authorise);
      keep(request.raw, reply.raw);
      if (rights === 'act') mayAct(operator);
      operators.set(request, operator);
    },
    handler: async (request, reply) => {
      const operator = operators.get(request) ?? { name: '', rights: 'view' };
      const { params, query, body } = request;
      const call = { params, query, body, operator } as Call;
      const result = await route.handle(context, call);
      if (rights === 'act') {
        const peer = senderOf(request.raw);
        log.info(
          { operator: operator.name, peer, method, url: request.url, body },
          'operator acts',
        );
      }
      if (answer === null) return reply.code(204).send();
      if (url === '/metrics') reply.type(context.metricsType);
      else if (text) reply.type(`${answer}; charset=utf-8`);
      return reply.send(result);
    },
  });
}

/** What is asked for is compiled when it is asked for first: a server is up half a second sooner. */
function whenUsed(compile: () => ValidateFunction): ValidateFunction {
  let compiled: ValidateFunction | undefined;
  const validate = (data: unknown): boolean => {
    compiled ??= compile();
    const right = compiled(data) as boolean;
    validate.errors = compiled.errors;
    return right;
  };
  validate.errors = undefined as ValidateFunction['errors'];
  return validate as ValidateFunction;
}

/** Values in a URL are converted to the types of the schema; bodies have types already, and are not. */
function checkStrictly(app: FastifyInstance) {
  const common = { ...ownSchemas, useDefaults: true, logger: false } as const;
  const strict = new Ajv(common);
  const fromUrl = new Ajv({ ...common, coerceTypes: true });
  app.setValidatorCompiler(({ schema, httpPart }) =>
    whenUsed(() => (httpPart === 'body' ? strict : fromUrl).compile(schema as object)),
  );
}

function asProblem(error: unknown, log: Log): OutboardError {
  if (error instanceof OutboardError) return error;
  const { statusCode = 500, message } = error as { statusCode?: number; message: string };
  if (statusCode === 415) return new OutboardError('OB_API_REQUEST', 'a body is application/json');
  if (statusCode < 500) return new OutboardError('OB_API_REQUEST', message);
  log.error({ err: error }, 'the HTTP API failed');
  return new OutboardError('OB_INTERNAL', message);
}

/** Whether it may still follow: where it comes from does not change, but its access token may have expired. */
function mayStay(request: IncomingMessage, authorise: Authorise | null): boolean {
  try {
    admitRequest(request, authorise);
    return true;
  } catch (error) {
    if (error instanceof OutboardError) return false;
    throw error;
  }
}

/** Refuses a WebSocket before it is upgraded, with the same answers as other requests. */
function upgradeToLive(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  authorise: Authorise | null,
  live: Live,
) {
  try {
    const path = request.url?.split('?', 1)[0];
    if (path !== '/v1/live') throw new OutboardError('OB_API_PATH', 'WebSocket', String(path));
    admitRequest(request, authorise);
    keep(request, socket);
    live.open(request, socket, head, () => mayStay(request, authorise));
  } catch (error) {
    if (!(error instanceof OutboardError)) throw error;
    const status = statusOf(error);
    const body = JSON.stringify(problemOf(error));
    socket.on('error', () => {});
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
    );
  }
}
