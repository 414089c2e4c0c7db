// A server whose log cannot be written: to a full disk, to a reader that has gone, to one that does
// not read. It must go on serving, and must not keep what it cannot say.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { usageOf } from '../../monitor/src/base/usage.js';
import { type Address, parseAddress } from '../../monitor/src/options/values.js';
import { Guest } from '../../monitor/test/support/guest.js';
import { outboard } from '../../monitor/test/support/serving.js';
import { onDevice } from '../../test/support/device.js';
import type { Teardowns } from './scope.js';
import { until } from './traces.js';

/**
 * full: a disk without room. gone: a pipe that nobody has the other end of. stalled: a pipe that
 * somebody has, who does not read. silent: stdout is full as well.
 */
export type LogFault = 'full' | 'gone' | 'stalled' | 'silent';

export const logFaults: LogFault[] = ['full', 'gone', 'stalled', 'silent'];

export class Unheard {
  readonly child: ChildProcess;
  readonly address: Address;

  private constructor(child: ChildProcess, address: Address) {
    this.child = child;
    this.address = address;
  }

  /** A server with a fault from its beginning on, at the level where it says most. */
  static async start(scope: Teardowns, fault: LogFault): Promise<Unheard> {
    const folder = mkdtempSync(path.join(tmpdir(), 'outboard-unheard-'));
    scope.teardown(() => rmSync(folder, { recursive: true }));
    const ready = path.join(folder, 'ready');
    const args = [
      ...['serve', '--listen', '127.0.0.1:0', '--http', 'none', ...onDevice, '--grace', '0'],
      ...['--servers-per-gpu', '2', '--log-level', 'trace', '--ready-file', ready],
    ];
    const child = spawnWith(fault, args);
    const exit = once(child, 'exit');
    scope.teardown(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await exit;
    });
    await until(() => existsSync(ready) || child.exitCode !== null || child.signalCode !== null);
    if (!existsSync(ready)) throw new Error(`it ended with ${child.signalCode ?? child.exitCode}`);
    return new Unheard(child, parseAddress(readFileSync(ready, 'utf8').trim()));
  }

  /** Guests that come, and connections that are refused, which is what most is logged about. */
  async serve(sessions: number) {
    for (let index = 0; index < sessions; index++) {
      const guest = Guest.hello(this.address, { name: `unheard-${index}` });
      await guest.welcome();
      await guest.leave();
      const nonsense = new Guest(this.address);
      nonsense.send('NONSENSE'.repeat(4));
      await nonsense.rest();
    }
  }

  /** Bytes resident. */
  get memory(): number {
    return usageOf(this.child.pid ?? 0)?.memory ?? 0;
  }

  /** The exit code, or the signal, of its end by SIGTERM. */
  async stop(): Promise<number | string> {
    const exit = once(this.child, 'exit');
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    const [code, signal] = await exit;
    return signal ?? code;
  }
}

function spawnWith(fault: LogFault, args: string[]): ChildProcess {
  const command = [outboard, ...args];
  if (fault === 'full' || fault === 'silent') {
    const full = openSync('/dev/full', 'w');
    const stdout = fault === 'silent' ? full : 'ignore';
    const child = spawn(process.execPath, command, { stdio: ['ignore', stdout, full] });
    closeSync(full);
    return child;
  }
  const child = spawn(process.execPath, command, { stdio: ['ignore', 'ignore', 'pipe'] });
  if (fault === 'gone') child.stderr?.destroy();
  else child.stderr?.pause();
  return child;
}
