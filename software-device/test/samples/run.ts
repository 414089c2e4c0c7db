// Runs a built sample on the device, natively or through a server, and judges what it did.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

export interface Run {
  args: string[];
  /** How many devices it needs. */
  devices: number;
  computeCapability: string;
}

export type Verdict = 'pass' | 'waived' | 'refused' | 'fail' | 'unfinished';

export interface Result {
  verdict: Verdict;
  /** For a person; empty when it passed, unless that took long. */
  why: string;
  seconds: number;
  output: string;
}

/** The samples' own convention: "not possible on this device". */
const EXIT_WAIVED = 2;
/** Seconds of processor time that a sample takes without the table saying so. */
const SHORT = 60;

export function run(
  program: string,
  { args, devices, computeCapability }: Run,
  libraryPath: string[],
  seconds: number,
  server?: string,
): Promise<Result> {
  const started = performance.now();
  const child = spawn(program, args, {
    cwd: path.dirname(program),
    env: {
      ...process.env,
      LD_LIBRARY_PATH: libraryPath.join(':'),
      SOFTWARE_DEVICE_GPUS: String(devices),
      SOFTWARE_DEVICE_COMPUTE_CAPABILITY: computeCapability,
      SOFTWARE_DEVICE_LOG: 'info',
      ...(server ? remotely(server, devices) : {}),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: some samples start processes themselves.
    detached: true,
  });
  let output = '';
  let late = false;
  let used = 0;
  const keep = (text: string) => {
    output = (output + text).slice(-200_000);
  };
  child.stdout.setEncoding('utf8').on('data', keep);
  child.stderr.setEncoding('utf8').on('data', keep);
  // Processor time, so that other load on the machine fails no sample; and an end for one that hangs.
  // Remoted, the time is the server's.
  const guard = setInterval(() => {
    const elapsed = (performance.now() - started) / 1000;
    const most = server ? seconds * 2 : seconds * 10;
    used = Math.max(used, processorSeconds(child.pid));
    if (used < seconds && elapsed < most) return;
    late = true;
    killGroup(child.pid);
  }, 500);
  return new Promise((resolve) => {
    const end = (verdict: Verdict, why: string) => {
      clearInterval(guard);
      const took = (performance.now() - started) / 1000;
      resolve({ verdict, why, seconds: took, output });
    };
    child.once('error', (error) => end('fail', error.message));
    child.once('close', (code, signal) => {
      killGroup(child.pid);
      if (late) return end('unfinished', `after ${seconds} s of processor time`);
      const [verdict, why] = judge(code, signal, output);
      return end(verdict, why || (used < SHORT || server ? '' : long(used)));
    });
  });
}

/** No more exactly than it is the same on the next day. */
function long(seconds: number): string {
  const minutes = Math.max(2, Math.ceil(seconds / 60));
  return `up to ${minutes} minutes of processor time`;
}

function remotely(server: string, devices: number): Record<string, string> {
  return { OUTBOARD_SERVER: server, OUTBOARD_GPUS: String(devices), OUTBOARD_LOG: 'warn' };
}

function judge(
  code: number | null,
  signal: NodeJS.Signals | null,
  output: string,
): [Verdict, string] {
  const lines = output.split('\n');
  const said = lines.filter((line) => !/^software-device: |^outboard /.test(line));
  // "FAILED" with status 0 is a failure too; "0 failed" and the like are not.
  const failed = said.find((line) => /\bFAILED\b|\bTest failed\b/.test(line));
  if (code === 0 && !failed) return ['pass', ''];
  const refusal = refusalIn(lines);
  if (code === EXIT_WAIVED) {
    const line = said.findLast((each) => /waiv|not support|requires|need/i.test(each));
    if (!refusal) return ['waived', clean(line ?? '')];
  }
  if (refusal) return ['refused', refusal];
  const line =
    failed ?? said.findLast((each) => /error|fail|abort|assert|mismatch/i.test(each)) ?? '';
  const end = signal ?? `status ${code}`;
  return ['fail', `${end}${line ? `: ${clean(line)}` : ''}`];
}

/** Why the device refused: an instruction if there is one, else a call. */
function refusalIn(lines: string[]): string | undefined {
  const unserved = lines.find((line) => /^outboard .* is not served/.test(line));
  if (unserved) return clean(unserved.replace(/^outboard [\d:.]+ \d+ warn: /, ''));
  const log = lines.filter((line) => line.startsWith('software-device: '));
  const instruction = log.find((line) => /: kernel .*PTX line \d+: .*`|refused/.test(line));
  const call = log.find((line) => /NOT_SUPPORTED|not supported/.test(line));
  const line = instruction ?? call;
  return line && clean(line.replace(/^software-device: \w+: /, ''));
}

/** Without what differs from run to run or machine to machine. */
function clean(line: string): string {
  return line
    .replace(/\/\S*\/(?=[^/\s]+)/g, '')
    .replace(/0x[0-9a-f]{6,}/g, '0x...')
    .trim()
    .slice(0, 160);
}

/** What a process has used so far, all threads. */
function processorSeconds(pid: number | undefined): number {
  try {
    // The name of the program may hold spaces and ends with the last parenthesis.
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [user = 0, system = 0] = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
      .map(Number);
    return (user + system) / 100;
  } catch {
    return 0;
  }
}

function killGroup(pid: number | undefined) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Nobody is left in the group.
  }
}
