// Who may ask the HTTP API what.
//
// With operators configured, a request over TCP carries an access token (`Authorization: Bearer`). No
// browser sends that by itself, so a page of somebody else has nothing to abuse. Without operators,
// whoever is on this machine may act, and a browser on this machine shows pages of anybody. Against
// those:
//  - acts are PUT and DELETE, never GET or POST: a page of another origin cannot send them without
//    the preflight question, to which this server never agrees (it knows no CORS header);
//  - a request that says it comes from another origin (Origin, Sec-Fetch-Site) is refused, whatever
//    it asks; that holds for the WebSocket too, where browsers ask no preflight question;
//  - DNS rebinding, which makes a page of another name look like the same origin, is seen by that
//    name in Host: without operators only names of this machine itself are answered.
// The file mode of the Unix socket, 0600, keeps out other users, but not a slot's process that a tenant
// has taken over. So a request through it, too, must carry an access token: that in the file beside the
// socket (socket-token.ts) or an operator's. The listener says which requests came through the socket.
// A missing address would not do: a TCP connection that its sender has reset has none either.
import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { OutboardError } from '../base/errors.js';

export interface Operator {
  name: string;
  /** `act` includes `view`. */
  rights: 'view' | 'act';
}

/** Null: the access token is not valid. Compares in constant time. */
export type Authorise = (accessToken: string) => Operator | null;

/** Headers in which proxies name the client behind them. */
const proxyHeaders = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'via',
];

/** A page cannot set headers of its WebSocket, so the access token is sent as a subprotocol. */
const bearerProtocol = 'outboard.bearer.';

/** Requests that came through a Unix socket, with the access token of that socket. */
const throughUnix = new WeakMap<IncomingMessage, Buffer>();

/** Called by the listener of a Unix socket; every other request counts as one over TCP. */
export function cameThroughUnix(request: IncomingMessage, accessToken: string) {
  throughUnix.set(request, Buffer.from(accessToken));
}

/** For logs. */
export function senderOf(request: IncomingMessage): string {
  return throughUnix.has(request) ? 'unix' : (request.socket.remoteAddress ?? 'unknown');
}

/** Says who asks. Throws the refusal. `authorise` null: there are no operators, and no tenants. */
export function admitRequest(request: IncomingMessage, authorise: Authorise | null): Operator {
  refuseOtherOrigins(request);
  const own = throughUnix.get(request);
  if (own) return admitLocal(request, own, authorise);
  const peer = request.socket.remoteAddress;
  // The connection was reset: nobody is there to be answered, and nothing says who it was.
  if (peer === undefined) throw new OutboardError('OB_API_GONE');
  if (authorise) return admitOperator(accessTokenOf(request), authorise);
  if (!isLoopback(peer)) throw new OutboardError('OB_API_PEER', peer);
  // The request comes from a proxy on this machine, but for somebody elsewhere.
  const forwarded = proxyHeaders
    .map((name) => request.headers[name])
    .find((value) => value !== undefined);
  if (forwarded !== undefined) throw new OutboardError('OB_API_PEER', quoted(String(forwarded)));
  const { host = '' } = request.headers;
  if (!isOwnName(nameOf(host))) throw new OutboardError('OB_API_HOST', quoted(host));
  return { name: 'local', rights: 'act' };
}

function admitOperator(accessToken: string | null, authorise: Authorise | null): Operator {
  const operator = accessToken === null ? null : authorise?.(accessToken);
  if (!operator) throw new OutboardError('OB_API_TOKEN');
  return operator;
}

function admitLocal(request: IncomingMessage, own: Buffer, authorise: Authorise | null): Operator {
  const accessToken = accessTokenOf(request);
  const shown = Buffer.from(accessToken ?? '');
  const isOwn = shown.length === own.length && timingSafeEqual(shown, own);
  return isOwn ? { name: 'local', rights: 'act' } : admitOperator(accessToken, authorise);
}

/** The page itself, which asks for the access token where one is wanted. Throws the refusal. */
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
  // Somebody has followed a link to this server's page; that is no request by the other page.
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

function accessTokenOf({ headers }: IncomingMessage): string | null {
  const [, bearer] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
  if (bearer !== undefined) return bearer;
  const protocols = (headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim());
  const encoded = protocols.find((one) => one.startsWith(bearerProtocol));
  return encoded === undefined
    ? null
    : Buffer.from(encoded.slice(bearerProtocol.length), 'base64url').toString();
}

/** The subprotocol that carries an access token. */
export function bearerSubprotocol(accessToken: string): string {
  return bearerProtocol + Buffer.from(accessToken).toString('base64url');
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

function isLoopback(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '');
  return isIP(plain) !== 0 && (plain === '::1' || /^127\./.test(plain));
}

/** What strangers send goes into messages in a harmless form. */
function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
