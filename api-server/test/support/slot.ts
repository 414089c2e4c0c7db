// An API server process as the monitor starts it, without a sandbox.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Channel } from '../../src/channel.js';
import type { FromSlot, ToSlot } from '../../src/ipc.js';

const main = fileURLToPath(new URL('../../src/main.js', import.meta.url));

/** With `tokens` as its quota page. */
export function startSlot(tokens: number | 'ignore' = 'ignore') {
  const stdio = ['ignore', 'ignore', 'inherit', 'pipe', 'ignore', tokens] as const;
  const child = spawn(process.execPath, [main], { stdio: [...stdio] });
  const waiting: ((message: FromSlot) => void)[] = [];
  const channel = new Channel(child.stdio[3] as Duplex, {
    onMessage: (message) => waiting.shift()?.(message as FromSlot),
    onOver: () => {},
  });
  const exit = once(child, 'exit').then(([code]) => code);
  /** Its next word, after this one. */
  const ask = (message: ToSlot) => {
    const answer = new Promise<FromSlot>((resolve) => waiting.push(resolve));
    channel.send(message);
    return answer;
  };
  return { ask, exit, leave: () => channel.close() };
}
