// Requests to the monitor. The operator's token is kept in sessionStorage: it ends with the tab and
// no other page sees it. A request carries it as a header, which no browser sends by itself.
import type { HistoryView } from '../../src/api/schemas.js';
import type { LogLine, ShareChange, View } from '../../src/base/view.js';
import { ApiError } from './messages.js';

const tokenKey = 'outboard.token';

export const token = {
  get: () => sessionStorage.getItem(tokenKey),
  set: (value: string) => sessionStorage.setItem(tokenKey, value),
  forget: () => sessionStorage.removeItem(tokenKey),
};

/** Above what a busy server needs; below what an operator waits for. */
const patience = 10_000;

export const api = {
  state: () => request<View>('GET', 'state'),
  history: () => request<HistoryView>('GET', 'history'),
  logs: (lines: number) => request<LogLine[]>('GET', `logs?lines=${lines}`),
  kill: (session: number, reason: string) =>
    request('DELETE', `sessions/${session}?reason=${encodeURIComponent(reason)}`),
  setShare: (session: number, share: ShareChange) =>
    request('PUT', `sessions/${session}/share`, share),
  drain: () => request('PUT', 'drain'),
  resume: () => request('DELETE', 'drain'),
};

export function liveSocket(): WebSocket {
  const url = new URL('v1/live', document.baseURI);
  url.protocol = url.protocol.replace('http', 'ws');
  const held = token.get();
  return new WebSocket(url, held === null ? ['json'] : ['json', bearer(held)]);
}

/** A WebSocket cannot carry headers of ours; a subprotocol it can. */
function bearer(text: string): string {
  const binary = String.fromCharCode(...new TextEncoder().encode(text));
  const base64url = btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  return `outboard.bearer.${base64url}`;
}

async function request<T = unknown>(method: string, path: string, body?: object): Promise<T> {
  const headers = new Headers({ accept: 'application/json' });
  const held = token.get();
  if (held !== null) headers.set('authorization', `Bearer ${held}`);
  if (body) headers.set('content-type', 'application/json');
  const response = await fetch(new URL(`v1/${path}`, document.baseURI), {
    method,
    headers,
    cache: 'no-store',
    signal: AbortSignal.timeout(patience),
    ...(body ? { body: JSON.stringify(body) } : {}),
  }).catch(unreachable);
  const text = await response.text().catch(unreachable);
  if (!response.ok) throw refusal(response, text);
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

function unreachable(): never {
  throw new ApiError(
    0,
    'UNREACHABLE',
    'the server does not answer',
    'See whether `outboard serve` runs on the GPU machine, and the network in between.',
  );
}

function refusal({ status, statusText }: Response, text: string): ApiError {
  try {
    const { code, message, remedy } = JSON.parse(text);
    if (code && message) return new ApiError(status, code, message, remedy ?? '');
  } catch {
    // Not the monitor's own words: a proxy in between.
  }
  return new ApiError(
    status,
    `HTTP ${status}`,
    `the answer was ${statusText || status}`,
    'See whether a proxy stands between this page and the monitor.',
  );
}
