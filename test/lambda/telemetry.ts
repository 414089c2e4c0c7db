// Between the runtime interface emulator and what it starts: passes everything on, and has the Telemetry API that the
// emulator lacks, which tells the extension when the runtime is done.
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export class TelemetryProxy {
  readonly #upstream: { host: string; port: number };
  readonly #server = createServer((asked, response) => {
    this.#serve(asked, response).catch(() => response.destroy());
  });
  #subscriber: number | undefined;
  /** Requests that the runtime has answered, in order. */
  readonly done: string[] = [];

  constructor(upstream: { host: string; port: number }) {
    this.#upstream = upstream;
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

  async #serve(asked: IncomingMessage, response: ServerResponse) {
    const chunks: Buffer[] = [];
    for await (const chunk of asked) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    if (asked.method === 'PUT' && asked.url === '/2022-07-01/telemetry') {
      this.#subscriber = Number(new URL(JSON.parse(`${body}`).destination.URI).port);
      response.end('OK');
      return;
    }
    const { method, url: path, headers } = asked;
    const forward = request({ ...this.#upstream, method, path, headers });
    response.once('close', () => forward.destroy());
    forward.end(body);
    const [answer] = (await once(forward, 'response')) as [IncomingMessage];
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
    const [, id] = /\/runtime\/invocation\/([^/]+)\/(?:response|error)$/.exec(path ?? '') ?? [];
    if (id !== undefined) {
      await once(answer, 'end');
      this.done.push(id);
      await this.#tell(id);
    }
  }

  async #tell(requestId: string) {
    if (this.#subscriber === undefined) return;
    const post = request({ host: '127.0.0.1', port: this.#subscriber, method: 'POST' });
    post.end(JSON.stringify([{ type: 'platform.runtimeDone', record: { requestId } }]));
    const [answer] = (await once(post, 'response')) as [IncomingMessage];
    answer.resume();
  }
}
