// A real `outboard serve` with software GPUs, or the device under test, for one test file.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { onDevice } from './device.js';
import { cli } from './paths.js';

export interface TestServer {
  /** HOST:PORT, for OUTBOARD_SERVER. */
  address: string;
  /** tls://HOST:PORT, with `--tls-listen` behind the first one; else null. */
  tlsAddress: string | null;
  process: ChildProcess;
  /** What it logged so far, one JSON object per line. */
  log(): string;
  /** Waits until it has logged this: lines arrive some time after what they tell of. */
  logged(wanted: RegExp): Promise<void>;
  /**
   * Waits until it has seen a session end since the last call, and all that began: what programs
   * used then is known to it.
   */
  rested(): Promise<void>;
  /** Process ids of the API servers. */
  slots(): number[];
  /** Ends it with SIGTERM and waits; the exit code. */
  stop(): Promise<number | null>;
}

export interface ServerOptions {
  args?: string[];
  env?: Record<string, string>;
}

/** Servers that run, by what they logged so far. */
const logs = new Set<() => string>();

// The runner of tests says so to a file that takes too long; what its servers logged last may tell why.
process.once('SIGTERM', () => {
  for (const log of logs) {
    const lines = log().trimEnd().split('\n').slice(-20);
    process.stderr.write(`The server's log ends with:\n${lines.join('\n')}\n`);
  }
  process.exit(143);
});

export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const args = options.args ?? [...onDevice, '--gpus', '1', '--servers-per-gpu', '2'];
  // All slots know what one of them was sent: what a program costs does not depend on which it gets.
  const modules = mkdtempSync(path.join(tmpdir(), 'outboard-modules-'));
  const child = spawn(
    process.execPath,
    [cli, 'serve', '--listen', '127.0.0.1:0', '--http', 'none', '--grace', '0', ...args],
    {
      env: {
        ...process.env,
        OUTBOARD_MODULE_CACHE: modules,
        OUTBOARD_UPLOAD_CACHE: 'none',
        ...options.env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let log = '';
  const waiting: (() => void)[] = [];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log += text;
    for (const wake of waiting.splice(0)) wake();
  });
  const read = () => log;
  logs.add(read);
  const ended = once(child, 'exit').then((how) => {
    logs.delete(read);
    rmSync(modules, { recursive: true });
    return how;
  });
  let tlsAddress: string | null = null;
  const tls = args.includes('--tls-listen');
  const address = await new Promise<string>((resolve, reject) => {
    let first: string | undefined;
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    lines.on('line', (line) => {
      const [, found] = /^listening on (.+)$/.exec(line) ?? [];
      if (found?.startsWith('tls://')) tlsAddress = found;
      else first ??= found;
      if (first && (tlsAddress || !tls)) resolve(first);
    });
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}:\n${log}`)));
  });
  const until = async (there: () => boolean, what: string) => {
    while (!there()) {
      const more = new Promise<void>((wake) => waiting.push(wake));
      const over = ended.then(() => {
        if (!there()) throw new Error(`the server ended without logging ${what}:\n${log}`);
      });
      await Promise.race([more, over]);
    }
  };
  const lines = (message: RegExp) => log.match(message)?.length ?? 0;
  let ends = 0;
  return {
    address,
    tlsAddress,
    process: child,
    log: read,
    logged: (wanted) => until(() => wanted.test(log), `${wanted}`),
    async rested() {
      const now = () => lines(/"msg":"session (ends|lost)/g);
      await until(
        () => now() > ends && now() === lines(/"msg":"session begins"/g),
        'the end of its sessions',
      );
      ends = now();
    },
    slots: () => childrenOf(child.pid ?? 0),
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
      await ended;
      return child.exitCode;
    },
  };
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .split(' ')
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
}
