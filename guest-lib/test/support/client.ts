// Runs guest-client (client.c), a program linked to the guest library, and tells what it printed.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build, guestLibrary } from '../../../test/support/paths.js';

export const client = path.join(build, 'guest-lib', 'test', 'guest-client');

/** strange.c, likewise. */
export const strange = path.join(build, 'guest-lib', 'test', 'guest-strange');

export interface Run {
  /** One per line of output: `cuInit CUDA_SUCCESS`. */
  lines: string[];
  stderr: string;
  code: number | null;
  signal: NodeJS.Signals | null;
}

export type Environment = Record<string, string | undefined>;

export function start(what: string | string[], env: Environment, program = client): ChildProcess {
  return spawn(program, [what].flat(), {
    env: { ...process.env, LD_LIBRARY_PATH: path.dirname(guestLibrary), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

export async function ended(child: ChildProcess): Promise<Run> {
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => {
      resolve({ lines: stdout.split('\n').filter(Boolean), stderr, code, signal });
    });
  });
}

export function run(what: string, env: Environment, program = client): Promise<Run> {
  return ended(start(what, env, program));
}

/** Resolves when its output matches, or ends. */
export function printed(child: ChildProcess, pattern: RegExp): Promise<void> {
  return new Promise((resolve) => {
    let seen = '';
    child.stdout?.on('data', (text: string) => {
      seen += text;
      if (pattern.test(seen)) resolve();
    });
    child.once('close', () => resolve());
  });
}

/** Calls `act` once the program has printed `ready`, then lets it go on. */
export async function between(
  what: string,
  env: Environment,
  act: () => Promise<unknown>,
): Promise<Run> {
  const child = start(what, env);
  const result = ended(child);
  await printed(child, /^ready$/m);
  await act();
  child.stdin?.on('error', () => {}).end('go on\n');
  return result;
}

/** The names of guest-lib/src/base/stats.h, read from the file that a run wrote. */
export interface Stats {
  magic: string;
  version: number;
  callCount: number;
  calls: number;
  unsupported: number;
  commands: number;
  roundTrips: number;
  byCall: number[];
}

export async function withStats(
  act: (file: string) => Promise<Run>,
): Promise<{ result: Run; stats: Stats }> {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-stats-'));
  try {
    const file = path.join(folder, 'stats');
    const result = await act(file);
    const bytes = readFileSync(file);
    const at = (index: number) => Number(bytes.readBigUInt64LE(index * 8));
    const byCall = Array.from({ length: 1024 }, (_, index) => at(32 + index));
    return {
      result,
      stats: {
        magic: bytes.toString('latin1', 0, 8),
        version: at(1),
        callCount: at(2),
        calls: at(3),
        unsupported: at(4),
        commands: at(5),
        roundTrips: at(6),
        byCall,
      },
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
