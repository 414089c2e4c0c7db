// Sessions that move while their programs run: who has them moved, and a program that goes step by step.
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import type { MoveView, SessionView, View } from '../../monitor/src/base/view.js';
import { type Outcome, outcome } from './program.js';
import { startServer, type TestServer } from './server.js';

export interface Problem {
  code: string;
  message: string;
}

/** Who asks the HTTP API of a server. */
export class Operator {
  readonly #http: string;

  /** A connection each: a server may close one that is idle just when it is used again. */
  readonly #headers: Record<string, string> = { connection: 'close' };

  constructor(server: TestServer, accessToken: string | null = null) {
    const [, http = ''] = /"http":\["([\d.:]+)"\]/.exec(server.log()) ?? [];
    this.#http = `http://${http}`;
    if (accessToken !== null) this.#headers['authorization'] = `Bearer ${accessToken}`;
  }

  async ask(
    method: string,
    route: string,
    body?: object,
    signal: AbortSignal | null = null,
  ): Promise<unknown> {
    const headers = this.#headers;
    const json = { 'content-type': 'application/json' };
    const sent = body
      ? { body: JSON.stringify(body), headers: { ...headers, ...json } }
      : { headers };
    const answer = await fetch(`${this.#http}${route}`, { method, signal, ...sent });
    const text = await answer.text();
    return text === '' ? undefined : JSON.parse(text);
  }

  async state(): Promise<View> {
    return (await this.ask('GET', '/v1/state')) as View;
  }

  /** The one that runs. */
  session() {
    return this.sessionThat(({ state }) => state === 'running');
  }

  /** As soon as there is one. */
  async sessionThat(fits: (session: SessionView) => boolean): Promise<SessionView> {
    for (;;) {
      const { sessions } = await this.state();
      const found = sessions.find(fits);
      if (found) return found;
    }
  }

  /** Until all processes wait for somebody. */
  async rested() {
    for (;;) {
      const { gpus, sessions } = await this.state();
      const free = gpus.every(({ slots }) => slots.every(({ state }) => state === 'free'));
      if (free && sessions.length === 0) return;
    }
  }

  async move(id: number, wish: object): Promise<MoveView | Problem> {
    return (await this.ask('PUT', `/v1/sessions/${id}/place`, wish)) as MoveView | Problem;
  }

  /** The same, once a process is there for it. */
  async moveSoon(id: number, wish: object): Promise<MoveView | Problem> {
    for (;;) {
      const answer = await this.move(id, wish);
      if (hasMoved(answer) || !/has no free slot/.test(answer.message)) return answer;
    }
  }

  async kill(id: number) {
    await this.ask('DELETE', `/v1/sessions/${id}`);
  }
}

export const hasMoved = (answer: MoveView | Problem): answer is MoveView => 'to' in answer;

/** With two places on each; `accessToken`: of an operator, where there are tenants. */
export async function startTwoGpus(
  t: Test,
  more: readonly string[] = [],
  accessToken: string | null = null,
  env: Record<string, string> = {},
): Promise<{ server: TestServer; operator: Operator }> {
  const args = ['--device', 'software', '--gpus', '2', '--servers-per-gpu', '2', ...more];
  const server = await startServer({ args: [...args, '--http', '127.0.0.1:0'], env });
  t.teardown(() => server.stop());
  await server.logged(/"http":/);
  return { server, operator: new Operator(server, accessToken) };
}

/** A program that takes a line for each step and answers it with lines, of which the last one is of the step. */
export class Steps {
  readonly outcome: Promise<Outcome>;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(child: ChildProcess) {
    this.#child = child;
    // It may have ended.
    child.stdin?.on('error', () => {});
    this.outcome = outcome(child);
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  async say(word: string): Promise<void> {
    this.#child.stdin?.write(`${word}\n`);
    const last = word === 'step' ? /^\d+: / : new RegExp(`^${word}$`);
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done || last.test(value)) return;
    }
  }

  kill() {
    this.#child.kill('SIGKILL');
  }

  end(): Promise<Outcome> {
    this.#child.stdin?.end('end\n');
    return this.outcome;
  }
}
