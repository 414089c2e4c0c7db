// The HTTP API in the test's own process, over operations in memory.
import { type IncomingHttpHeaders, request } from 'node:http';
import { pino } from 'pino';
import { type Api, type ApiOptions, newMetrics, startApi } from '../../src/api/api.js';
import type { Metrics } from '../../src/api/metrics.js';
import { readSocketToken } from '../../src/api/socket-token.js';
import type { Listen } from '../../src/network/listeners.js';
import { MemoryOperations } from './operations.js';

interface Test {
  teardown(end: () => unknown): void;
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into what they expect
  json: any;
}

export const somePolicies = {
  admission: [{ name: 'none', summary: 'whoever fits may come' }],
  queue: [{ name: 'first-come', summary: 'in order of arrival' }],
  placement: [{ name: 'best-fit', summary: 'the GPU with the least memory left' }],
  migration: [{ name: 'imbalance', summary: 'from several to none' }],
  quota: [{ name: 'windows', summary: 'of time', unit: 'device-time', periodMs: 10 }],
};

export class TestApi {
  readonly operations = new MemoryOperations();
  readonly metrics: Metrics = newMetrics();
  api: Api = { addresses: [], close: async () => {} };

  static async start(t: Test, more: Partial<ApiOptions> = {}): Promise<TestApi> {
    const test = new TestApi();
    test.api = await startApi({
      operations: test.operations,
      metrics: test.metrics,
      authorise: null,
      listen: [{ kind: 'tcp', host: '127.0.0.1', port: 0 }],
      log: pino({ level: 'silent' }),
      webRoot: null,
      policies: () => somePolicies,
      ...more,
    });
    t.teardown(() => test.api.close());
    return test;
  }

  get port(): number {
    const [first] = this.api.addresses;
    return first?.kind === 'tcp' ? first.port : 0;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  ask(
    method: string,
    path: string,
    { body, headers }: { body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    return ask(this.api.addresses[0], method, path, body, headers);
  }
}

export function ask(
  listen: Listen | undefined,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const where = listen?.kind === 'unix' ? { socketPath: listen.path } : { ...listen };
  const token = listen?.kind === 'unix' ? readSocketToken(listen.path) : null;
  const own = token === null ? {} : { authorization: `Bearer ${token}` };
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const type = sent === undefined ? {} : { 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const asked = request(
      { ...where, method, path, agent: false, headers: { ...type, ...own, ...headers } },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk) => chunks.push(chunk));
        answer.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const status = answer.statusCode ?? 0;
          resolve({ status, headers: answer.headers, text, json: parsed(text) });
        });
      },
    );
    asked.on('error', reject);
    asked.end(sent);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
