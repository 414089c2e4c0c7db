// The three ways to the server's end, and the processes they are made of.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { js, root } from '../../scripts/setup/paths.mjs';

export interface Ways {
  /** Where the guest connects: HOST:PORT or unix:PATH. */
  addresses: { direct: string; agent: string; relays: string };
  stop(): Promise<void>;
}

export async function startWays(folder: string): Promise<Ways> {
  const children: ChildProcess[] = [];
  const start = async (...args: string[]): Promise<string> => {
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    children.push(child);
    const line = once(createInterface({ input: child.stdout }), 'line').then(String);
    const ended = once(child, 'exit').then(([how]) => {
      throw new Error(`${args.join(' ')} ended with ${how} before it was ready`);
    });
    // Ending later is no failure.
    ended.catch(() => {});
    return Promise.race([line, ended]);
  };
  const stop = async () => {
    const gone = children.map((child) => once(child, 'exit'));
    for (const child of children) {
      child.stdin?.end();
      child.kill('SIGTERM');
    }
    await Promise.all(gone);
  };
  const here = (name: string) => path.join(js, 'bench', 'agent', name);
  const file = (name: string) => path.join(folder, name);
  try {
    const [cert, key] = certificate(folder);
    const ports = JSON.parse(await start(here('server.js'), cert, key));
    await start(
      path.join(root, 'bin', 'outboard.mjs'),
      'agent',
      ...['--listen', `unix:${file('agent')}`, '--log-level', 'warn'],
      ...['--server', `127.0.0.1:${ports.tls}`, '--ca', cert],
    );
    // As agent and front: from a Unix socket over TCP to a Unix socket, but for the last step.
    const second = await start(here('relay.js'), '0', String(ports.plain));
    await start(here('relay.js'), file('relay'), second);
    const addresses = {
      direct: `127.0.0.1:${ports.plain}`,
      agent: `unix:${file('agent')}`,
      relays: `unix:${file('relay')}`,
    };
    return { addresses, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function certificate(folder: string): [string, string] {
  const [cert, key] = [path.join(folder, 'cert.pem'), path.join(folder, 'key.pem')];
  const names = 'subjectAltName=IP:127.0.0.1';
  const made = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key];
  const what = ['-x509', '-days', '2', '-subj', '/CN=bench', '-addext', names, '-out', cert];
  execFileSync('openssl', ['req', ...made, ...what], { stdio: 'ignore' });
  return [cert, key];
}
