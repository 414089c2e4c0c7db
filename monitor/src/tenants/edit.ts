// Changes the tenants file, and leaves comments, order and blank lines as they are. The new text is checked,
// and then replaces the old one in one step.
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { type Document, isMap, isSeq, parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { OutboardError } from '../base/errors.js';
import { hashAccessToken, newAccessToken } from './access-token.js';
import { parseTenants } from './file.js';

const emptyFile = `# Who may use this server, and how much of it. \`outboard serve\` takes changes over at once.
# Kept by \`outboard tenant\`, and by hand.
version: v1
tenants: []
`;

export interface NewTenant {
  name: string;
  expires?: string;
  certificates?: string[];
  class?: string;
  uploadCache?: boolean;
  moves?: boolean;
  limits: {
    sessions?: number;
    memory?: string;
    share?: number;
    kernelSeconds?: number;
    idleSeconds?: number;
    graceDisconnectedSeconds?: number;
    gpus?: (number | string)[];
  };
}

export interface NewOperator {
  name: string;
  rights: 'view' | 'act';
  expires?: string;
}

/** Adds a tenant and returns its access token, which cannot be read anywhere later. */
export function addTenant(file: string, tenant: NewTenant): Promise<string> {
  const { name, limits, ...rest } = tenant;
  return edit(file, (document) => {
    refuseKnown(document, file, name);
    const accessToken = newAccessToken();
    const some = Object.keys(limits).length > 0 ? { limits } : {};
    append(document, 'tenants', {
      name,
      tokens: [{ hash: hashAccessToken(accessToken) }],
      ...rest,
      ...some,
    });
    return accessToken;
  });
}

export function addOperator(file: string, operator: NewOperator): Promise<string> {
  const { name, ...rest } = operator;
  return edit(file, (document) => {
    refuseKnown(document, file, name);
    const accessToken = newAccessToken();
    append(document, 'operators', {
      name,
      tokens: [{ hash: hashAccessToken(accessToken) }],
      ...rest,
    });
    return accessToken;
  });
}

/** What is to change of one who is there; null: it is taken out, so that there is no limit or the default holds. */
export interface Changes {
  expires?: string | null;
  /** Of tenants. */
  certificates?: string[] | null;
  class?: string | null;
  uploadCache?: boolean | null;
  moves?: boolean | null;
  limits?: { [Limit in keyof NewTenant['limits']]?: NewTenant['limits'][Limit] | null };
  /** Of operators. */
  rights?: 'view' | 'act';
}

/**
 * Changes a tenant or an operator, and leaves all else of it as it is. Throws OB_TENANT_NOT_THERE, and OB_TENANT_KIND
 * where this is no property of one of its kind.
 */
export function change(file: string, name: string, changes: Changes): Promise<void> {
  const { limits = {}, ...rest } = changes;
  return edit(file, (document) => {
    const { entry, kind } = find(document, file, name);
    const tenant = kind === 'tenants';
    const foreign = tenant ? ['rights'] : ['certificates', 'class', 'uploadCache', 'moves'];
    const wrong = Object.keys(rest).find((key) => foreign.includes(key)) ?? Object.keys(limits)[0];
    if (wrong !== undefined && (foreign.includes(wrong) || !tenant)) {
      throw new OutboardError('OB_TENANT_KIND', name, tenant ? 'a tenant' : 'an operator', wrong);
    }
    for (const [key, value] of Object.entries(rest)) put(document, entry, key, value);
    if (Object.keys(limits).length === 0) return;
    const found = entry.get('limits');
    const map = isMap(found) ? found : (document.createNode({}) as YAMLMap);
    if (map !== found) entry.set('limits', map);
    for (const [key, value] of Object.entries(limits)) put(document, map, key, value);
    // In block style an empty map would be written as nothing, which reads as null.
    if (map.items.length === 0) entry.delete('limits');
  });
}

function put(document: Document, map: YAMLMap, key: string, value: unknown) {
  if (value === null) map.delete(key);
  // A scalar that is there keeps its comments.
  else if (typeof value === 'object') map.set(key, document.createNode(value));
  else map.set(key, value);
}

/** Removes a tenant or an operator. */
export function remove(file: string, name: string): Promise<void> {
  return edit(file, (document) => {
    const { list, index } = find(document, file, name);
    list.delete(index);
    // In block style an empty list would be written as nothing, which reads as null.
    if (list.items.length === 0) list.flow = true;
  });
}

/**
 * A new access token beside the old ones, which end at `until`. Those that have ended are taken out.
 * `expires`: of the new one.
 */
export function rotate(
  file: string,
  name: string,
  until: Date,
  expires: string | null,
): Promise<string> {
  return edit(file, (document) => {
    const { entry } = find(document, file, name);
    const accessToken = newAccessToken();
    const now = Date.now();
    const old = accessTokensOf(entry).filter((one) => !(endOf(one) <= now));
    for (const one of old) if (endOf(one) > until.getTime()) one.set('expires', short(until));
    const fresh = { hash: hashAccessToken(accessToken), ...(expires === null ? {} : { expires }) };
    const accessTokens = entry.get('tokens');
    // A list that exists is changed in place, as it may have comments of its own.
    if (isSeq(accessTokens)) accessTokens.items = [document.createNode(fresh), ...old];
    else entry.set('tokens', document.createNode([fresh]));
    return accessToken;
  });
}

/** Without milliseconds, which nobody needs to read. */
function short(moment: Date): string {
  return moment.toISOString().replace(/\.\d+Z$/, 'Z');
}

function accessTokensOf(entry: YAMLMap): YAMLMap[] {
  const accessTokens = entry.get('tokens');
  return isSeq(accessTokens) ? accessTokens.items.filter((one) => isMap(one)) : [];
}

function endOf(accessToken: YAMLMap): number {
  const expires = accessToken.get('expires');
  return expires === undefined ? Number.POSITIVE_INFINITY : Date.parse(String(expires));
}

interface Found {
  kind: 'tenants' | 'operators';
  list: YAMLSeq;
  index: number;
  entry: YAMLMap;
}

function search(document: Document, name: string): Found | null {
  for (const kind of ['tenants', 'operators'] as const) {
    const list = document.get(kind);
    if (!isSeq(list)) continue;
    for (const [index, entry] of list.items.entries()) {
      if (isMap(entry) && entry.get('name') === name) return { kind, list, index, entry };
    }
  }
  return null;
}

function find(document: Document, file: string, name: string): Found {
  const found = search(document, name);
  if (!found) throw new OutboardError('OB_TENANT_NOT_THERE', file, name);
  return found;
}

function refuseKnown(document: Document, file: string, name: string) {
  if (search(document, name)) throw new OutboardError('OB_TENANT_EXISTS', file, name);
}

function append(document: Document, key: string, value: unknown) {
  const list = document.get(key);
  if (!isSeq(list)) {
    document.set(key, document.createNode([value]));
    return;
  }
  // `[]` is how an empty list must be written; entries are for people to read.
  if (list.items.length === 0) list.flow = false;
  list.add(document.createNode(value));
}

/**
 * Changes the file while nobody else can. Throws OB_TENANTS_FILE where it is wrong before or after, and
 * OB_TENANTS_WRITE.
 */
async function edit<T>(file: string, change: (document: Document) => T): Promise<T> {
  const real = resolve(file);
  const lock = await Lock.on(real);
  try {
    const before = read(real);
    if (before !== null) parseTenants(before, real);
    const document = parseDocument(before ?? emptyFile);
    const result = change(document);
    const text = document.toString({ lineWidth: 0 });
    parseTenants(text, real);
    replace(real, text);
    return result;
  } finally {
    lock.release();
  }
}

/** The file that is meant, where `file` is a link. */
function resolve(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return path.resolve(file);
  }
}

function read(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw new OutboardError('OB_TENANTS_FILE', (error as Error).message);
  }
}

/** Never half a file, and never readable by all: an existing one keeps its owner and group. */
function replace(file: string, text: string) {
  const next = `${file}.${process.pid}.new`;
  let begun = false;
  try {
    const old = statSync(file, { throwIfNoEntry: false });
    const fd = openSync(next, 'wx', 0o600);
    begun = true;
    try {
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    if (old) {
      if (process.getuid?.() === 0) chownSync(next, old.uid, old.gid);
      chmodSync(next, old.mode & 0o660);
    }
    renameSync(next, file);
  } catch (error) {
    if (begun) rmSync(next, { force: true });
    throw new OutboardError('OB_TENANTS_WRITE', file, whyUnwritten(error, path.dirname(file)));
  }
}

function whyUnwritten(error: unknown, folder: string): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return `there is no folder ${folder}`;
  if (code === 'ENOTDIR') return `${folder} is no folder`;
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return `this user may not write to the folder ${folder}`;
  return message;
}

/**
 * The lock is an abstract Unix socket named after the file. The kernel frees it however its holder ends, so
 * none is ever left behind. Whoever waits connects to it, and is told by the end of that connection.
 */
class Lock {
  readonly #server = createServer((socket) => {
    this.#waiting.push(socket.on('error', () => {}));
  });
  readonly #waiting: Socket[] = [];

  static async on(file: string): Promise<Lock> {
    const name = createHash('sha256').update(file).digest('hex').slice(0, 32);
    const path = `\0outboard-tenants-${name}`;
    const lock = new Lock();
    while (!(await lock.#take(path))) await closed(connect({ path }));
    return lock;
  }

  /** Returns false where somebody else has the lock. */
  #take(path: string): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException) =>
        error.code === 'EADDRINUSE' ? resolve(false) : reject(error);
      this.#server.once('error', failed).listen({ path }, () => {
        this.#server.off('error', failed);
        resolve(true);
      });
    });
  }

  /** Those who wait are told last, when it can be had. */
  release() {
    this.#server.close();
    for (const socket of this.#waiting) socket.destroy();
  }
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('error', () => {}).once('close', () => resolve());
  });
}
