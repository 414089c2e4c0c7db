import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import path from 'node:path';
import { build as defaultBuild } from '../../../bin/paths.mjs';
import { OutboardError } from '../base/errors.js';
import { type Command, exitCodes } from '../cli/command.js';
import {
  type Option,
  optionsHelp,
  readOptions,
  splitAtProgram,
  UsageError,
  type Values,
  yesNo,
} from '../options/options.js';
import {
  parseBytes,
  parseChoice,
  parseCount,
  parseGpuModel,
  parseGuestLog,
  parseName,
  parseServers,
  parseShare,
} from '../options/values.js';
import { accessTokenEnvironment, accessTokenOf, requireAccessToken } from '../run/access-token.js';
import { type Asked, cheaperLibraries, probeOf } from '../run/doctor.js';
import { whyNotPreloaded } from '../run/program-file.js';
import { pythonOf, pythonSettings } from '../run/python-client.js';
import { readStats } from '../run/stats.js';
import { statsPage } from '../run/stats-page.js';

/** What a program can ask for; `outboard doctor` takes the same. */
export const options = {
  server: {
    env: 'OUTBOARD_SERVER',
    value: 'ADDRESS',
    help: 'the server, HOST[:PORT] (port 4460 without one), tls://HOST[:PORT] (4462) or unix:/PATH; several separated by commas are tried in turn',
    parse: parseServers,
    fallback: '127.0.0.1:4460',
    shown: '127.0.0.1:4460',
  } satisfies Option<string>,
  'token-file': {
    env: 'OUTBOARD_TOKEN_FILE',
    value: 'FILE',
    help: 'the access token that says who asks',
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  ca: {
    env: 'OUTBOARD_CA',
    value: 'FILE',
    help: "for tls://: the certificates that vouch for the server's (PEM), or its own",
    parse: (text) => path.resolve(text),
    fallback: null,
    shown: "this system's authorities",
  } satisfies Option<string | null>,
  cert: {
    env: 'OUTBOARD_CERT',
    value: 'FILE',
    help: "for tls://: a client's certificate (PEM), where the server wants one",
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  key: {
    env: 'OUTBOARD_KEY',
    value: 'FILE',
    help: 'its private key (PEM)',
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  name: {
    env: 'OUTBOARD_NAME',
    value: 'NAME',
    help: 'what the function is called, for people and policies',
    parse: parseName,
    fallback: null,
    shown: "the program's name, of Python and the like that of the script or module",
  } satisfies Option<string | null>,
  class: {
    env: 'OUTBOARD_CLASS',
    value: 'CLASS',
    help: 'latency-strict or best-effort',
    parse: parseChoice('latency-strict', 'best-effort'),
    fallback: null,
    shown: "the tenant's",
  } satisfies Option<string | null>,
  gpus: {
    env: 'OUTBOARD_GPUS',
    value: 'N',
    help: 'how many GPUs the program wants, all different',
    // As many as a guest can have.
    parse: parseCount(1, 8, 'how many GPUs,'),
    fallback: null,
    shown: '1',
  } satisfies Option<number | null>,
  'gpu-model': {
    env: 'OUTBOARD_GPU_MODEL',
    value: 'NAME',
    help: 'part of the name that its GPUs have to have, as in H100; `outboard smi` shows names',
    parse: parseGpuModel,
    fallback: null,
    shown: 'any GPU will do',
  } satisfies Option<string | null>,
  memory: {
    env: 'OUTBOARD_MEMORY',
    value: 'BYTES',
    help: 'device memory the program wants on each GPU, as in 4G',
    parse: parseBytes,
    fallback: null,
    shown: "what the server's --session-memory says",
  } satisfies Option<bigint | null>,
  share: {
    env: 'OUTBOARD_SHARE',
    value: 'R[:L]',
    help: "percent of the GPU's time, promised and at most: 20:60; 20 alone is 20:20, so never more than 20",
    parse: parseShare,
    fallback: null,
    shown: 'nothing promised, and all that is left over',
  } satisfies Option<string | null>,
  libraries: {
    env: 'OUTBOARD_LIBRARIES',
    value: 'WHERE',
    help: 'whose cuBLAS the program calls: guest, its own, remote, that of the server, or auto, whichever has cost this --name less (docs/libraries.md)',
    parse: parseChoice('guest', 'remote', 'auto'),
    fallback: 'guest',
  } satisfies Option<string>,
  log: {
    env: 'OUTBOARD_LOG',
    value: 'LEVEL[:FILE]',
    help: "the guest library's log: off, error, warn, info, debug, trace",
    parse: parseGuestLog,
    fallback: null,
    shown: 'none; what ends or keeps waiting is said once',
  } satisfies Option<string | null>,
  stats: yesNo('OUTBOARD_SHOW_STATS', 'show on stderr what the run has cost, call by call'),
  'stats-file': {
    env: 'OUTBOARD_STATS',
    value: 'FILE',
    help: 'where the guest library counts that; kept',
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  trace: {
    env: 'OUTBOARD_TRACE',
    value: 'FILE',
    help: 'where the guest library records what happens when; see `outboard trace`',
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  build: {
    env: 'OUTBOARD_BUILD',
    value: 'DIR',
    help: 'where the native parts were built',
    parse: (text) => path.resolve(text),
    fallback: defaultBuild,
    hidden: true,
  } satisfies Option<string>,
};

export const run: Command = {
  name: 'run',
  summary: 'run a CUDA program on a GPU of an `outboard serve`',
  help: `Usage: outboard run [OPTIONS] [--] PROGRAM [ARGUMENTS]

Runs PROGRAM with Outboard's library in the place of the CUDA driver. It keeps this terminal,
gets the signals that this command gets, and its exit code becomes ours: 128+N if signal N ended
it, 127 if there is no such program, 126 if it cannot be executed.

Why it has no GPU, or loses it, is said on stderr, once for all its processes; also its place while it
waits for one (off a terminal after a second, then large steps, a line a minute at most, and that the
wait is over), and at its end that it wanted more memory than its session has.
With --log the log says so, and \`--log off\` says nothing. If
nothing works: \`outboard doctor\`.

Where the server's GPUs are made of software, which runs no machine code, Python programs are told
so: CUPY_COMPILE_WITH_PTX=1 for CuPy, and for Numba an empty nvJitLink (unless PyTorch is there). So
both work as they are; what calls cuBLAS, cuFFT or cuRAND needs a server with
SOFTWARE_DEVICE_COMPUTE_CAPABILITY=13.0, for which Numba makes nothing.

${optionsHelp(options)}
`,
  options,
  async run(args) {
    const [own, [program, ...rest]] = splitAtProgram(options, args);
    const values = readOptions(options, own, process.env);
    if (!program)
      throw new UsageError('no program to run: it stands behind the options, or behind --');
    requireAccessToken(values['token-file'], own, process.env);
    const stats = values.stats ? statsFile(values['stats-file']) : null;
    const notices = noticesFolder();
    try {
      // Who gives up on a busy server too early runs without what it would say.
      const patience = { connectSeconds: 5, waitSeconds: 0 };
      const knownBy = { ...process.env, ...accessTokenEnvironment(own), ...tlsEnvironment(values) };
      const libraries = await chosenLibraries(values, () => askedBy(values, knownBy, patience));
      const outer = librariesEnvironment(values.build, process.env, libraries);
      const env = guestEnvironment(values.build, outer, {
        OUTBOARD_SERVER: values.server,
        OUTBOARD_TOKEN_FILE: values['token-file'] ?? undefined,
        ...accessTokenEnvironment(own),
        ...tlsEnvironment(values),
        OUTBOARD_NAME: values.name ?? undefined,
        OUTBOARD_CLASS: values.class ?? undefined,
        OUTBOARD_GPUS: values.gpus?.toString(),
        OUTBOARD_GPU_MODEL: values['gpu-model'] ?? undefined,
        OUTBOARD_MEMORY: values.memory?.toString(),
        OUTBOARD_SHARE: values.share ?? undefined,
        OUTBOARD_LOG: values.log ?? undefined,
        OUTBOARD_STATS: stats?.path ?? values['stats-file'] ?? undefined,
        OUTBOARD_TRACE: values.trace ?? undefined,
        OUTBOARD_NOTICES: notices.path,
      });
      const quiet = values.log !== null;
      const problem = whyNotPreloaded(program, env);
      if (problem !== null && !quiet) say(problem);
      const python = pythonOf(program, env);
      if (python) {
        const asked = () => askedBy(values, env, patience);
        const remote = libraries === 'remote';
        Object.assign(env, await pythonSettings(python, env, values.build, asked, remote));
      }
      const code = await runProgram(program, rest, env);
      const refused = notices.kept('memory');
      if (refused !== null) say(refused);
      const found = code !== exitCodes.notFound && code !== exitCodes.notExecutable;
      const told = problem !== null || quiet || stats !== null;
      if (found && !told && process.stderr.isTTY && notices.called() === false) {
        say('nothing that ran here called CUDA, so that no GPU was asked for');
      }
      return code;
    } finally {
      notices.remove();
      stats?.show();
    }
  },
};

/**
 * Whose cuBLAS it is to be. For `auto` the server says which has cost the function less; nobody but its name says which
 * function that is, as what is run may be a script that runs another.
 */
async function chosenLibraries(
  { libraries, name }: Pick<Values<typeof options>, 'libraries' | 'name'>,
  asked: () => Asked,
): Promise<string> {
  if (libraries !== 'auto') return libraries;
  if (name === null)
    throw new UsageError('--libraries=auto goes by what a function has cost: name it with --name');
  // If something is wrong with what is asked for, the guest library says so.
  return Promise.resolve()
    .then(() => cheaperLibraries({ ...asked(), name }))
    .catch(() => 'guest');
}

/** Of what the program knows the server by, and the server it. */
export function tlsEnvironment(values: Pick<Values<typeof options>, 'ca' | 'cert' | 'key'>) {
  return {
    OUTBOARD_CA: values.ca ?? undefined,
    OUTBOARD_CERT: values.cert ?? undefined,
    OUTBOARD_KEY: values.key ?? undefined,
  };
}

/** What the program will ask for, as `outboard doctor` would ask, with its access token. */
export function askedBy(
  values: Pick<
    Values<typeof options>,
    'server' | 'gpus' | 'gpu-model' | 'memory' | 'share' | 'class' | 'build'
  > & {
    'token-file': string | null;
  },
  env: NodeJS.ProcessEnv,
  patience: Pick<Asked, 'connectSeconds' | 'waitSeconds'>,
): Asked {
  const [request = 0, limit = request] = (values.share ?? '0').split(':').map(Number);
  return {
    servers: values.server.split(','),
    accessToken: accessToken(env, values['token-file']),
    gpus: values.gpus ?? 1,
    gpuModel: values['gpu-model'] ?? '',
    memory: values.memory ?? 0n,
    shareRequest: request,
    shareLimit: limit,
    sessionClass: values.class ?? '',
    ...patience,
    env,
    probe: probeOf(values.build),
  };
}

function accessToken(env: NodeJS.ProcessEnv, file: string | null): string {
  try {
    return accessTokenOf(env, file);
  } catch (error) {
    throw new OutboardError('OB_AGENT_TOKEN', (error as Error).message);
  }
}

function say(text: string) {
  process.stderr.write(`outboard: ${text}\n`);
}

/** A file in which the program's processes note what one of them has said (guest-lib/src/base/notice.h). */
function noticesFolder() {
  let folder: string | null = null;
  try {
    folder = mkdtempSync(path.join(tmpdir(), 'outboard-run-'));
  } catch {
    // Where there is no room for the file, each process says it again.
  }
  return {
    path: folder ?? '/dev/null',
    /** Whether one of them has called CUDA; null: not known. */
    called: () => (folder === null ? null : existsSync(path.join(folder, 'called'))),
    /** What the guest library has left to be said at the end; null: nothing of that name. */
    kept(name: string): string | null {
      const file = path.join(folder ?? '', name);
      return folder !== null && existsSync(file) ? readFileSync(file, 'utf8') : null;
    },
    remove() {
      if (folder !== null) rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The file in which the run is counted, a temporary one if the user names none, and a function that shows it. */
function statsFile(wanted: string | null) {
  const folder = wanted === null ? mkdtempSync(path.join(tmpdir(), 'outboard-stats-')) : null;
  const file = wanted ?? path.join(folder ?? '', 'stats');
  return {
    path: file,
    show() {
      if (existsSync(file)) for (const line of statsPage(readStats(file))) say(line);
      else say('the program made no driver call');
      if (folder !== null) rmSync(folder, { recursive: true });
    },
  };
}

/** The program's environment: ours, with the guest library before everything else. */
export function guestEnvironment(
  build: string,
  base: NodeJS.ProcessEnv,
  settings: NodeJS.ProcessEnv,
): NodeJS.ProcessEnv {
  const folder = path.join(build, 'guest-lib');
  const library = path.join(folder, 'libcuda.so.1');
  if (!existsSync(library)) throw new OutboardError('OB_NOT_BUILT', library);
  // The loader takes both as separators, with no way to quote them.
  if (/[\s:]/.test(library)) throw new OutboardError('OB_PRELOAD_PATH', library);
  const prepend = (entry: string, list: string | undefined) => (list ? `${entry}:${list}` : entry);
  const env: NodeJS.ProcessEnv = {
    ...base,
    LD_PRELOAD: prepend(library, base['LD_PRELOAD']),
    LD_LIBRARY_PATH: prepend(folder, base['LD_LIBRARY_PATH']),
  };
  for (const [name, value] of Object.entries(settings)) {
    if (value !== undefined) env[name] = value;
  }
  return env;
}

/**
 * The environment, with our cuBLAS in the place of the program's where that is wanted: before others, and by an auditor
 * of the loader where the program names a path of its own (libraries/src/binding.c).
 */
function librariesEnvironment(build: string, base: NodeJS.ProcessEnv, wanted: string) {
  if (wanted !== 'remote') return base;
  const folder = path.join(build, 'libraries');
  const files = ['libcublas.so.13', 'libcublasLt.so.13', 'outboard-binding.so'];
  const [missing] = files
    .map((name) => path.join(folder, name))
    .filter((file) => !existsSync(file));
  if (missing) throw new OutboardError('OB_NOT_BUILT', missing);
  const { LD_LIBRARY_PATH: others, LD_AUDIT: auditors } = base;
  const binding = path.join(folder, 'outboard-binding.so');
  return {
    ...base,
    LD_AUDIT: auditors ? `${binding}:${auditors}` : binding,
    LD_LIBRARY_PATH: others ? `${folder}:${others}` : folder,
  };
}

const forwarded = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGWINCH',
] as const;
const fromTerminal: readonly string[] = ['SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGWINCH'];

function runProgram(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve) => {
    // Set up before the program runs: a signal in between would be lost, or end this process alone.
    for (const signal of forwarded) {
      process.on(signal, () => {
        // A terminal signals its whole foreground group: the program has it already.
        if (fromTerminal.includes(signal) && inForeground()) return;
        child.kill(signal);
      });
    }
    const child = spawn(program, args, { env, stdio: 'inherit' });
    child.once('error', (error: NodeJS.ErrnoException) => {
      const found = error.code !== 'ENOENT';
      const reason = found ? whyNotExecuted(program, error) : 'there is no such program';
      process.stderr.write(`outboard: cannot run ${program}: ${reason}\n`);
      resolve(found ? exitCodes.notExecutable : exitCodes.notFound);
    });
    child.once('exit', (code, signal) => {
      resolve(signal ? 128 + constants.signals[signal] : (code ?? exitCodes.unable));
    });
  });
}

function whyNotExecuted(program: string, { code, message }: NodeJS.ErrnoException): string {
  if (code !== 'EACCES') return message;
  const folder = statSync(program, { throwIfNoEntry: false })?.isDirectory();
  return folder ? 'it is a folder' : 'it is not executable, or not by this user';
}

/** Whether this process is in the group that the terminal sends its signals to. */
function inForeground(): boolean {
  // pid (name) state ppid pgrp session tty tpgid; the name may hold anything, parentheses too.
  const stat = readFileSync('/proc/self/stat', 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [, , group, , , foreground] = fields;
  return group === foreground;
}
