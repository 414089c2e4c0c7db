// An `outboard agent` for a test: the real command in a process of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { encodeHello, type Hello } from '../../../api-server/src/control.js';
import { type Address, parseAddress } from '../../src/options/values.js';
import type { Line } from './front.js';
import { usualHello } from './guest.js';
import { outboard } from './serving.js';

interface Test {
  teardown(end: () => unknown): void;
}

export class Agent {
  readonly lines: Line[] = [];
  address = '';
  readonly child;
  readonly exit: Promise<number | string>;
  #wake: () => void = () => {};

  private constructor(args: string[]) {
    const words = [outboard, 'agent', '--log-level', 'debug', ...args];
    this.child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.exit = once(this.child, 'exit').then(([code, signal]) => {
      this.#wake();
      return signal ?? code;
    });
    createInterface({ input: this.child.stderr }).on('line', (line) => {
      this.lines.push(line.startsWith('{') ? JSON.parse(line) : { level: 0, msg: line });
      this.#wake();
    });
  }

  static async start(t: Test, ...args: string[]): Promise<Agent> {
    const agent = new Agent(args);
    t.teardown(async () => {
      agent.child.kill('SIGKILL');
      await agent.exit;
    });
    const said = createInterface({ input: agent.child.stdout });
    const line = await Promise.race([once(said, 'line').then(String), agent.exit]);
    const [, address] = /^listening on (.*)$/.exec(String(line)) ?? [];
    if (address === undefined) throw new Error(`${line}: ${JSON.stringify(agent.lines)}`);
    agent.address = address;
    return agent;
  }

  /** Until it says so. */
  async line(pattern: RegExp): Promise<Line> {
    for (;;) {
      const found = this.lines.find(({ msg }) => pattern.test(msg));
      if (found) return found;
      await new Promise<void>((wake) => {
        this.#wake = wake;
      });
    }
  }

  get tcp(): Address {
    return parseAddress(this.address);
  }

  connect(t: Test): Socket {
    const unix = this.address.startsWith('unix:');
    const at = unix ? { path: this.address.slice('unix:'.length) } : this.tcp;
    const guest = connect({ ...at, allowHalfOpen: true });
    t.teardown(() => guest.destroy());
    return guest.on('error', () => {});
  }

  hello(t: Test, hello: Partial<Hello> = {}): Socket {
    const guest = this.connect(t);
    guest.write(encodeHello({ ...usualHello, ...hello }));
    return guest;
  }
}
