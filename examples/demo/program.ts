// Running a CUDA program and keeping all that it said.
import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface Outcome {
  stdout: Buffer;
  stderr: string;
  /** Milliseconds from the start to the end of the process. */
  wall: number;
  /** Milliseconds of each part that the program timed (--time), by name. */
  laps: Record<string, number>;
}

/** Throws, with what it said, when the program does not end with 0. */
export async function runProgram(
  program: string,
  args: string[],
  env: NodeJS.ProcessEnv,
): Promise<Outcome> {
  const started = performance.now();
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout.on('data', (chunk) => out.push(chunk));
  child.stderr.on('data', (chunk) => err.push(chunk));
  const [code, signal] = await once(child, 'close');
  const wall = performance.now() - started;
  const stdout = Buffer.concat(out);
  const stderr = Buffer.concat(err).toString();
  if (code !== 0) {
    const how = signal ? `was ended by ${signal}` : `ended with ${code}`;
    throw new Error(`${program} ${args.join(' ')} ${how}:\n${stdout}${stderr}`);
  }
  return { stdout, stderr, wall, laps: lapsIn(stderr) };
}

/** From lines like "time: device    12.345 ms". */
export function lapsIn(stderr: string): Record<string, number> {
  const laps: Record<string, number> = {};
  for (const [, name = '', milliseconds] of stderr.matchAll(/^time: (.+?) +([\d.]+) ms$/gm)) {
    laps[name] = (laps[name] ?? 0) + Number(milliseconds);
  }
  return laps;
}
