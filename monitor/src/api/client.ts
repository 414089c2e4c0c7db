// The commands' side of the HTTP API.
import { existsSync, readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import path from 'node:path';
import { unpack } from 'msgpackr';
import { WebSocket } from 'ws';
import { OutboardError } from '../base/errors.js';
import type { GpuDrainView, View } from '../base/view.js';
import { BadValue, type Option, yesNo } from '../options/options.js';
import { formatAddress, parseAddress, usualPorts } from '../options/values.js';
import type { LiveMessage } from './live.js';
import type { DrainView } from './schemas.js';
import { readSocketToken } from './socket-token.js';

/** Where a server that was installed as a service can be asked without an access token. */
const usualSocket = '/run/outboard/api.sock';
const usualUrl = 'http://127.0.0.1:4461';
const answerSeconds = 30;

/** Of every command that asks a server. */
export const apiOptions = {
  api: {
    env: 'OUTBOARD_API',
    value: 'URL|HOST:PORT|unix:PATH',
    help: 'the HTTP API of the server',
    parse: parseApi,
    fallback: null,
    shown: `unix:${usualSocket} where that exists, else ${usualUrl}`,
    mistaken: {
      server: 'names the HTTP API that this command asks, whose address is not the one of programs',
    },
  } satisfies Option<string | null>,
  'token-file': {
    env: 'OUTBOARD_OPERATOR_TOKEN_FILE',
    value: 'FILE',
    help: "holds the operator's access token, where the server wants one",
    parse: (text: string) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
};

interface ApiValues {
  api: string | null;
  'token-file': string | null;
}

function parseApi(text: string): string {
  if (text.startsWith('unix:') && text.length > 'unix:'.length) return text;
  if (/^https?:\/\//.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '');
  try {
    return `http://${formatAddress(parseAddress(text, 1, usualPorts.http))}`;
  } catch {
    throw new BadValue(
      'expected HOST:PORT, a URL or a socket, as in gpu1:4461 or unix:/run/api.sock',
    );
  }
}

export class ApiClient {
  readonly where: string;
  readonly #accessToken: string | null;
  /** Null: it is no Unix socket. */
  readonly #socket: string | null;

  constructor({ api, 'token-file': accessTokenFile }: ApiValues) {
    this.where = api ?? (existsSync(usualSocket) ? `unix:${usualSocket}` : usualUrl);
    this.#accessToken = accessTokenFile === null ? null : readAccessToken(accessTokenFile);
    const { where } = this;
    this.#socket = where.startsWith('unix:') ? where.slice('unix:'.length) : null;
  }

  state(): Promise<View> {
    return this.ask('GET', '/v1/state') as Promise<View>;
  }

  drained(method: 'GET' | 'PUT' | 'DELETE'): Promise<DrainView> {
    return this.ask(method, '/v1/drain') as Promise<DrainView>;
  }

  gpuDrained(method: 'GET' | 'DELETE', gpu: number): Promise<GpuDrainView> {
    return this.ask(method, `/v1/gpus/${gpu}/drain`) as Promise<GpuDrainView>;
  }

  drainGpu(gpu: number, move: boolean): Promise<GpuDrainView> {
    return this.ask('PUT', `/v1/gpus/${gpu}/drain`, { move }) as Promise<GpuDrainView>;
  }

  /** What the server answers, undefined where it says nothing. Throws its refusal. */
  async ask(
    method: string,
    route: string,
    body?: unknown,
    patience = answerSeconds,
  ): Promise<unknown> {
    const { status, text } = await this.#send(method, route, body, patience);
    const json = parsed(text);
    if (status >= 200 && status < 300) {
      if (status === 204) return undefined;
      if (json === undefined) throw this.#strange(`${method} ${route} was answered without JSON`);
      return json;
    }
    throw this.#refusal(json) ?? this.#strange(`${method} ${route} was answered with ${status}`);
  }

  /** The live WebSocket, open; messages go to `onMessage` until `closed` resolves. */
  async follow(onMessage: (message: LiveMessage) => void): Promise<Following> {
    const base = this.#socket !== null ? `ws+${this.where}:` : this.where.replace(/^http/, 'ws');
    const options = { headers: this.#headers(), handshakeTimeout: answerSeconds * 1000 };
    const socket = new WebSocket(`${base}/v1/live`, ['msgpack'], options);
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.on('message', (data: Buffer) => onMessage(unpack(data)));
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', (error) => reject(this.#unreachable(error)));
      socket.once('unexpected-response', (_request, response) => {
        read(response).then(({ status, text }) => {
          const what = `/v1/live was answered with ${status}`;
          reject(this.#refusal(parsed(text)) ?? this.#strange(what));
          socket.terminate();
        }, reject);
      });
    });
    socket.on('error', () => {});
    return { closed, close: () => socket.close() };
  }

  #send(method: string, route: string, body: unknown, patience: number): Promise<Answer> {
    const base = this.#socket !== null ? 'http://localhost' : this.where;
    const send = base.startsWith('https:') ? httpsRequest : httpRequest;
    const sent = body === undefined ? '' : JSON.stringify(body);
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const options = {
      method,
      headers: { ...this.#headers(), ...type, 'content-length': Buffer.byteLength(sent) },
      timeout: patience * 1000,
      agent: false,
      ...(this.#socket !== null && { socketPath: this.#socket }),
    } as const;
    return new Promise((resolve, reject) => {
      const asked = send(`${base}${route}`, options, (answer) => {
        read(answer).then(resolve, (error) => reject(this.#unreachable(error)));
      });
      asked.once('error', (error) => reject(this.#unreachable(error)));
      asked.once('timeout', () => asked.destroy(new Error(`no answer in ${patience} seconds`)));
      asked.end(sent);
    });
  }

  #headers(): Record<string, string> {
    // Read each time: the server may be another one than before.
    const accessToken =
      this.#accessToken ?? (this.#socket === null ? null : readSocketToken(this.#socket));
    return accessToken === null ? {} : { authorization: `Bearer ${accessToken}` };
  }

  #refusal(json: unknown): OutboardError | null {
    const { code, message } = (json ?? {}) as { code?: unknown; message?: unknown };
    if (typeof code !== 'string' || typeof message !== 'string') return null;
    return OutboardError.relayed(code, message) ?? this.#strange(`${message} (${code})`);
  }

  #strange(what: string) {
    return new OutboardError('OB_API_ANSWER', this.where, what);
  }

  #unreachable(error: Error & { code?: string }) {
    // Where there are several addresses, the error of each is inside, and the message empty.
    return new OutboardError(
      'OB_API_REACH',
      this.where,
      error.message || (error.code ?? 'no answer'),
    );
  }
}

export interface Following {
  /** Resolves when the connection is over, for whatever reason. */
  closed: Promise<void>;
  close(): void;
}

interface Answer {
  status: number;
  text: string;
}

async function read(answer: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk);
  return { status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readAccessToken(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new OutboardError('OB_TOKEN_FILE', file, (error as Error).message);
  }
  if (!/^[\x21-\x7e]+$/.test(text)) {
    throw new OutboardError('OB_TOKEN_FILE', file, 'it does not hold one word');
  }
  return text;
}
