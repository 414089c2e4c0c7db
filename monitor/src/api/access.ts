// Who may ask the HTTP API what.
//
// With operators configured, a request over TCP carries a token (`Authorization: Bearer`), which no
// browser sends by itself: a page of somebody else has nothing to abuse. Without operators, being on
// this machine is the right to act, and a browser on this machine shows pages of anybody. Against
// those:
//  - acts are PUT and DELETE, never GET or POST: a page of another origin cannot send them without
//    the preflight question, to which this server never agrees (it knows no CORS header);
//  - a request that says it comes from another origin (Origin, Sec-Fetch-Site) is refused, whatever
//    it asks; that holds for the WebSocket too, where browsers ask no preflight question;
//  - DNS rebinding, which makes a page of another name look like the same origin, is seen by that
//    name in Host: without operators only names of this machine itself are answered.
// Whoever can open the Unix socket has been let in by its file mode, 0600, but may be a slot's process
// that a tenant has taken over: what counts is the token in the file beside it (socket-token.ts), or
// that of an operator. That a request came through it is known from the listener, and from nothing that
// may be missing for another reason: a TCP connection that its sender has reset has no address either.
import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { OutboardError } from '../base/errors.js';

export interface Operator {
  name: string;
  /** `act` includes `view`. */
  rights: 'view' | 'act';
}

/** Null: the token is not valid. Compares in constant time. */
export type Authorise = (token: string) => Operator | null;

/** What proxies say of those they speak for. */
const proxyHeaders = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'via',
];

/** A WebSocket of a browser carries no headers of the page's making; the token is a subprotocol. */
const bearerProtocol = 'outboard.bearer.';

/** With the token of the socket. */
const throughUnix = new WeakMap<IncomingMessage, Buffer>();

/** For the listener of a Unix socket to say; every other request is taken for one over TCP. */
export function cameThroughUnix(request: IncomingMessage, token: string) {
  throughUnix.set(request, Buffer.from(token));
}

/** For logs. */
export function senderOf(request: IncomingMessage): string {
  return throughUnix.has(request) ? 'unix' : (request.socket.remoteAddress ?? 'unknown');
}

/** Who asks. Throws the refusal. `authorise` null: there are no operators, and no tenants. */
export function admitRequest(request: IncomingMessage, authorise: Authorise | null): Operator {
  refuseOtherOrigins(request);
  const own = throughUnix.get(request);
  if (own) return admitLocal(request, own, authorise);
  const peer = request.socket.remoteAddress;
  // Reset: there is nobody to answer, and nobody who could be known.
  if (peer === undefined) throw new OutboardError('OB_API_GONE');
  if (authorise) return admitOperator(tokenOf(request), authorise);
  if (!isLoopback(peer)) throw new OutboardError('OB_API_PEER', peer);
  // A proxy on this machine speaks for somebody elsewhere.
  const forwarded = proxyHeaders
    .map((name) => request.headers[name])
    .find((value) => value !== undefined);
  if (forwarded !== undefined) throw new OutboardError('OB_API_PEER', quoted(String(forwarded)));
  const { host = '' } = request.headers;
  if (!isOwnName(nameOf(host))) throw new OutboardError('OB_API_HOST', quoted(host));
  return { name: 'local', rights: 'act' };
}

function admitOperator(token: string | null, authorise: Authorise | null): Operator {
  const operator = token === null ? null : authorise?.(token);
  if (!operator) throw new OutboardError('OB_API_TOKEN');
  return operator;
}

function admitLocal(request: IncomingMessage, own: Buffer, authorise: Authorise | null): Operator {
  const token = tokenOf(request);
  const shown = Buffer.from(token ?? '');
  const isOwn = shown.length === own.length && timingSafeEqual(shown, own);
  return isOwn ? { name: 'local', rights: 'act' } : admitOperator(token, authorise);
}

/** The page itself, which asks for the token where one is wanted. Throws the refusal. */
export function admitToPage(request: IncomingMessage, authorise: Authorise | null) {
  if (!authorise && !throughUnix.has(request)) admitRequest(request, null);
}

export function mayAct({ name, rights }: Operator) {
  if (rights !== 'act') throw new OutboardError('OB_API_RIGHTS', name);
}

function refuseOtherOrigins({ headers }: IncomingMessage) {
  const { origin, host = '' } = headers;
  if (origin !== undefined && originHost(origin) !== host.toLowerCase()) {
    throw new OutboardError('OB_API_ORIGIN', quoted(origin));
  }
  const site = headers['sec-fetch-site'];
  // Following a link to this server's page is no request in that page's name.
  const visits = headers['sec-fetch-mode'] === 'navigate';
  if ((site === 'cross-site' || site === 'same-site') && !visits) {
    throw new OutboardError('OB_API_ORIGIN', 'another origin');
  }
}

/** HOST:PORT of an origin; null for those that have none. */
function originHost(origin: string): string | null {
  try {
    return new URL(origin).host || null;
  } catch {
    return null;
  }
}

function tokenOf({ headers }: IncomingMessage): string | null {
  const [, bearer] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
  if (bearer !== undefined) return bearer;
  const protocols = (headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim());
  const encoded = protocols.find((one) => one.startsWith(bearerProtocol));
  return encoded === undefined
    ? null
    : Buffer.from(encoded.slice(bearerProtocol.length), 'base64url').toString();
}

/** The subprotocol that carries a token. */
export function bearerSubprotocol(token: string): string {
  return bearerProtocol + Buffer.from(token).toString('base64url');
}

function nameOf(host: string): string {
  return host
    .replace(/:\d+$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase();
}

/** Names that no name server can give to somebody else. */
function isOwnName(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost') || isLoopback(name);
}

export function isLoopback(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '');
  return isIP(plain) !== 0 && (plain === '::1' || /^127\./.test(plain));
}

/** What strangers send goes into messages in a harmless form. */
function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
