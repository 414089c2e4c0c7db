// One program that keeps the GPU busy, and how to run it here and there.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { build } from '../../bin/paths.mjs';

export const spin = path.join(build, 'bench', 'spin');

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
  const text = await run(['calibrate'], {
    LD_LIBRARY_PATH: path.join(build, 'software-device'),
  });
  return Number(text) / 1000;
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
  return run(args, { LD_LIBRARY_PATH: path.join(build, 'software-device') }).then(Number);
}

/** What cannot be cut: a kernel, or a graph. */
export function unitMicroseconds(load: Load): number {
  return load.form === 'graph' ? load.kernelMicroseconds * batchOf(load) : load.kernelMicroseconds;
}

/** Kernels that come to two milliseconds, so that there is always work, and not too much of it. */
function batchOf({ kernelMicroseconds }: Load): number {
  return Math.min(128, Math.max(1, Math.ceil(2000 / kernelMicroseconds)));
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
