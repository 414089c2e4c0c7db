// The OpenAPI 3.1 document of the HTTP API, made of the table of routes and its schemas.
import { STATUS_CODES } from 'node:http';
import type { TSchema } from 'typebox';
import { version } from '../../../api-server/src/version.js';
import { type Route, routes } from './routes.js';
import * as schemas from './schemas.js';

type Json = Record<string, unknown>;

/** Schemas that have a name in the document. */
const named: Record<string, TSchema> = {
  State: schemas.State,
  Server: schemas.Server,
  Gpu: schemas.Gpu,
  Slot: schemas.Slot,
  Session: schemas.Session,
  Queued: schemas.Queued,
  Tenant: schemas.Tenant,
  LogLine: schemas.Line,
  History: schemas.History,
  Share: schemas.Share,
  Drain: schemas.Drain,
  GpuDrain: schemas.GpuDrain,
  Policies: schemas.Policies,
  Problem: schemas.Problem,
};

const names = new Map<unknown, string>(
  Object.entries(named).map(([name, schema]) => [schema, name]),
);

export function openapi(): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.url.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Outboard',
      version,
      description:
        'What an operator of `outboard serve` sees and does. Live state is on the WebSocket /v1/live ' +
        '(subprotocol json or msgpack). Over TCP requests carry the access token of an operator; without ' +
        'operators only this machine itself is answered. Bytes and seconds are numbers.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ operator: [] }, {}],
    paths,
    components: {
      schemas: Object.fromEntries(
        Object.entries(named).map(([name, schema]) => [name, inlined(schema)]),
      ),
      securitySchemes: {
        operator: {
          type: 'http',
          scheme: 'bearer',
          description: 'the access token of an operator',
        },
      },
    },
  };
}

function operationOf({ id, summary, rights, params, query, body, answer, refusals }: Route): Json {
  const checked = params || query || body ? [400] : [];
  const guarded = rights === 'open' ? [] : [401, 403];
  const statuses = [...checked, ...guarded, ...refusals].sort();
  const parameters = [...parametersOf('path', params), ...parametersOf('query', query)];
  return {
    operationId: id,
    summary,
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: refer(body) } } },
    }),
    ...(rights === 'open' && { security: [] }),
    responses: {
      ...answerOf(answer),
      ...Object.fromEntries(statuses.map((status) => [String(status), problem(status)])),
    },
  };
}

function answerOf(answer: Route['answer']): Json {
  if (answer === null) return { 204: { description: 'done' } };
  const text = typeof answer === 'string';
  const schema = text ? { type: 'string' } : refer(answer);
  const type = text ? answer : 'application/json';
  return { 200: { description: 'the answer', content: { [type]: { schema } } } };
}

function problem(status: number): Json {
  const schema = refer(schemas.Problem);
  return {
    description: STATUS_CODES[status] ?? 'refused',
    content: { 'application/json': { schema } },
  };
}

function parametersOf(place: 'path' | 'query', schema: TSchema | undefined): Json[] {
  const { properties = {} } = (schema ?? {}) as { properties?: Record<string, Json> };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: place === 'path',
    description,
    schema: rest,
  }));
}

/** The schema, with those in it that have names as references. */
function refer(schema: unknown): unknown {
  const name = names.get(schema);
  return name === undefined ? inlined(schema) : { $ref: `#/components/schemas/${name}` };
}

function inlined(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(refer);
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, refer(value)]));
}
