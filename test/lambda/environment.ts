// Stands in for what Lambda has around a function: the Extensions, Telemetry and Runtime APIs over HTTP, one
// invocation at a time. It says when an environment would be frozen, and freezes nothing itself.
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface LambdaOptions {
  /** The emulator has no Telemetry API, and says so by 202. */
  telemetry?: boolean;
  /** What extensions get in place of a registration. */
  refuse?: { status: number; body: string };
  /** Answers come in chunks. */
  chunked?: boolean;
  /** Milliseconds that an invocation may take. */
  timeout?: number;
}

interface Waiting {
  answer: (event: object) => void;
}

export class Lambda {
  readonly #options: LambdaOptions;
  readonly #server = createServer((request, response) => {
    void this.#serve(request, response);
  });
  #extension: Waiting | undefined;
  #runtime: Waiting | undefined;
  #changed: (() => void)[] = [];
  #requests = 0;
  #destination: URL | undefined;
  /** What extensions have registered as, and for. */
  registered: { name: string; events: string[] } | undefined;
  /** What the runtime has answered, by request. */
  readonly responses = new Map<string, unknown>();
  /** What the runtime could not do. */
  readonly errors: unknown[] = [];

  constructor(options: LambdaOptions = {}) {
    this.#options = options;
  }

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Whether the extension waits for the next event. */
  get extensionRests(): boolean {
    return this.#extension !== undefined;
  }

  /** Until the extension, and the runtime where there is one, wait for the next event: Lambda freezes then. */
  async frozen(runtime = false): Promise<void> {
    while (!(this.#extension && (!runtime || this.#runtime)))
      await new Promise<void>((wake) => this.#changed.push(wake));
  }

  /** Begins an invocation; the runtime gets the payload, where there is one. */
  invoke(payload: object = {}): string {
    const requestId = `request-${++this.#requests}`;
    const deadlineMs = Date.now() + (this.#options.timeout ?? 60_000);
    this.#takeExtension()({
      eventType: 'INVOKE',
      requestId,
      deadlineMs,
      tracing: { type: 'X' },
    });
    this.#runtime?.answer({ requestId, deadlineMs, payload });
    this.#runtime = undefined;
    return requestId;
  }

  shutDown() {
    const deadlineMs = Date.now() + 2000;
    this.#takeExtension()({ eventType: 'SHUTDOWN', shutdownReason: 'spindown', deadlineMs });
  }

  /** The end of the runtime's part of an invocation; resolves when the extension has taken it. */
  runtimeDone(requestId: string): Promise<number> {
    return this.post(
      JSON.stringify([
        { time: 'now', type: 'platform.start', record: { requestId, version: '$LATEST' } },
        {
          time: 'now',
          type: 'platform.runtimeDone',
          record: { spans: [{ name: 'x' }], status: 'success', requestId },
        },
      ]),
    );
  }

  /** Posts telemetry, of any kind. The status of the answer. */
  async post(body: string): Promise<number> {
    if (!this.#destination) throw new Error('nobody has subscribed to telemetry');
    const { port } = this.#destination;
    const posting = request({ host: '127.0.0.1', port, method: 'POST' });
    posting.end(body);
    const [response] = (await once(posting, 'response')) as [IncomingMessage];
    response.resume();
    return response.statusCode ?? 0;
  }

  #takeExtension(): (event: object) => void {
    const waiting = this.#extension;
    if (!waiting) throw new Error('the extension does not wait for an event');
    this.#extension = undefined;
    return waiting.answer;
  }

  #change() {
    for (const wake of this.#changed.splice(0)) wake();
  }

  #answer(response: ServerResponse, status: number, body: string, headers = {}) {
    response.writeHead(status, {
      'Content-Type': 'application/json',
      ...(this.#options.chunked ? {} : { 'Content-Length': Buffer.byteLength(body) }),
      ...headers,
    });
    const half = body.length >> 1;
    if (this.#options.chunked) response.write(body.slice(0, half));
    response.end(this.#options.chunked ? body.slice(half) : body);
  }

  async #serve(asked: IncomingMessage, response: ServerResponse) {
    let body = '';
    for await (const text of asked.setEncoding('utf8')) body += text;
    const path = `${asked.method} ${asked.url}`;
    const [, done] = /^POST \/2018-06-01\/runtime\/invocation\/([^/]+)\/response$/.exec(path) ?? [];
    if (path === 'POST /2020-01-01/extension/register') {
      const { refuse } = this.#options;
      if (refuse) return this.#answer(response, refuse.status, refuse.body);
      const name = String(asked.headers['lambda-extension-name']);
      this.registered = { name, events: JSON.parse(body).events };
      return this.#answer(response, 200, '{"functionName":"f"}', {
        'Lambda-Extension-Identifier': 'the-extension',
      });
    }
    if (path === 'PUT /2022-07-01/telemetry') {
      if (this.#options.telemetry === false)
        return this.#answer(response, 202, '{"errorType":"Telemetry.NotSupported"}');
      this.#destination = new URL(JSON.parse(body).destination.URI);
      return this.#answer(response, 200, 'OK');
    }
    if (path === 'GET /2020-01-01/extension/event/next') {
      if (asked.headers['lambda-extension-identifier'] !== 'the-extension')
        return this.#answer(response, 403, '{"errorType":"Extension.UnknownExtensionIdentifier"}');
      this.#extension = {
        answer: (event) => this.#answer(response, 200, JSON.stringify(event)),
      };
      return this.#change();
    }
    if (path === 'GET /2018-06-01/runtime/invocation/next') {
      this.#runtime = {
        answer: (event) => {
          const { requestId, deadlineMs, payload } = event as Record<string, unknown>;
          this.#answer(response, 200, JSON.stringify(payload), {
            'Lambda-Runtime-Aws-Request-Id': requestId,
            'Lambda-Runtime-Deadline-Ms': deadlineMs,
            'Lambda-Runtime-Invoked-Function-Arn': 'arn:aws:lambda:x:1:function:f',
          });
        },
      };
      return this.#change();
    }
    if (done) {
      this.responses.set(done, JSON.parse(body));
      this.#answer(response, 202, '');
      if (this.#destination) await this.runtimeDone(done);
      return;
    }
    this.errors.push({ path, body });
    return this.#answer(response, 404, '{"errorType":"NotFound"}');
  }
}
