// The ways to the server's end, and the processes they are made of.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { js, root } from '../../bin/paths.mjs';

/** The last two: over a network link of a given rate. */
export type Way = 'direct' | 'agent' | 'relays' | 'link' | 'linkAgent';

export interface Ways {
  /** Where the guest connects: HOST:PORT or unix:PATH. */
  addresses: Record<Way, string>;
  stop(): Promise<void>;
}

export async function startWays(folder: string, linkMegabits: number): Promise<Ways> {
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
    const agent = async (name: string, port: string) => {
      await start(
        path.join(root, 'bin', 'outboard.mjs'),
        'agent',
        ...['--listen', `unix:${file(name)}`, '--log-level', 'warn'],
        ...['--server', `127.0.0.1:${port}`, '--ca', cert],
      );
      return `unix:${file(name)}`;
    };
    const link = (port: number) => start(here('link.js'), String(port), String(linkMegabits));
    // As agent and front: from a Unix socket over TCP to a Unix socket, but for the last step.
    const second = await start(here('relay.js'), '0', String(ports.plain));
    await start(here('relay.js'), file('relay'), second);
    const addresses = {
      direct: `127.0.0.1:${ports.plain}`,
      agent: await agent('agent', ports.tls),
      relays: `unix:${file('relay')}`,
      link: `127.0.0.1:${await link(ports.plain)}`,
      linkAgent: await agent('link', await link(ports.tls)),
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
