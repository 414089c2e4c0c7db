// Programs that are run with a limit of time. Each has a process group of its own, so that what it starts ends with it,
// and none outlives the day.
import { type ChildProcess, spawn } from 'node:child_process';

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  /** Where it may leave files. */
  cwd?: string;
  /** What it reads. */
  input?: string;
  /** Then it is killed. */
  seconds: number;
}

export interface Ran {
  code: number | null;
  signal: NodeJS.Signals | null;
  /** It was killed because its time was over. */
  late: boolean;
  stdout: string;
  stderr: string;
  milliseconds: number;
}

export interface Started {
  child: ChildProcess;
  done: Promise<Ran>;
}

/** More is cut: a program that writes for ever must not fill the memory here. */
const mostText = 4 << 20;

export class Processes {
  readonly #running = new Set<ChildProcess>();
  #over = false;

  constructor() {
    process.once('exit', () => this.endAll());
  }

  start(argv: string[], { env, cwd, input, seconds }: RunOptions): Started {
    const [program = '', ...args] = argv;
    if (this.#over) throw new Error('the day is over');
    const begun = performance.now();
    const child = spawn(program, args, {
      env: env ?? process.env,
      cwd,
      detached: true,
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    this.#running.add(child);
    // One that ends at once reads nothing.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
    const text = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (part: string) => {
        if (text[name].length < mostText) text[name] += part;
      });
    }
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      end(child, 'SIGKILL');
    }, seconds * 1000);
    const done = new Promise<Ran>((resolve, reject) => {
      child.once('error', reject);
      // Not `close`: a child of its own that still holds the pipes would keep us.
      child.once('exit', (code, signal) => {
        const milliseconds = performance.now() - begun;
        // What it has left behind, at once: later its number may be another's.
        end(child, 'SIGKILL');
        const told = () => resolve({ code, signal, late, ...text, milliseconds });
        const soon = setTimeout(told, 1000);
        child.once('close', () => {
          clearTimeout(soon);
          told();
        });
      });
    }).finally(() => {
      clearTimeout(timer);
      this.#running.delete(child);
    });
    // Whoever waits for it hears of it.
    done.catch(() => {});
    return { child, done };
  }

  run(argv: string[], options: RunOptions): Promise<Ran> {
    return this.start(argv, options).done;
  }

  endAll() {
    for (const child of this.#running) end(child, 'SIGKILL');
  }

  /** Ends all, and lets nobody start more. */
  close() {
    this.#over = true;
    this.endAll();
  }
}

/** The process and all of its group. */
export function end(child: ChildProcess, signal: NodeJS.Signals) {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It is gone.
  }
}

/** How it ended, in words. */
export function ending({ code, signal, late, milliseconds }: Ran): string {
  if (late) return `did not end within ${Math.round(milliseconds / 1000)} s`;
  return signal ? `ended by ${signal}` : `ended with ${code}`;
}

/** The last line that says something. */
export function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? '';
}
