// Runs a compiled CUDA program natively on the software device, or the one under test, or remoted through a server.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Phase, type Phases, readStats } from '../../monitor/src/run/stats.js';
import { deviceUnderTest } from './device.js';
import { build, cudartFolder, guestLibrary } from './paths.js';

export interface Outcome {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** How a program finds the library that stands in for the driver. */
export type Loading = 'LD_PRELOAD' | 'LD_LIBRARY_PATH';

export interface RunOptions {
  args?: string[];
  env?: Record<string, string>;
  loading?: Loading;
  /** Whether the test writes to its standard input; absent: that is empty. */
  writes?: boolean;
}

export function example(name: string): string {
  return path.join(build, 'examples', name);
}

export function testProgram(name: string): string {
  return path.join(build, 'test-programs', name);
}

const device = deviceUnderTest();

function environment(library: string, options: RunOptions): NodeJS.ProcessEnv {
  const folders =
    options.loading === 'LD_PRELOAD' || !path.isAbsolute(library) ? [] : [path.dirname(library)];
  if (cudartFolder) folders.push(cudartFolder);
  if (!device.software && process.env['LD_LIBRARY_PATH'])
    folders.push(process.env['LD_LIBRARY_PATH']);
  return {
    ...process.env,
    LD_LIBRARY_PATH: folders.join(':'),
    ...(device.software && library === device.library ? { SOFTWARE_DEVICE_CHECKS: 'exact' } : {}),
    ...(options.loading === 'LD_PRELOAD' ? { LD_PRELOAD: library } : {}),
    ...options.env,
  };
}

function start(program: string, library: string, options: RunOptions): ChildProcess {
  return spawn(program, options.args ?? [], {
    env: environment(library, options),
    stdio: [options.writes ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  });
}

export function outcome(child: ChildProcess): Promise<Outcome> {
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
    child.once('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

export function startNative(program: string, options: RunOptions = {}) {
  return start(program, device.library, options);
}

export function native(program: string, options: RunOptions = {}): Promise<Outcome> {
  return outcome(startNative(program, options));
}

export function startRemoted(program: string, address: string, options: RunOptions = {}) {
  const env = { OUTBOARD_SERVER: address, ...options.env };
  return start(program, guestLibrary, { ...options, env });
}

export function remoted(
  program: string,
  address: string,
  options: RunOptions = {},
): Promise<Outcome> {
  return outcome(startRemoted(program, address, options));
}

/** What a part of a remoted run cost, from the guest's own counters (guest-lib/src/base/stats.h). */
export interface Cost {
  calls: number;
  commands: number;
  roundTrips: number;
  /** Without the program's own images, whose size is the compiler's matter. */
  bytesSent: number;
  bytesReceived: number;
}

function costOf(part: Phase): Cost {
  const { calls, commands, roundTrips, bytesSent, bytesReceived, imageBytes } = part;
  return { calls, commands, roundTrips, bytesSent: bytesSent - imageBytes, bytesReceived };
}

export interface CountedOutcome extends Outcome {
  cost: Cost;
  phases: Record<keyof Phases, Cost>;
  /** Calls the program made that are not served. */
  unsupported: number;
  /** Names of the driver calls it made. */
  made: string[];
  /** Of the program's own images that were sent. */
  imageBytes: number;
  /** Of uploads that were not sent, because the server had them. */
  cachedBytes: number;
}

export async function counted(
  program: string,
  address: string,
  options: RunOptions = {},
): Promise<CountedOutcome> {
  const folder = mkdtempSync(path.join(tmpdir(), 'outboard-stats-'));
  try {
    const file = path.join(folder, 'stats');
    const env = { ...options.env, OUTBOARD_STATS: file };
    const result = await remoted(program, address, { ...options, env });
    const stats = readStats(file);
    const phases = Object.fromEntries(
      Object.entries(stats.phases).map(([name, phase]) => [name, costOf(phase)]),
    ) as Record<keyof Phases, Cost>;
    const { unsupported, imageBytes, cachedBytes } = stats;
    const made = stats.byCall.map(({ name }) => name);
    return { ...result, unsupported, made, imageBytes, cachedBytes, cost: costOf(stats), phases };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
