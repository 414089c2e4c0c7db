// The tenants file: who may use this server, and how much of it. The file is checked with the schema below,
// which is documented, too. An unknown key is an error, and every error names its line.
import { readFileSync } from 'node:fs';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { type Static, Type } from 'typebox';
import { type Document, isMap, isNode, isPair, isScalar, LineCounter, parseDocument } from 'yaml';
import type { SessionClass } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import { ownSchemas } from '../base/own-schemas.js';
import { parseBytes } from '../options/values.js';
import { type AccessToken, accessTokenHashForm } from './access-token.js';

const closed = { additionalProperties: false };

const momentForm = 'a day, 2027-01-31 (until it begins, UTC), or a moment, 2027-01-31T12:00:00Z';

const Expires = Type.String({ description: momentForm });

const AccessTokenSchema = Type.Object(
  {
    hash: Type.String({
      pattern: accessTokenHashForm.source,
      description: 'sha256: and the SHA-256 of the access token in hexadecimal',
    }),
    expires: Type.Optional(Expires),
  },
  closed,
);

const Name = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$',
  description: 'stands in logs and labels of metrics',
});

const AccessTokens = Type.Array(AccessTokenSchema, {
  maxItems: 16,
  description: 'any of them will do, so that an old one and its successor overlap',
});

const mostSeconds = 7 * 24 * 3600;

const Limits = Type.Object(
  {
    sessions: Type.Optional(Type.Integer({ minimum: 0, description: 'running and waiting' })),
    memory: Type.Optional(
      Type.Union([Type.String(), Type.Integer({ minimum: 1 })], {
        description: 'device memory of all its sessions: bytes, or as in 64G',
      }),
    ),
    share: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'percent of GPU time promised to all its sessions; 100 is one GPU',
      }),
    ),
    kernelSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: mostSeconds,
        description: 'how long a kernel may run; 0: for ever; without it, as the server says',
      }),
    ),
    idleSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: mostSeconds,
        description:
          'how long a session may do nothing; 0: for ever; without it, as the server says',
      }),
    ),
    graceDisconnectedSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: mostSeconds,
        description:
          'how long a session is kept whose connection was cut; 0: not at all; without it, as the server says',
      }),
    ),
    gpus: Type.Optional(
      Type.Array(
        Type.Union([
          Type.Integer({ minimum: 0 }),
          Type.String({ pattern: '^(GPU|MIG)-[0-9a-fA-F-]+$' }),
        ]),
        { minItems: 1, description: 'indices, or UUIDs or how they begin; without it, all' },
      ),
    ),
  },
  closed,
);

const TenantSchema = Type.Object(
  {
    name: Name,
    tokens: Type.Optional(AccessTokens),
    certificates: Type.Optional(
      Type.Array(Type.String({ pattern: '^(CN|DNS|URI)=.+$' }), {
        description:
          'names in client certificates: CN=... of the subject, DNS=... or URI=... of the alternative names',
      }),
    ),
    expires: Type.Optional(Expires),
    class: Type.Optional(
      Type.Union([Type.Literal('latency-strict'), Type.Literal('best-effort')], {
        description:
          'what its sessions are unless they say otherwise, and the most they may ask for',
      }),
    ),
    uploadCache: Type.Optional(
      Type.Boolean({ description: 'keep what it uploads, for itself, so that it is sent once' }),
    ),
    moves: Type.Optional(
      Type.Boolean({
        description: 'false: its sessions stay on the GPU and in the process they got',
      }),
    ),
    limits: Type.Optional(Limits),
  },
  closed,
);

const OperatorSchema = Type.Object(
  {
    name: Name,
    tokens: Type.Optional(AccessTokens),
    rights: Type.Union([Type.Literal('view'), Type.Literal('act')]),
    expires: Type.Optional(Expires),
  },
  closed,
);

export const TenantsSchema = Type.Object(
  {
    version: Type.Literal('v1'),
    tenants: Type.Optional(Type.Array(TenantSchema)),
    operators: Type.Optional(
      Type.Array(OperatorSchema, { description: 'who may ask the HTTP API' }),
    ),
  },
  closed,
);

export interface Tenant {
  name: string;
  accessTokens: readonly AccessToken[];
  /** CN=..., DNS=..., URI=... */
  certificates: readonly string[];
  /** Milliseconds since 1970; null: never. */
  expires: number | null;
  class: SessionClass;
  /** Whether what it uploads is kept, for itself. */
  uploadCache: boolean;
  /** Whether its sessions may be moved to other GPUs and processes. */
  moves: boolean;
  /** Null: none. */
  limits: {
    sessions: number | null;
    memory: bigint | null;
    share: number | null;
    /** Null: what the server says. 0: for ever. */
    kernelSeconds: number | null;
    idleSeconds: number | null;
    graceDisconnectedSeconds: number | null;
    /** Indices, UUIDs, or how these begin. */
    gpus: readonly (number | string)[] | null;
  };
}

export interface TenantsOperator {
  name: string;
  accessTokens: readonly AccessToken[];
  expires: number | null;
  /** `act` includes `view`. */
  rights: 'view' | 'act';
}

export interface TenantsContent {
  tenants: readonly Tenant[];
  operators: readonly TenantsOperator[];
}

let compiled: ValidateFunction<Static<typeof TenantsSchema>> | undefined;
/** Compiled at its first use: most servers have no tenants. */
function validator() {
  compiled ??= new Ajv({ ...ownSchemas, allErrors: true, verbose: true }).compile<
    Static<typeof TenantsSchema>
  >(TenantsSchema);
  return compiled;
}

/** Throws OB_TENANTS_FILE and OB_TENANTS_MISSING. */
export function readTenantsFile(file: string): TenantsContent {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new OutboardError('OB_TENANTS_MISSING', file);
    throw new OutboardError('OB_TENANTS_FILE', message);
  }
  return parseTenants(text, file);
}

/** `file` is for messages. Throws OB_TENANTS_FILE, with the line. */
export function parseTenants(text: string, file: string): TenantsContent {
  const source = new Source(text, file);
  const value: unknown = source.document.toJS();
  const validate = validator();
  if (!validate(value)) throw source.invalid(validate.errors ?? []);
  const seen = new Seen(source);
  const tenants = (value.tenants ?? []).map((tenant, index): Tenant => {
    const at = ['tenants', index];
    seen.once('name', tenant.name, [...at, 'name']);
    const { sessions = null, memory, share = null, gpus = null } = tenant.limits ?? {};
    const { kernelSeconds = null, idleSeconds = null } = tenant.limits ?? {};
    const { graceDisconnectedSeconds = null } = tenant.limits ?? {};
    const { certificates = [] } = tenant;
    for (const [i, name] of certificates.entries()) {
      seen.once('certificate', name, [...at, 'certificates', i]);
    }
    return {
      name: tenant.name,
      accessTokens: readAccessTokens(tenant.tokens ?? [], [...at, 'tokens'], source, seen),
      certificates,
      expires: source.moment(tenant.expires, [...at, 'expires']),
      class: tenant.class ?? 'latency-strict',
      uploadCache: tenant.uploadCache ?? false,
      moves: tenant.moves ?? true,
      limits: {
        sessions,
        memory: source.bytes(memory, [...at, 'limits', 'memory']),
        share,
        kernelSeconds,
        idleSeconds,
        graceDisconnectedSeconds,
        gpus,
      },
    };
  });
  const operators = (value.operators ?? []).map((operator, index): TenantsOperator => {
    const at = ['operators', index];
    seen.once('name', operator.name, [...at, 'name']);
    return {
      name: operator.name,
      accessTokens: readAccessTokens(operator.tokens ?? [], [...at, 'tokens'], source, seen),
      expires: source.moment(operator.expires, [...at, 'expires']),
      rights: operator.rights,
    };
  });
  return { tenants, operators };
}

type Path = readonly (string | number)[];

function readAccessTokens(
  tokens: readonly Static<typeof AccessTokenSchema>[],
  at: Path,
  source: Source,
  seen: Seen,
): AccessToken[] {
  return tokens.map(({ hash, expires }, index) => {
    seen.once('token', hash, [...at, index, 'hash']);
    return {
      hash: Buffer.from(hash.slice('sha256:'.length), 'hex'),
      expires: source.moment(expires, [...at, index, 'expires']),
    };
  });
}

/** Names, certificates and access tokens say who somebody is, so each may stand in the file only once. */
class Seen {
  readonly #source: Source;
  readonly #known = new Set<string>();

  constructor(source: Source) {
    this.#source = source;
  }

  once(what: string, value: string, at: Path) {
    const key = `${what} ${value}`;
    // The message names no hash: it may end up in a log.
    const shown = what === 'token' ? 'this token' : key;
    if (this.#known.has(key)) throw this.#source.wrong(at, `${shown} stands here a second time`);
    this.#known.add(key);
  }
}

/** The text with its lines, for messages. */
class Source {
  readonly document: Document;
  readonly #file: string;
  readonly #lines = new LineCounter();

  constructor(text: string, file: string) {
    this.#file = file;
    this.document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    const [problem] = this.document.errors;
    if (problem) throw this.#at(problem.pos[0], problem.message);
  }

  wrong(path: Path, what: string): OutboardError {
    return this.#at(this.#offset(path), `${name(path)}${what}`);
  }

  /** The first problem in the file, of those that the schema finds. */
  invalid(errors: readonly ErrorObject[]): OutboardError {
    const places = errors
      // Where none of several forms fits, that is the error, and not each form's own.
      .filter(({ schemaPath }) => !/\/anyOf\/\d+\//.test(schemaPath))
      .map((error) => {
        const path = pathOf(error);
        return { path, offset: this.#offset(path), what: sentence(error) };
      })
      .sort((a, b) => a.offset - b.offset);
    const [first] = places;
    return first ? this.#at(first.offset, `${name(first.path)}${first.what}`) : this.wrong([], '');
  }

  moment(text: string | undefined, path: Path): number | null {
    if (text === undefined) return null;
    const moment = parseMoment(text);
    if (moment === null) throw this.wrong(path, `expected ${momentForm}`);
    return moment;
  }

  bytes(value: string | number | undefined, path: Path): bigint | null {
    if (value === undefined) return null;
    try {
      return parseBytes(String(value));
    } catch (error) {
      throw this.wrong(path, (error as Error).message);
    }
  }

  #at(offset: number, what: string): OutboardError {
    const { line } = this.#lines.linePos(offset);
    return new OutboardError('OB_TENANTS_FILE', `${this.#file}:${line || 1}: ${what}`);
  }

  /** Where the value stands, or the key of a value that should not be there. */
  #offset(path: Path): number {
    const [last] = path.slice(-1);
    const parent = path.length > 0 ? this.document.getIn(path.slice(0, -1), true) : null;
    if (isMap(parent)) {
      for (const pair of parent.items) {
        if (isPair(pair) && isScalar(pair.key) && String(pair.key.value) === String(last)) {
          return pair.key.range?.[0] ?? 0;
        }
      }
    }
    const node = path.length > 0 ? this.document.getIn(path, true) : this.document.contents;
    return isNode(node) ? (node.range?.[0] ?? 0) : 0;
  }
}

/** null: it is none. */
export function parseMoment(text: string): number | null {
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;
  const moment = form.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(moment) ? null : moment;
}

function pathOf({ instancePath, keyword, params }: ErrorObject): Path {
  const path = instancePath
    .split('/')
    .slice(1)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return keyword === 'additionalProperties'
    ? [...path, String(params['additionalProperty'])]
    : path;
}

/** tenants[2].limits.memory: */
function name(path: Path): string {
  if (path.length === 0) return '';
  const text = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
  return `${text.replace(/^\./, '')}: `;
}

function sentence({ keyword, params, parentSchema, message }: ErrorObject): string {
  const { properties, description } = parentSchema ?? {};
  switch (keyword) {
    case 'additionalProperties':
      return `there is no such key here; there are ${Object.keys(properties).join(', ')}`;
    case 'required':
      return `${params['missingProperty']} is missing`;
    case 'const':
      return `expected ${params['allowedValue']}`;
    case 'anyOf':
      return `expected ${choices(parentSchema?.['anyOf']) ?? description}`;
    case 'pattern':
      return `expected ${description ?? params['pattern']}, in the form ${params['pattern']}`;
    default:
      return message ?? keyword;
  }
}

function choices(anyOf: readonly { const?: string }[] | undefined): string | null {
  const values = anyOf?.map((one) => one.const) ?? [];
  return values.length > 0 && values.every((value) => value !== undefined)
    ? values.join(' or ')
    : null;
}
