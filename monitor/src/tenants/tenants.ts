// Who may come in, and how much they may have. Each decision is a function of the file's content, of what is
// used now and of what is asked for. The class keeps the content current.

import type { SessionClass } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import { FileWatch } from '../base/file-watch.js';
import type { Log } from '../base/log.js';
import { printable } from '../base/printable.js';
import type { Listen } from '../network/listeners.js';
import { formatExactBytes } from '../options/values.js';
import { holderOf } from './access-token.js';
import { readTenantsFile, type Tenant, type TenantsContent } from './file.js';

export type { Tenant } from './file.js';

/** The names in a client certificate that was verified. */
export interface CertificateIdentity {
  /** Common name of the subject. */
  cn: string | null;
  dns: readonly string[];
  uris: readonly string[];
}

export interface Credentials {
  /** Empty: none. */
  accessToken: string;
  certificate: CertificateIdentity | null;
}

/** What a tenant's sessions, running and waiting, have altogether. */
export interface TenantUsage {
  sessions: number;
  memory: bigint;
  /** Percent promised. */
  share: number;
}

/** What a program asks for, on all its GPUs together. */
export interface TenantDemand {
  /** One for each GPU. */
  sessions: number;
  /** What it would get; the usual amount, if it does not say how much it wants. */
  memory: bigint;
  /** Percent promised. */
  share: number;
}

/**
 * The tenant with these credentials; throws the refusal. If there is an access token, it decides, even beside
 * a certificate: the certificate may be of an agent that many functions use.
 */
export function identify(
  { tenants, operators }: TenantsContent,
  { accessToken, certificate }: Credentials,
  now: number,
): Tenant {
  const tenant =
    accessToken === ''
      ? byCertificate(tenants, certificate)
      : byAccessToken(tenants, operators, accessToken, now);
  if (tenant.expires !== null && tenant.expires <= now) {
    throw new OutboardError('OB_TENANT_EXPIRED', tenant.name, iso(tenant.expires));
  }
  return tenant;
}

function byAccessToken(
  tenants: readonly Tenant[],
  operators: TenantsContent['operators'],
  text: string,
  now: number,
): Tenant {
  const found = holderOf(text, tenants);
  if (!found) {
    const operator = holderOf(text, operators)?.holder;
    throw operator
      ? new OutboardError('OB_TOKEN_OPERATORS', operator.name)
      : new OutboardError('OB_TOKEN_UNKNOWN');
  }
  const { holder, accessToken } = found;
  if (accessToken.expires !== null && accessToken.expires <= now) {
    throw new OutboardError('OB_TOKEN_EXPIRED', holder.name, iso(accessToken.expires));
  }
  return holder;
}

function byCertificate(
  tenants: readonly Tenant[],
  certificate: CertificateIdentity | null,
): Tenant {
  if (!certificate) throw new OutboardError('OB_TOKEN_MISSING');
  const names = identityNames(certificate);
  // Names are no secrets, so they need not be compared in constant time.
  const tenant = tenants.find(({ certificates }) =>
    certificates.some((one) => names.includes(one)),
  );
  if (!tenant) {
    throw new OutboardError(
      'OB_CERTIFICATE_UNKNOWN',
      printable(names.join(', ') || 'no name', 200),
    );
  }
  return tenant;
}

/** The names in the form that `certificates:` of a tenant has. */
function identityNames({ cn, dns, uris }: CertificateIdentity): string[] {
  return [
    ...(cn === null ? [] : [`CN=${cn}`]),
    ...dns.map((name) => `DNS=${name}`),
    ...uris.map((uri) => `URI=${uri}`),
  ];
}

/** The refusal of a program that would be over a limit; null: it is within. */
export function check(
  { name, limits }: Tenant,
  usage: TenantUsage,
  demand: TenantDemand,
): OutboardError | null {
  const { sessions, memory, share } = limits;
  if (sessions !== null && usage.sessions + demand.sessions > sessions) {
    const { sessions: more } = demand;
    const most = sessions === 1 ? '1 session' : `${sessions} sessions`;
    return new OutboardError('OB_TENANT_SESSIONS', name, most, usage.sessions, more);
  }
  if (memory !== null && usage.memory + demand.memory > memory) {
    const [all, used, more] = [memory, usage.memory, demand.memory].map(formatExactBytes);
    return new OutboardError('OB_TENANT_MEMORY', name, `${all}`, `${used}`, `${more}`);
  }
  if (share !== null && usage.share + demand.share > share) {
    return new OutboardError('OB_TENANT_SHARE', name, share, usage.share, demand.share);
  }
  return null;
}

/** The class of a session that asks for `asked` (empty: nothing); throws the refusal. */
export function classFor(tenant: Tenant, asked: string): SessionClass {
  if (asked === '' || asked === tenant.class) return tenant.class;
  if (asked === 'best-effort') return 'best-effort';
  throw new OutboardError('OB_TENANT_CLASS', tenant.name, printable(asked, 32), tenant.class);
}

/** The GPUs the tenant may use, by index; null: all. Throws the refusal when it is none of these. */
export function allowedGpus(
  tenant: Tenant,
  gpus: readonly { index: number; uuid: string }[],
): number[] | null {
  const allowed = gpusOf(tenant, gpus);
  if (allowed?.length === 0) {
    throw new OutboardError('OB_TENANT_GPUS', tenant.name, tenant.limits.gpus?.join(', ') ?? '');
  }
  return allowed;
}

/** Those of `gpus` that the tenant may use, by index; null: all. */
export function gpusOf(
  { limits }: Tenant,
  gpus: readonly { index: number; uuid: string }[],
): number[] | null {
  const wanted = limits.gpus;
  if (wanted === null) return null;
  const allowed = gpus.filter(({ index, uuid }) =>
    wanted.some((one) =>
      typeof one === 'number' ? one === index : uuid.toLowerCase().startsWith(one.toLowerCase()),
    ),
  );
  return allowed.map(({ index }) => index);
}

/** Whether only this machine itself can connect: what is served without a tenants file. */
export function isLocal(listen: Listen): boolean {
  switch (listen.kind) {
    case 'unix':
      return true;
    case 'tcp':
      return listen.host === 'localhost' || listen.host === '::1' || /^127\./.test(listen.host);
    case 'fd':
      // Who can connect is known to whoever has opened it, but not here.
      return false;
  }
}

/** Throws OB_TENANTS_NEEDED for an address that others reach, where there are no tenants. */
export function requireLocal(listens: readonly Listen[], format: (listen: Listen) => string) {
  for (const listen of listens) {
    if (!isLocal(listen)) throw new OutboardError('OB_TENANTS_NEEDED', format(listen));
  }
}

/**
 * Throws OB_OPERATORS_NEEDED for a TCP address of the HTTP API where there are tenants and no operator has an
 * access token: with tenants, nobody is an operator merely because of reaching such an address.
 */
export function requireOperators(
  http: readonly Listen[],
  tenants: Pick<Tenants, 'file' | 'hasOperators'>,
  format: (listen: Listen) => string,
) {
  const open = http.find(({ kind }) => kind !== 'unix');
  if (open && !tenants.hasOperators) {
    throw new OutboardError('OB_OPERATORS_NEEDED', format(open), tenants.file);
  }
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** The content of the file as it is now. If the file becomes wrong, the last right content stays in force. */
export class Tenants {
  readonly file: string;
  readonly #log: Log;
  readonly #watch: FileWatch;
  readonly #listeners = new Set<(content: TenantsContent) => void>();
  #content: TenantsContent;

  /** Throws OB_TENANTS_FILE. */
  constructor(file: string, log: Log) {
    this.file = file;
    this.#log = log;
    this.#watch = new FileWatch([file], () => this.reload(), {
      say: (text) => log.warn(text),
    });
    try {
      this.#content = readTenantsFile(file);
    } catch (error) {
      this.#watch.close();
      throw error;
    }
  }

  get content(): TenantsContent {
    return this.#content;
  }

  /** Calls `listener` after each change, until what it returns is called. */
  onChange(listener: (content: TenantsContent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Reads the file again, now. False, and a line in the log, when it is wrong. */
  reload(): boolean {
    try {
      this.#content = readTenantsFile(this.file);
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      const { code, remedy } = error;
      this.#log.error({ code, remedy }, `the tenants stay as they were: ${error.message}`);
      return false;
    }
    const { tenants, operators } = this.#content;
    this.#log.info({ tenants: tenants.length, operators: operators.length }, 'tenants read');
    for (const listener of this.#listeners) listener(this.#content);
    return true;
  }

  /** Throws the refusal. */
  identify(credentials: Credentials, now = Date.now()): Tenant {
    return identify(this.#content, credentials, now);
  }

  /** The tenant of that name as the file has it now; null: it has been removed. */
  named(name: string): Tenant | null {
    return this.#content.tenants.find((tenant) => tenant.name === name) ?? null;
  }

  /** Whether there is one who has an access token. */
  get hasOperators(): boolean {
    return this.#content.operators.some(({ accessTokens }) => accessTokens.length > 0);
  }

  /** For the HTTP API; null: the access token is not valid. */
  operator(text: string, now = Date.now()): { name: string; rights: 'view' | 'act' } | null {
    const found = holderOf(text, this.#content.operators);
    if (!found) return null;
    const { holder, accessToken } = found;
    if (
      [accessToken.expires, holder.expires].some((expires) => expires !== null && expires <= now)
    ) {
      return null;
    }
    return { name: holder.name, rights: holder.rights };
  }

  close() {
    this.#watch.close();
  }
}
