import { closeSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type Command, exitCodes } from '../cli/command.js';
import { print as printLines } from '../cli/table.js';
import {
  BadValue,
  type Option,
  optionsHelp,
  readOptions,
  splitAtProgram,
  UsageError,
  type Values,
  yesNo,
} from '../options/options.js';
import { formatBytes, parseBytes, parseChoice, parseCount } from '../options/values.js';
import type { AccessToken } from '../tenants/access-token.js';
import { addOperator, addTenant, type Changes, change, remove, rotate } from '../tenants/edit.js';
import { parseMoment, readTenantsFile, type TenantsContent } from '../tenants/file.js';

/** What takes a limit away, or puts a property back to its default. */
type None = 'none';
const orNone =
  <T>(parse: (text: string) => T) =>
  (text: string): T | None =>
    text === 'none' ? text : parse(text);

const options = {
  tenants: {
    env: 'OUTBOARD_TENANTS',
    value: 'FILE',
    help: 'the tenants file; `add` makes it where there is none',
    parse: (text) => path.resolve(text),
    fallback: null,
    shown: 'none: it must be named',
  } satisfies Option<string | null>,
  sessions: {
    env: 'OUTBOARD_TENANT_SESSIONS',
    value: 'N',
    help: 'add, set: sessions it may have, running and waiting',
    parse: orNone(parseCount(0, 1_000_000, 'how many sessions,')),
    fallback: null,
    shown: 'no limit',
  } satisfies Option<number | None | null>,
  memory: {
    env: 'OUTBOARD_TENANT_MEMORY',
    value: 'BYTES',
    help: 'add, set: device memory of all its sessions, as in 64G',
    parse: orNone((text) => {
      parseBytes(text);
      return text;
    }),
    fallback: null,
    shown: 'no limit',
  } satisfies Option<string | None | null>,
  share: {
    env: 'OUTBOARD_TENANT_SHARE',
    value: 'PERCENT',
    help: 'add, set: GPU time promised to all its sessions; 100 is one GPU',
    parse: orNone(parseCount(0, 100_000, 'percent')),
    fallback: null,
    shown: 'no limit',
  } satisfies Option<number | None | null>,
  'kernel-seconds': {
    env: 'OUTBOARD_TENANT_KERNEL_SECONDS',
    value: 'SECONDS',
    help: 'add, set: how long a kernel of it may run, in place of what the server says; 0: for ever',
    parse: orNone(parseCount(0, 7 * 24 * 3600, 'seconds')),
    fallback: null,
    shown: 'what the server says',
  } satisfies Option<number | None | null>,
  'idle-seconds': {
    env: 'OUTBOARD_TENANT_IDLE_SECONDS',
    value: 'SECONDS',
    help: 'add, set: how long a session of it may do nothing, in place of what the server says; 0: for ever',
    parse: orNone(parseCount(0, 7 * 24 * 3600, 'seconds')),
    fallback: null,
    shown: 'what the server says',
  } satisfies Option<number | None | null>,
  'grace-disconnected': {
    env: 'OUTBOARD_TENANT_GRACE_DISCONNECTED',
    value: 'SECONDS',
    help: 'add, set: how long a session of it is kept whose connection was cut, in place of what the server says; 0: not at all (docs/surviving-a-cut.md)',
    parse: orNone(parseCount(0, 7 * 24 * 3600, 'seconds')),
    fallback: null,
    shown: 'what the server says',
  } satisfies Option<number | None | null>,
  gpus: {
    env: 'OUTBOARD_TENANT_GPUS',
    value: 'LIST',
    help: 'add, set: the GPUs it may use: indices, UUIDs or how these begin, as in 0,GPU-4e1f',
    parse: orNone(parseGpus),
    fallback: null,
    shown: 'all',
  } satisfies Option<(number | string)[] | None | null>,
  class: {
    env: 'OUTBOARD_TENANT_CLASS',
    value: 'CLASS',
    help: 'add, set: latency-strict or best-effort, which is then all it can ask for',
    parse: orNone(parseChoice('latency-strict', 'best-effort')),
    fallback: null,
    shown: 'latency-strict',
  } satisfies Option<string | None | null>,
  certificates: {
    env: 'OUTBOARD_TENANT_CERTIFICATES',
    value: 'NAMES',
    help: 'add, set: names in its client certificates: CN=..., DNS=..., URI=..., separated by commas',
    parse: orNone((text) => text.split(',').map((name) => name.trim())),
    fallback: null,
  } satisfies Option<string[] | None | null>,
  'upload-cache': yesNo(
    'OUTBOARD_TENANT_UPLOAD_CACHE',
    'add, set: keep what it uploads, so that the same bytes are sent once (docs/upload-cache.md)',
  ),
  'no-upload-cache': yesNo(
    'OUTBOARD_TENANT_NO_UPLOAD_CACHE',
    'set: keep nothing more of what it uploads',
  ),
  moves: {
    env: 'OUTBOARD_TENANT_MOVES',
    value: 'YES|NO',
    help: 'add, set: whether its sessions may be moved to other GPUs (docs/moving.md)',
    parse: parseChoice('yes', 'no'),
    fallback: null,
    shown: 'yes',
  } satisfies Option<string | null>,
  expires: {
    env: 'OUTBOARD_TENANT_EXPIRES',
    value: 'DATE',
    help: 'add, set: when it is not admitted any more; rotate: when the new access token ends; as 2027-01-31 or 2027-01-31T12:00:00Z',
    parse: orNone(parseDate),
    fallback: null,
    shown: 'never',
  } satisfies Option<string | None | null>,
  operator: {
    env: 'OUTBOARD_TENANT_OPERATOR',
    value: 'RIGHTS',
    help: 'add: not a tenant, but an operator of the HTTP API who may view or act; set: which of both',
    parse: parseChoice('view', 'act'),
    fallback: null,
  } satisfies Option<string | null>,
  overlap: {
    env: 'OUTBOARD_TENANT_OVERLAP',
    value: 'TIME',
    help: 'rotate: how long the old access tokens still hold, as in 90m, 24h or 7d; 0: they end now',
    parse: parseTime,
    fallback: 24 * 3600,
    shown: '24h',
  } satisfies Option<number>,
  'token-file': {
    env: 'OUTBOARD_TENANT_TOKEN_FILE',
    value: 'FILE',
    help: 'write the new access token there (mode 0600) and not to stdout',
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  json: yesNo('OUTBOARD_TENANT_JSON', 'print JSON'),
};

type TenantValues = Values<typeof options> & { tenants: string };

/** Of `moves` the file has what forbids them alone, so that `yes` takes it away. */
function shownChange(key: string, value: unknown): unknown {
  if (key === 'moves') return value === false ? 'no' : 'yes';
  return value ?? 'none';
}

/** All changes are for sessions that begin, but for whether they may be moved. */
function whatOfThoseThatRun(named: string[], count: number): string {
  if (!named.includes('moves')) return 'Sessions that run are left alone.';
  if (count === 1) return 'That holds for sessions that run, too.';
  return 'Sessions that run are left alone, but what is said of moves holds for them, too.';
}

export const tenant: Command = {
  name: 'tenant',
  summary: 'admit tenants and operators, and give them access tokens',
  help: `Usage: outboard tenant add NAME [OPTIONS]
       outboard tenant set NAME [OPTIONS]
       outboard tenant rotate NAME [OPTIONS]
       outboard tenant remove NAME [OPTIONS]
       outboard tenant list [OPTIONS]

Changes the tenants file, which a running \`outboard serve\` takes over at once. \`add\` and
\`rotate\` print an access token, the only time that it can be seen: the file holds its hash. \`set\` changes
what its options name and nothing else; \`none\` takes a limit away. Comments and order of the file stay.
Sessions that run are left alone, but for --moves, which holds for them, too.

${optionsHelp(options)}
`,
  options,
  words: ['add', 'set', 'rotate', 'remove', 'list'],
  async run([action, ...args]) {
    const act = actions[action ?? ''];
    if (!act) {
      const said = action === undefined ? 'no action' : `no action ${action}`;
      throw new UsageError(`${said}; there are ${Object.keys(actions).join(', ')}`);
    }
    const [before, [name, ...after]] = splitAtProgram(options, args);
    const values = readOptions(options, [...before, ...after], process.env);
    const { tenants } = values;
    if (tenants === null)
      throw new UsageError('no file: name it with --tenants or OUTBOARD_TENANTS');
    await act(name, { ...values, tenants });
    return exitCodes.ok;
  },
};

const actions: Record<
  string,
  (name: string | undefined, values: TenantValues) => Promise<void> | void
> = {
  async add(name, values) {
    const who = required(name, 'add');
    await withAccessTokenFile(values['token-file'], async () => {
      tell(await added(who, values), who, values);
    });
    warnOfPast(values, `${who} is not admitted`);
  },
  async set(name, values) {
    const who = required(name, 'set');
    const changes = changesOf(values);
    const { limits = {}, ...rest } = changes;
    const all = Object.entries({ ...rest, ...limits });
    if (all.length === 0) throw new UsageError('set what? Name it with an option, as --share 50');
    await change(values.tenants, who, changes);
    warnOfPast(values, `${who} is not admitted`);
    if (values.json) return print(JSON.stringify({ name: who, set: Object.fromEntries(all) }));
    const said = all.map(([key, value]) => `${key} ${shownChange(key, value)}`).join(', ');
    process.stderr.write(
      `${who} has now: ${said}. ${whatOfThoseThatRun(Object.keys(rest), all.length)}\n`,
    );
  },
  async rotate(name, values) {
    const who = required(name, 'rotate');
    const until = new Date(Date.now() + values.overlap * 1000);
    await withAccessTokenFile(values['token-file'], async () => {
      const { expires } = values;
      const ends = expires === 'none' ? null : expires;
      tell(await rotate(values.tenants, who, until, ends), who, values);
    });
    warnOfPast(values, `the new access token of ${who} does not hold`);
  },
  async remove(name, values) {
    const who = required(name, 'remove');
    await remove(values.tenants, who);
    if (values.json) print(JSON.stringify({ name: who, removed: true }));
    else process.stderr.write(`${who} is not admitted any more; what runs goes on.\n`);
  },
  list(name, values) {
    if (name !== undefined) throw new UsageError(`list takes no name, and here is ${name}`);
    const content = readTenantsFile(values.tenants);
    print(values.json ? JSON.stringify(shown(content), null, 2) : table(content));
  },
};

function required(name: string | undefined, action: string): string {
  if (name === undefined) throw new UsageError(`${action} whom? A name is missing`);
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw new UsageError(
      `the name ${JSON.stringify(name)} is not understood: expected 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit`,
    );
  }
  return name;
}

/** Such a date is a way to keep somebody out, and a slip far more often. */
function warnOfPast({ expires }: TenantValues, what: string) {
  if (expires === null || expires === 'none' || Date.parse(expires) > Date.now()) return;
  process.stderr.write(`--expires ${expires} is in the past: ${what}.\n`);
}

function added(name: string, values: TenantValues): Promise<string> {
  const { rights, limits, ...rest } = without(changesOf(values));
  if (rights !== undefined) {
    const { expires } = rest;
    return addOperator(values.tenants, { name, rights, ...(expires && { expires }) });
  }
  return addTenant(values.tenants, { name, ...rest, limits: limits ?? {} });
}

/** What the options say; what they do not name is not in it. Null: `none`. */
function changesOf(values: TenantValues): Changes {
  const limits = said({
    sessions: values.sessions,
    memory: values.memory,
    share: values.share,
    kernelSeconds: values['kernel-seconds'],
    idleSeconds: values['idle-seconds'],
    graceDisconnectedSeconds: values['grace-disconnected'],
    gpus: values.gpus,
  });
  const { operator } = values;
  return {
    ...said({ expires: values.expires }),
    ...said({ certificates: values.certificates, class: values.class }),
    ...(values['upload-cache'] ? { uploadCache: true } : {}),
    ...(values['no-upload-cache'] ? { uploadCache: null } : {}),
    ...(values.moves === null ? {} : { moves: values.moves === 'yes' ? null : false }),
    ...(operator === null ? {} : { rights: operator === 'act' ? 'act' : 'view' }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
}

type Said<T> = { [K in keyof T]?: Exclude<T[K], None> };

function said<T extends object>(options: T): Said<T> {
  const named = Object.entries(options).filter(([, value]) => value !== null);
  return Object.fromEntries(
    named.map(([key, value]) => [key, value === 'none' ? null : value]),
  ) as Said<T>;
}

type Without<T> = {
  [K in keyof T]: K extends 'limits' ? Without<T[K]> : Exclude<T[K], null>;
};

/** For one who is new, `none` is what there is anyway. */
function without({ limits, ...rest }: Changes): Without<Changes> {
  const there = (values: object) =>
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
  return { ...there(rest), ...(limits && { limits: there(limits) }) };
}

/** The access token, once: to a file that only its owner reads, or to stdout. */
function tell(accessToken: string, name: string, values: TenantValues) {
  const file = values['token-file'];
  if (file !== null) {
    writeFileSync(draftOf(file), `${accessToken}\n`);
    renameSync(draftOf(file), file);
  }
  if (values.json) {
    print(JSON.stringify(file === null ? { name, token: accessToken } : { name, tokenFile: file }));
    return;
  }
  if (file === null) print(accessToken);
  const where = file === null ? 'above' : `in ${file}`;
  process.stderr.write(`The access token of ${name} is ${where}; it cannot be shown again.\n`);
}

/**
 * `act` makes an access token and writes it. Whether the file can be written is tried before, so that
 * no access token comes into force and is lost.
 */
async function withAccessTokenFile(file: string | null, act: () => Promise<void>) {
  if (file === null) return act();
  try {
    closeSync(openSync(draftOf(file), 'wx', 0o600));
  } catch (error) {
    throw new UsageError(`--token-file ${file} cannot be written: ${(error as Error).message}`);
  }
  try {
    await act();
  } finally {
    rmSync(draftOf(file), { force: true });
  }
}

function draftOf(file: string): string {
  return `${file}.${process.pid}.new`;
}

function print(text: string) {
  printLines([text]);
}

function iso(moment: number | null): string | null {
  return moment === null ? null : new Date(moment).toISOString();
}

/** The beginning of the hash tells access tokens apart, and helps nobody to guess one. */
function shownAccessToken({ hash, expires }: AccessToken) {
  return { hash: `sha256:${hash.toString('hex').slice(0, 8)}`, expires: iso(expires) };
}

function shown({ tenants, operators }: TenantsContent) {
  return {
    tenants: tenants.map(({ accessTokens, expires, limits, ...tenant }) => ({
      ...tenant,
      expires: iso(expires),
      limits: { ...limits, memory: limits.memory === null ? null : Number(limits.memory) },
      tokens: accessTokens.map(shownAccessToken),
    })),
    operators: operators.map(({ accessTokens, expires, ...operator }) => ({
      ...operator,
      expires: iso(expires),
      tokens: accessTokens.map(shownAccessToken),
    })),
  };
}

function table({ tenants, operators }: TenantsContent): string {
  const dash = (value: unknown) => (value === null ? '-' : String(value));
  const rows = [
    [
      'TENANT',
      'TOKENS',
      'CLASS',
      'SESSIONS',
      'MEMORY',
      'SHARE',
      'GPUS',
      'UPLOADS',
      'MOVES',
      'EXPIRES',
    ],
    ...tenants.map(({ name, accessTokens, class: kind, uploadCache, moves, limits, expires }) => [
      name,
      String(accessTokens.length),
      kind,
      dash(limits.sessions),
      limits.memory === null ? '-' : formatBytes(limits.memory),
      limits.share === null ? '-' : `${limits.share}%`,
      limits.gpus === null ? 'all' : limits.gpus.join(','),
      uploadCache ? 'kept' : '-',
      moves ? 'yes' : 'no',
      dash(iso(expires)),
    ]),
  ];
  const more = [
    ['OPERATOR', 'TOKENS', 'RIGHTS', 'EXPIRES'],
    ...operators.map(({ name, accessTokens, rights, expires }) => [
      name,
      String(accessTokens.length),
      rights,
      dash(iso(expires)),
    ]),
  ];
  return operators.length === 0 ? columns(rows) : `${columns(rows)}\n\n${columns(more)}`;
}

function columns(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function parseGpus(text: string): (number | string)[] {
  return text.split(',').map((one) => {
    const gpu = one.trim();
    if (/^\d{1,4}$/.test(gpu)) return Number(gpu);
    if (/^(GPU|MIG)-[0-9a-fA-F-]+$/.test(gpu)) return gpu;
    throw new BadValue('expected indices, or UUIDs or how they begin, as in 0,GPU-4e1f');
  });
}

function parseDate(text: string): string {
  if (parseMoment(text) === null) {
    throw new BadValue('expected a day, as in 2027-01-31, or a moment, as in 2027-01-31T12:00:00Z');
  }
  return text;
}

/** Seconds. */
function parseTime(text: string): number {
  const [, digits, unit = 's'] = /^(\d{1,9})([smhd])?$/.exec(text) ?? [];
  if (digits === undefined) throw new BadValue('expected a time, as in 90m, 24h or 7d');
  const seconds = { s: 1, m: 60, h: 3600, d: 86400 }[unit] ?? 1;
  return Number(digits) * seconds;
}
