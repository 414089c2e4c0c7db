// One program that keeps the GPU busy, and how to run it here and there.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { build } from '../../bin/paths.mjs';
import { deviceUnderTest, searching } from '../../test/support/device.js';

const spin = path.join(build, 'bench', 'spin');

export interface Load {
  /** Percent of the GPU promised, and never exceeded. */
  request: number;
  limit: number;
  kernelMicroseconds: number;
  /** See spin.cu. */
  form: 'plain' | 'cooperative' | 'streams' | 'graph' | 'host' | 'host-streams';
  /** Milliseconds of work and of none; absent: always work. */
  burst?: [busy: number, pause: number];
}

export interface Program {
  name: string;
  load: Load;
  /** Kernels it has run; rejects when it fails. */
  done: Promise<number>;
}

/** Turns of the loop in a microsecond of a kernel that has the device for itself. */
export async function calibrate(): Promise<number> {
  let most = 0;
  // Whatever else runs on the machine makes it look slower.
  for (let i = 0; i < 10; i++)
    most = Math.max(most, Number(await run(['calibrate'], searching(deviceUnderTest()))));
  return most / 1000;
}

export function start(name: string, load: Load, turns: number, seconds: number, server: string) {
  const { kernelMicroseconds, form, request, limit, burst = [] } = load;
  const each = Math.max(1, Math.round(kernelMicroseconds * turns));
  const args = [String(each), String(seconds), form, String(batchOf(load)), ...burst.map(String)];
  const done = run(args, {
    LD_LIBRARY_PATH: path.join(build, 'guest-lib'),
    OUTBOARD_SERVER: server,
    OUTBOARD_NAME: name,
    OUTBOARD_SHARE: `${request}:${limit}`,
    OUTBOARD_MEMORY: '16M',
  }).then(Number);
  return { name, load, done } satisfies Program;
}

/** Without Outboard, on the same device: kernels that it runs. */
export function native(load: Load, turns: number, seconds: number): Promise<number> {
  const each = Math.max(1, Math.round(load.kernelMicroseconds * turns));
  const args = [String(each), String(seconds), load.form, String(batchOf(load))];
  return run(args, searching(deviceUnderTest())).then(Number);
}

/** What cannot be cut: a kernel, or a graph. */
export function unitMicroseconds(load: Load): number {
  return load.form === 'graph' ? load.kernelMicroseconds * batchOf(load) : load.kernelMicroseconds;
}

/**
 * Kernels that come to so much that there is always work, also where guests and servers wait for a processor.
 * A graph is one that cannot be cut, so it has only as many as come to two milliseconds.
 */
function batchOf({ kernelMicroseconds, form }: Load): number {
  const enough = form === 'graph' ? 2000 : 20_000;
  return Math.min(512, Math.max(1, Math.ceil(enough / kernelMicroseconds)));
}

async function run(args: string[], env: Record<string, string>): Promise<string> {
  const child = spawn(spin, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const end = () => child.kill();
  process.once('exit', end);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  const [code, signal] = await once(child, 'close');
  process.removeListener('exit', end);
  if (code !== 0) throw new Error(`spin ${args.join(' ')} ended with ${signal ?? code}`);
  return text.trim();
}
