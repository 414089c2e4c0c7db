// The demonstration's own `outboard serve`, in a process of its own on a free port.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { root } from '../../bin/paths.mjs';

export interface DemoServer {
  address: string;
  /** Milliseconds until its contexts were warm and it listened. */
  readyAfter: number;
  stop(): Promise<void>;
}

export async function startServer(options: string[]): Promise<DemoServer> {
  const started = performance.now();
  const outboard = path.join(root, 'bin', 'outboard.mjs');
  const args = [
    outboard,
    'serve',
    '--listen',
    '127.0.0.1:0',
    '--http',
    'none',
    '--log-level',
    'warn',
    ...options,
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  // Whatever ends the demonstration ends the server.
  const end = () => child.kill('SIGTERM');
  process.once('exit', end);
  const exit = once(child, 'exit').then(([code, signal]) => String(signal ?? code));
  const first = once(createInterface({ input: child.stdout }), 'line').then(String);
  const line = await Promise.race([first, exit]);
  const address = /^listening on (\S+)$/.exec(line)?.[1];
  if (address === undefined) throw new Error(`the server did not start (${line})`);
  return {
    address,
    readyAfter: performance.now() - started,
    async stop() {
      process.removeListener('exit', end);
      end();
      const how = await exit;
      if (how !== '0') throw new Error(`the server ended with ${how}`);
    },
  };
}
