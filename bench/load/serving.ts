// The server under load: a real `outboard serve` with software GPUs, watched through /proc.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../bin/paths.mjs';
import { usageOf } from '../../monitor/src/base/usage.js';
import { type Address, parseAddress } from '../../monitor/src/options/values.js';
import { Guest } from '../../monitor/test/support/guest.js';
import { onDevice } from '../../test/support/device.js';

export class Loaded {
  readonly child: ChildProcess;
  readonly address: Address;
  /** Of the HTTP API. */
  readonly http: string;

  private constructor(child: ChildProcess, address: Address, http: string) {
    this.child = child;
    this.address = address;
    this.http = http;
  }

  static async start(
    gpus: number,
    serversPerGpu: number,
    args: string[] = [],
    env: Record<string, string> = {},
  ): Promise<Loaded> {
    const child = spawn(
      process.execPath,
      [
        path.join(root, 'bin', 'outboard.mjs'),
        'serve',
        ...[
          '--listen',
          '127.0.0.1:0',
          '--http',
          '127.0.0.1:0',
          '--log-level',
          'error',
          ...onDevice,
        ],
        ...['--gpus', String(gpus), '--servers-per-gpu', String(serversPerGpu), '--grace', '0'],
        ...args,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } },
    );
    // All lines come in one write.
    const [text] = await once(child.stdout.setEncoding('utf8'), 'data');
    const address = /^listening on (\S+)$/m.exec(String(text))?.[1];
    const http = /^operators: (\S+)$/m.exec(String(text))?.[1] ?? '';
    if (address === undefined) throw new Error(`outboard serve said: ${text}`);
    return new Loaded(child, parseAddress(address), http);
  }

  /** A guest that has been welcomed. */
  async attach(): Promise<Guest> {
    const guest = Guest.hello(this.address);
    await guest.welcome();
    return guest;
  }

  /** So that what is compiled or allocated once is. */
  async warm(sessions: number) {
    for (let i = 0; i < sessions; i++) await (await this.attach()).leave();
  }

  /** Bytes resident and descriptors open, of the monitor. */
  get monitor(): { memory: number; descriptors: number } {
    const pid = this.child.pid ?? 0;
    return {
      memory: usageOf(pid)?.memory ?? 0,
      descriptors: readdirSync(`/proc/${pid}/fd`).length,
    };
  }

  async stop() {
    const exit = once(this.child, 'exit');
    this.child.kill('SIGTERM');
    await exit;
  }
}
