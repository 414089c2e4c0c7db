// perf, as far as profiles need it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

/** Samples a second: few enough that copying the stacks does not show. */
const frequency = 499;
/** Of stacks, for unwinding by the debug information: nothing of ours keeps frame pointers. */
const stackBytes = 8192;
const textMost = 1 << 30;

/** Null: perf works here. */
export function whyNoPerf(): string | null {
  const { error, status, stderr } = spawnSync(
    'perf',
    ['record', '-q', '-o', '/dev/null', '--', 'true'],
    { encoding: 'utf8' },
  );
  if (error) return `there is no perf (Debian: apt-get install linux-perf): ${error.message}`;
  return status === 0 ? null : `perf does not work here: ${stderr.trim()}`;
}

const record = (file: string) => [
  ...['record', '-q', '-F', String(frequency)],
  ...['--call-graph', `dwarf,${stackBytes}`, '-o', file],
];

/** Runs a program to its end. */
export async function recordProgram(file: string, argv: string[]): Promise<void> {
  await ended(
    spawn('perf', [...record(file), '--', ...argv], { stdio: ['ignore', 'ignore', 'inherit'] }),
  );
}

/** Watches a process while something else happens. */
export async function recordProcess(file: string, pid: number, during: () => Promise<void>) {
  const watching = spawn('perf', [...record(file), '-p', String(pid)], { stdio: 'inherit' });
  const end = ended(watching);
  // perf does not say when it has begun.
  await Promise.race([sleep(500), end]);
  try {
    await during();
  } finally {
    watching.kill('SIGINT');
  }
  await end;
}

async function ended(perf: ChildProcess): Promise<void> {
  const [code, signal] = await once(perf, 'exit');
  if (code !== 0 && signal !== 'SIGINT') throw new Error(`perf ended with ${signal ?? code}`);
}

/** All samples with their stacks; of one program if it is named. */
export function samplesOf(file: string, program?: string): string {
  return text([
    ...['script', '-i', file, '--no-inline', '-F', 'comm,tid,time,event,ip,sym,dso'],
    ...(program === undefined ? [] : ['--comms', program]),
  ]);
}

/** Functions by their own part of the processor time. */
export function functionsOf(file: string, program?: string): string {
  const lines = text([
    ...['report', '-i', file, '--stdio', '--no-children', '-g', 'none', '--no-inline'],
    ...['--sort', 'dso,sym', '--percent-limit', '0.5'],
    ...(program === undefined ? [] : ['--comms', program]),
  ]);
  return lines
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => /^\s*\d+\.\d+%/.test(line))
    .join('\n');
}

function text(argv: string[]): string {
  const { status, stdout, stderr } = spawnSync('perf', argv, {
    encoding: 'utf8',
    maxBuffer: textMost,
  });
  if (status !== 0) throw new Error(`perf ${argv[0]} ended with ${status}: ${stderr}`);
  return stdout;
}
