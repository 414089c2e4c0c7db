// An `outboard serve` for a test: the real command in a process of its own, on a port of its own,
// with software GPUs.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { root } from '../../../bin/paths.mjs';
import type { View } from '../../src/base/view.js';
import { parseListen } from '../../src/network/listeners.js';
import type { Address } from '../../src/options/values.js';
import { ask } from './api.js';

export interface LogLine {
  level: number;
  msg: string;
  code?: string;
  [field: string]: unknown;
}

interface Test {
  teardown(end: () => unknown): void;
}

export const outboard = path.join(root, 'bin', 'outboard.mjs');

export class Serving {
  readonly child: ChildProcess;
  readonly lines: LogLine[] = [];
  /** The first one that it listens on. */
  address: Address = { host: '', port: 0 };
  /** All, as it writes them. */
  listening: string[] = [];
  /** Of the HTTP API. */
  http = '';
  exit: Promise<number | string>;
  #waiting: (() => void)[] = [];
  readonly #folder: string | null;

  private constructor(args: string[], env: NodeJS.ProcessEnv) {
    // Tenants mean operators, or a Unix socket, for which nobody needs a token.
    const tenants = args.includes('--tenants') && !args.includes('--http');
    this.#folder = tenants ? mkdtempSync(path.join(tmpdir(), 'outboard-api-')) : null;
    const usual = [
      'serve',
      '--listen',
      '127.0.0.1:0',
      '--http',
      this.#folder === null ? '127.0.0.1:0' : `unix:${path.join(this.#folder, 'api.sock')}`,
      '--device',
      'software',
      '--grace',
      '0',
    ];
    const words = args[0] === 'serve' ? args : [...usual, ...args];
    this.child = spawn(process.execPath, [outboard, ...words, '--log-level', 'debug'], {
      // What earlier runs left on disk is not this test's.
      env: { ...process.env, OUTBOARD_MODULE_CACHE: 'none', OUTBOARD_UPLOAD_CACHE: 'none', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.exit = once(this.child, 'exit').then(([code, signal]) => signal ?? code);
    if (!this.child.stderr) throw new Error('no stderr');
    createInterface({ input: this.child.stderr }).on('line', (line) => {
      this.lines.push(parseLine(line));
      for (const wake of this.#waiting.splice(0)) wake();
    });
    this.child.once('exit', () => {
      if (this.#folder !== null) rmSync(this.#folder, { recursive: true });
      for (const wake of this.#waiting.splice(0)) wake();
    });
  }

  /** Just started; ended with the test. Arguments that begin with `serve` are all there are. */
  static launch(t: Test, args: string[] = [], env: NodeJS.ProcessEnv = {}): Serving {
    const serving = new Serving(args, env);
    t.teardown(() => serving.stop());
    return serving;
  }

  /** Resolves when it listens. */
  static async start(t: Test, args: string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Serving> {
    const serving = Serving.launch(t, args, env);
    const { stdout } = serving.child;
    if (!stdout) throw new Error('no stdout');
    // All lines come in one write.
    const ready = once(stdout.setEncoding('utf8'), 'data');
    const text = await Promise.race([ready.then(([text]) => String(text)), serving.exit]);
    serving.listening = [...String(text).matchAll(/^listening on (.*)$/gm)].map(
      ([, one]) => one ?? '',
    );
    if (serving.listening.length === 0)
      throw new Error(`serve ended with ${text}:\n${serving.log}`);
    serving.http = /^operators: (.*)$/m.exec(String(text))?.[1] ?? '';
    const first = parseListen(serving.listening[0] ?? '');
    if (first.kind === 'tcp') serving.address = { host: first.host, port: first.port };
    return serving;
  }

  /** As its HTTP API shows it, to one who needs no token. */
  async state(): Promise<View> {
    const { http } = this;
    const { hostname: host, port } = http.startsWith('unix:')
      ? { hostname: '', port: 0 }
      : new URL(http);
    const api = port === 0 ? parseListen(http) : { kind: 'tcp' as const, host, port: Number(port) };
    return (await ask(api, 'GET', '/v1/state')).json;
  }

  get log(): string {
    return this.lines.map((line) => JSON.stringify(line)).join('\n');
  }

  /** The first line of the log, from `from` on, with these fields; waits for it. */
  async logged(wanted: Record<string, unknown>, from = 0): Promise<LogLine> {
    const fits = (line: LogLine) =>
      Object.entries(wanted).every(([name, value]) =>
        value instanceof RegExp ? value.test(String(line[name])) : line[name] === value,
      );
    for (;;) {
      const found = this.lines.slice(from).find(fits);
      if (found) return found;
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        throw new Error(`serve ended without logging ${JSON.stringify(wanted)}:\n${this.log}`);
      }
      await new Promise<void>((wake) => this.#waiting.push(wake));
    }
  }

  /** Ids of the API server processes now alive, as the log tells of them. */
  slotPids(): number[] {
    const ids = this.lines.map((line) => line['slotPid']).filter((pid) => typeof pid === 'number');
    return [...new Set(ids)].filter(isAlive);
  }

  async stop(): Promise<number | string> {
    this.child.kill('SIGTERM');
    return this.exit;
  }
}

/** What is not the log's is something that Node or a library has to say. */
function parseLine(line: string): LogLine {
  try {
    return JSON.parse(line);
  } catch {
    return { level: 0, msg: line };
  }
}

/** A zombie is not: in a container there may be nobody who collects it. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}
