// What all steps of a day have in common: the driver, programs natively and remoted, a server.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, existsSync, mkdtempSync, rmSync, type WriteStream } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build, root } from '../../bin/paths.mjs';
import type { View } from '../../monitor/src/base/view.js';
import { cleanEnvironment, type DayDriver, searching } from './driver.js';
import { type Answers, probe } from './probe.js';
import { end, ending, lastLine, type Processes, type Ran, type Started } from './processes.js';
import type { Found } from './results.js';

export interface DayOptions {
  /** Only enough to see that everything works. */
  short: boolean;
  /** Of the machine, if it has one. */
  python: string;
  /** How many programs run at a time, and slots of the server for them. */
  atOnce: number;
  /** For each `outboard serve`, behind our own. */
  serveOptions: string[];
  /** Where the lines of all servers go, and what programs said that did not do the same remoted. */
  log: string;
}

export interface Step {
  name: string;
  /** After so long it is cut, which counts as a difference. */
  seconds: number;
  run(day: Day): Promise<Found>;
}

export interface Group {
  /** For --only. */
  name: string;
  what: string;
  /** What is left of it then is left out. */
  seconds: number;
  steps: Step[];
}

/** Characters of what one program said. */
const mostKept = 4000;
export const guestFolder = path.join(build, 'guest-lib');
export const vectorAdd = path.join(build, 'examples', 'vector-add');

export class Day {
  /** Gone when the day is over. */
  readonly folder = mkdtempSync(path.join(os.tmpdir(), 'outboard-gpu-day-'));
  readonly driver: DayDriver;
  readonly processes: Processes;
  readonly options: DayOptions;
  readonly #log: WriteStream;
  /** Kept from when it is started: several programs may want it at the same time. */
  #server: Promise<Server> | undefined;

  constructor(driver: DayDriver, processes: Processes, options: DayOptions) {
    this.driver = driver;
    this.processes = processes;
    this.options = options;
    this.#log = createWriteStream(options.log, { flags: 'a' });
    // A full disk is told of by who writes the results.
    this.#log.on('error', () => {});
  }

  /** Keeps what a program said, here and there, whose result is not as it should be. */
  keep(name: string, runs: { natively?: Ran; remoted?: Ran }) {
    for (const [where, ran] of Object.entries(runs)) this.#keep(name, where, ran);
  }

  #keep(name: string, where: string, ran: Ran) {
    const said = [ran.stdout, ran.stderr].map((text) => text.slice(-mostKept)).join('\n');
    this.#log.write(`\n== ${name}, ${where}: ${ending(ran)}\n${said}\n==\n`);
  }

  /** How many programs run at a time. */
  get atOnce(): number {
    return this.driver.exclusive ? 1 : this.options.atOnce;
  }

  #environment(): NodeJS.ProcessEnv {
    const caches = ['CUDA_CACHE_PATH', 'CUPY_CACHE_DIR', 'TRITON_CACHE_DIR', 'XDG_CACHE_HOME'];
    const own = [...caches, 'TORCHINDUCTOR_CACHE_DIR', 'NUMBA_CACHE_DIR'].map((name) => {
      return [name, path.join(this.folder, name.toLowerCase())];
    });
    const { kind, instance } = this.driver;
    return {
      ...cleanEnvironment(kind),
      ...(instance === null ? {} : { CUDA_VISIBLE_DEVICES: instance }),
      ...Object.fromEntries(own),
      PYTHONDONTWRITEBYTECODE: '1',
      TMPDIR: this.folder,
    };
  }

  get nativeEnvironment(): NodeJS.ProcessEnv {
    const { kind, folder } = this.driver;
    const checks = kind === 'software' ? { SOFTWARE_DEVICE_CHECKS: 'exact' } : {};
    return { ...this.#environment(), ...searching(folder), ...checks };
  }

  remoteEnvironment(address: string): NodeJS.ProcessEnv {
    // Of the machine's GPUs; a session has one.
    const { CUDA_VISIBLE_DEVICES: _visible, ...env } = this.#environment();
    return {
      ...env,
      ...searching(guestFolder),
      OUTBOARD_SERVER: address,
      OUTBOARD_LOG: 'error',
    };
  }

  run(argv: string[], env: NodeJS.ProcessEnv, seconds: number): Promise<Ran> {
    return this.processes.run(argv, { env, cwd: this.folder, seconds });
  }

  native(argv: string[], seconds: number, more: NodeJS.ProcessEnv = {}): Promise<Ran> {
    return this.run(argv, { ...this.nativeEnvironment, ...more }, seconds);
  }

  async remoted(argv: string[], seconds: number, more: NodeJS.ProcessEnv = {}): Promise<Ran> {
    const { address } = await this.server();
    return this.run(argv, { ...this.remoteEnvironment(address), ...more }, seconds);
  }

  probe(name: string, options: Parameters<typeof probe>[4] = {}): Promise<Answers> {
    return probe(this.processes, name, this.driver.library, this.nativeEnvironment, options);
  }

  /** The same through Outboard. */
  async remoteProbe(name: string, options: Parameters<typeof probe>[4] = {}): Promise<Answers> {
    const { address } = await this.server();
    const library = path.join(guestFolder, 'libcuda.so.1');
    return probe(this.processes, name, library, this.remoteEnvironment(address), options);
  }

  /** The one that is there, or a new one with as many slots as programs run at a time. */
  async server(): Promise<Server> {
    const before = this.#server;
    if (before && !(await before.catch(() => ({ ended: true }))).ended) return before;
    // Who came first has begun a new one meanwhile.
    if (this.#server === before) this.#server = this.startServer(this.atOnce);
    return this.#server ?? this.startServer(this.atOnce);
  }

  /** Natively a GPU in exclusive mode is for one: then no server may be there. */
  async noServer() {
    const server = this.#server;
    this.#server = undefined;
    await (await server?.catch(() => undefined))?.stop();
  }

  async startServer(slots: number, args: string[] = []): Promise<Server> {
    const env = { ...this.#environment(), ...searching(this.driver.folder) };
    const argv = [
      ...[process.execPath, path.join(root, 'bin', 'outboard.mjs'), 'serve'],
      ...['--listen', '127.0.0.1:0', '--http', '127.0.0.1:0', '--grace', '0'],
      ...['--module-cache', 'none', '--upload-cache', 'none', '--log-level', 'info'],
      ...['--device', this.driver.serve, '--gpus', '1'],
      ...['--servers-per-gpu', String(this.driver.exclusive ? 1 : slots), ...args],
      ...this.options.serveOptions,
    ];
    const begun = performance.now();
    const started = this.processes.start(argv, { env, seconds: 3600 });
    started.child.stderr?.pipe(this.#log, { end: false });
    return Server.ready(started, begun);
  }

  /** Whether the device still does what it is told. */
  async alive(): Promise<string | null> {
    const answers = await this.probe('alive', { seconds: 30 });
    return answers['error'] === undefined ? null : `${answers['error']}`;
  }

  async over() {
    await this.noServer().catch(() => {});
    this.processes.close();
    this.#log.end();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

export class Server {
  readonly address: string;
  readonly http: string;
  /** From its start until guests could connect. */
  readonly milliseconds: number;
  readonly #started: Started;
  ended = false;

  private constructor(started: Started, address: string, http: string, milliseconds: number) {
    this.#started = started;
    this.address = address;
    this.http = http;
    this.milliseconds = milliseconds;
    void started.done.finally(() => {
      this.ended = true;
    });
  }

  static async ready(started: Started, begun: number): Promise<Server> {
    const { child, done } = started;
    let text = '';
    const said = new Promise<void>((resolve) => {
      child.stdout?.on('data', (part: string) => {
        text += part;
        if (/^listening on \S+$/m.test(text) && /^operators: \S+$/m.test(text)) resolve();
      });
    });
    const late = sleep(60_000, 'late' as const, { ref: false });
    const first = await Promise.race([said, done, late]);
    if (first === 'late') end(child, 'SIGKILL');
    if (first !== undefined) {
      const ran = await done;
      throw new Error(`outboard serve ${ending(ran)}: ${lastLine(ran.stderr)}`);
    }
    const [, address = ''] = /^listening on (\S+)$/m.exec(text) ?? [];
    const [, http = ''] = /^operators: (\S+)$/m.exec(text) ?? [];
    return new Server(started, address, http, performance.now() - begun);
  }

  get pid(): number {
    return this.#started.child.pid ?? 0;
  }

  async view(): Promise<View> {
    const answer = await fetch(new URL('v1/state', this.http), {
      signal: AbortSignal.timeout(10_000),
    });
    return (await answer.json()) as View;
  }

  async stop() {
    const { child, done } = this.#started;
    if (this.ended) return;
    // Only the monitor, which ends its slots.
    child.kill('SIGTERM');
    const exit = child.exitCode === null ? once(child, 'exit') : Promise.resolve();
    await Promise.race([exit, sleep(10_000, null, { ref: false })]);
    end(child, 'SIGKILL');
    await done;
  }
}

/** Of a program's output, enough to see whether it is the same as elsewhere. */
export function digest({ code, stdout }: Pick<Ran, 'code' | 'stdout'>): string {
  return createHash('sha256').update(`${code}\n${stdout}`).digest('hex').slice(0, 12);
}

/** Answers of a probe, whose names get a word in front. */
export function named(prefix: string, answers: Answers): NonNullable<Found['figures']> {
  const entries = Object.entries(answers).filter(([name]) => {
    return !['version', 'what', 'error'].includes(name);
  });
  return Object.fromEntries(entries.map(([name, value]) => [`${prefix}${name}`, value]));
}

/** A probe's answers as what a step has found. */
export function probed(name: string, answers: Answers, prefix = ''): Found {
  const figures = named(prefix, answers);
  if (answers['error'] === undefined) return { figures };
  return { figures, differs: [{ name, how: `${answers['error']}` }] };
}

export function isBuilt(file: string): boolean {
  return existsSync(file);
}
